"""--gpu-mode hook: NVIDIA's installed hook, executed as any other; stages 4 and 5 are its own."""

from __future__ import annotations

from minirun.core.config import DEFAULT_PATH, GPU_HOOK
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.gpu import drivers, share, simulated
from minirun.gpu.asked import select
from minirun.gpu.nvidia.cli import planner
from minirun.gpu.nvidia.shared import environment, lookup
from minirun.gpu.simulated import spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def row(driver: str, store: str) -> dict[str, Any]:
    """Return the hook as config.json names it: the installed program. Raises UsageError.

    Hooks get no environment but this. If the driver is simulated, it has MINIRUN_SIM for minirun's
    own hook; the real hook fails then.
    """
    path = lookup.program(GPU_HOOK)
    if not path:
        hint = "install NVIDIA's container toolkit, or leave --gpu-mode out"
        raise UsageError(f"--gpu-mode hook: no {GPU_HOOK} in PATH or /usr/bin", hint)
    env = [f"PATH={DEFAULT_PATH}"]
    if driver == "simulated":
        simulation = spec.load(*simulated.in_force(store))
        env += [f"MINIRUN_SIM={simulation}", f"MINIRUN_STORE={store}"]
    return {"path": path, "args": [GPU_HOOK, "prestart"], "env": env}


def record(container: Container) -> None:
    """Record that this container has the GPUs of its environment. Raises GPUError, OSError."""
    config = container.config
    found = drivers.inventory(config.choices.gpu_driver, container.settings.store)
    devices = environment.visible(config.environment) or ()
    given = planner.given_gpus(found, select.choose(found, devices))
    share.record_holders(container, given, found.simulated)
