"""What `run IMAGE` asks for of GPUs and CDI devices, and what config.json gets for that (Figure 2).

Three modes (--gpu-mode): legacy, the environment's variables, which stages 4 and 5 obey in-line;
hook, the same, and NVIDIA's own hook; cdi, the edits of CDI specs. Other vendors: vendor_request.
"""

from __future__ import annotations

from minirun.core.config import environment_of
from minirun.core.errors import UsageError
from minirun.core.keeping.choices import DEFAULTS, Choices
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy
from minirun.gpu.asked import drivers, select
from minirun.gpu.asked.request import CDI_ANNOTATION, VENDOR_VARIABLES, VISIBLE, GpuOptions
from minirun.gpu.asked.select import GpuSelector, parse_gpus
from minirun.gpu.asked.variables import OTHER_VENDORS

with lazy:
    from minirun.gpu.asked import (
        consent,  # 2 ms, only without --gpus
        vendor_request,  # 8 ms, for GPUs that are not NVIDIA's
    )
    from minirun.gpu.cdi import request  # 15 ms, for CDI
    from minirun.gpu.nvidia.hook import installed  # for this mode alone
    from minirun.gpu.share import count  # few ask for a count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.keeping.settings import Settings
    from minirun.gpu.cdi.request import CdiEdits

_SIMULATED = "NO NVIDIA DRIVER ON THIS MACHINE: THE GPUS ARE SIMULATED (--gpu-driver=simulated)"


class RunGpus(Record):
    """What config.json, and the caller's choices, get for the GPUs of one container."""

    env: tuple[str, ...] = ()
    """The variables that NVIDIA's hook reads."""
    hook: dict[str, Any] | None = None
    cdi: CdiEdits | None = None
    warnings: tuple[str, ...] = ()
    choices: Choices = DEFAULTS


def resolve(asked: GpuOptions, settings: Settings, container_id: str) -> RunGpus:
    """Return what config.json gets for the GPUs that are asked for.

    GPUs that are chosen here (count=N) are reserved. Says on standard error what the user must
    know. Raises MinirunError, OSError.
    """
    selector, refused = parse_gpus(asked.gpus) if asked.gpus is not None else None, ""
    if not selector:
        selector, refused = consent.requested_by_user(asked.image, asked.image_env, asked.variables)
        if refused:
            say(refused)
    bare = select.bare_number(asked.gpus or "")
    if bare:
        say(bare)
    found, vendor, kind = RunGpus(), "", "nvidia.com/"
    cdi_names: tuple[str, ...] = ()
    if _may_be_of_other_vendor(asked):
        request = vendor_request.resolve(asked, selector, settings, container_id)
        vendor, cdi_names = request.name, request.names
        kind = f"{request.kind}=" if vendor else kind
        found = found._replace(choices=request.choices)
    cdi = _cdi(asked, settings, selector, container_id, cdi_names)
    if selector and selector.devices != ("none",) and cdi and asked.mode != "cdi":
        others = tuple(name for name in cdi.devices if name not in cdi_names)
        _refuse_two_ways(asked, kind, others)
    if selector and asked.mode != "cdi" and not vendor:
        env, driver = _variables(asked, settings, selector, container_id)
        hook = None
        if asked.mode == "hook":
            hook = installed.row(driver, settings.store)
        choices = found.choices._replace(gpu_driver=driver, gpu_hook=asked.mode == "hook")
        found = found._replace(env=env, hook=hook, choices=choices)
    if selector and asked.gpus is not None:
        exclusive = asked.exclusive or selector.exclusive
        found = found._replace(choices=found.choices._replace(exclusive=exclusive))
    warnings = (*filter(None, (refused, bare)), *(cdi.warnings if cdi else ()))
    return found._replace(cdi=cdi, warnings=warnings)


def _refuse_two_ways(asked: GpuOptions, kind: str, devices: tuple[str, ...]) -> None:
    """Raise UsageError if the GPUs of one vendor are asked for in two ways.

    NVIDIA's CDI files set NVIDIA_VISIBLE_DEVICES=void, so that its hook gives no GPU besides.
    """
    same = [name for name in devices if name.startswith(kind)]
    if same:
        flag = f"--gpus {asked.gpus}" if asked.gpus is not None else f"-e {VISIBLE}"
        text = f"{flag} and the CDI device {same[0]} are two ways to ask for the same vendor's gpus"
        raise UsageError(text, "all of them in one: --gpus 0,1; or --gpu-mode=cdi for both")


def _may_be_of_other_vendor(asked: GpuOptions) -> bool:
    """Return False if the GPUs are NVIDIA's, as most are. Raises UsageError, GPUError."""
    if asked.driver_root or asked.dev_root or asked.load_kmods:
        return True
    if any(text.startswith(VENDOR_VARIABLES) for text in asked.variables):
        return True
    return asked.gpus is not None and drivers.which_driver(asked.driver or "auto") in OTHER_VENDORS


def _variables(
    asked: GpuOptions, settings: Settings, selector: GpuSelector, container_id: str
) -> tuple[tuple[str, ...], str]:
    """Return the variables that NVIDIA's hook reads (Figure 2), and the driver.

    Whether such GPUs exist is found out in stage 5, as in the real stack; only a count needs to
    know it now. Raises UsageError, GPUError.
    """
    root = asked.driver_root
    driver = drivers.which_driver(asked.driver or "auto", root, load_kmods=asked.load_kmods)
    if driver == "simulated" and not asked.driver:
        say(_SIMULATED)
    if asked.gpus is None:  # the user's own variable, as given
        return (f"{VISIBLE}={environment_of(asked.variables)[VISIBLE]}",), driver
    devices = ",".join(selector.devices)
    if selector.amount:
        found = drivers.inventory(driver, settings.store, root, asked.dev_root)
        indices, hint = [str(gpu.number) for gpu in found.gpus], found.describe_gpus()
        place = (settings, container_id)
        devices = ",".join(count.choose(selector, indices, driver, place, hint))
    env = [f"{VISIBLE}={devices}"]
    given = environment_of((*asked.image_env, *asked.variables))  # an image's stay, as with docker
    if selector.capabilities or "NVIDIA_DRIVER_CAPABILITIES" not in given:
        capabilities = ",".join(selector.capabilities) or "compute,utility"
        env.append(f"NVIDIA_DRIVER_CAPABILITIES={capabilities}")
    return tuple(env), driver


def _cdi(
    asked: GpuOptions,
    settings: Settings,
    selector: GpuSelector | None,
    container_id: str,
    named: tuple[str, ...],
) -> CdiEdits | None:
    """Return the edits of all that is asked for in CDI's names; None without any.

    `named` are those that --gpus means if they are another vendor's. Raises UsageError, GPUError.
    """
    gpus = selector if asked.mode == "cdi" and not named else None
    annotated = any(key.startswith(CDI_ANNOTATION) for key, _ in asked.annotations)
    if not (gpus or annotated or named or asked.devices):
        return None
    found = request.of_flags(asked, settings, container_id, gpus, named)
    if found.edits.simulated and not asked.driver:
        say(_SIMULATED)
    return found
