"""The way of `--gpus 0,1`: variables for NVIDIA's hook, of this host's or the simulated driver.

    run --gpus 0,1 IMAGE                the user of minirun says it
    --gpus=0,1 create --bundle DIR ID   the engine's configuration says it, and DIR does not

Whether such GPUs exist is found out in stage 5, as in the real stack; only a count needs to know it
now.
"""

from __future__ import annotations

from minirun.core.config import GPU_HOOK_ROW, Config, environment_of
from minirun.core.errors import UsageError
from minirun.core.lazy import lazy
from minirun.gpu import drivers
from minirun.gpu.asked.request import VISIBLE
from minirun.gpu.asked.select import parse_gpus
from minirun.gpu.asked.ways.records import GpuRequest, RunGpus

with lazy:
    from minirun.gpu.share import count  # few ask for a count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"


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
    return given.by_variables(request, driver, *_variables(devices, selector.capabilities, there))


def into_bundle(config: Config) -> Config:
    """Return a copy of `config` with the GPUs that --gpus named before the command.

    What the bundle's own variable asks for no longer counts. Raises UsageError.
    """
    text = config.choices.gpus or ""
    selector = parse_gpus(text)
    if selector.amount:
        hint = "as in --gpus 0,1: no GPU is reserved for a bundle"
        raise UsageError(f"--gpus {text}: a count, with a bundle", hint)
    there: list[str] = config.process.get("env") or []
    kept = [entry for entry in there if not entry.startswith(f"{VISIBLE}=")]
    env = [*kept, *_variables(selector.devices, selector.capabilities, there)]
    hooks = dict(config.raw.get("hooks") or {})
    if not any(config.in_line(hook) for _, _, hook in config.hooks_of_stage_3()):
        hooks["prestart"] = [*(hooks.get("prestart") or []), GPU_HOOK_ROW]
    raw = {**config.raw, "hooks": hooks, "process": {**config.process, "env": env}}
    choices = config.choices._replace(exclusive=config.choices.exclusive or selector.exclusive)
    return Config(raw, config.bundle, choices)


def _variables(
    devices: Iterable[str], capabilities: Iterable[str], there: Iterable[str]
) -> tuple[str, ...]:
    """Return the variables of NVIDIA's hook; the capabilities of `there` stay, as with docker."""
    chosen = f"{VISIBLE}={','.join(devices)}"
    named = ",".join(capabilities)
    if not named and _CAPABILITIES in environment_of(there):
        return (chosen,)
    return chosen, f"{_CAPABILITIES}={named or 'compute,utility'}"


def _counted(request: GpuRequest, driver: str) -> list[str]:
    """Return the GPUs that count=N takes. Raises UsageError, GPUError, OSError."""
    flags, settings = request.flags, request.settings
    found = drivers.inventory(driver, settings.store, flags.driver_root, flags.dev_root)
    indices, hint = [str(gpu.number) for gpu in found.gpus], found.describe_gpus()
    return count.choose(request.selector, indices, driver, (settings, request.container_id), hint)
