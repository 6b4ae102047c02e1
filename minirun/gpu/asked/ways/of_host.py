"""The way of `--gpus 0,1`: variables for NVIDIA's hook, of this host's or the simulated driver.

Whether such GPUs exist is found out in stage 5, as in the real stack; only a count needs to know it
now.
"""

from __future__ import annotations

from minirun.core.lazy import lazy
from minirun.gpu import drivers
from minirun.gpu.asked.of_bundle import variables
from minirun.gpu.asked.ways.records import GpuRequest, RunGpus

with lazy:
    from minirun.gpu.share import count  # few ask for a count


def is_asked(request: GpuRequest, given: RunGpus) -> bool:
    """Return True for --gpus, unless another vendor or CDI gives them."""
    flags = request.flags
    return flags.gpus is not None and flags.mode != "cdi" and not given.choices.gpu_driver


def give(request: GpuRequest, given: RunGpus) -> RunGpus:
    """Return `given` with the variables for NVIDIA's hook. Raises UsageError, GPUError, OSError."""
    flags, selector = request.flags, request.selector
    driver = request.driver_to_tell()
    devices = _counted(request, driver) if selector.amount else selector.devices
    there = (*flags.image_env, *flags.variables)
    return given.by_variables(request, driver, *variables(devices, selector.capabilities, there))


def _counted(request: GpuRequest, driver: str) -> list[str]:
    """Return the GPUs that count=N takes. Raises UsageError, GPUError, OSError."""
    flags, settings = request.flags, request.settings
    found = drivers.inventory(driver, settings.store, flags.driver_root, flags.dev_root)
    indices, hint = [str(gpu.number) for gpu in found.gpus], found.describe_gpus()
    return count.choose(request.selector, indices, driver, (settings, request.container_id), hint)
