"""Who holds the GPUs that an installed hook puts in: what its container's environment asks for."""

from minirun.core.container import Container
from minirun.gpu import drivers, select
from minirun.gpu.nvidia.cli import planner
from minirun.gpu.nvidia.hook import environment
from minirun.gpu.share import record_holders


def record(container: Container, driver: str) -> None:
    """Write down that a container has these GPUs. Raises GPUError, OSError."""
    found = drivers.inventory(driver, container.settings.store)
    devices = environment.visible(container.config.environment) or ()
    given = planner.given_gpus(found, select.choose(found, devices))
    record_holders(container, given, found.simulated)
