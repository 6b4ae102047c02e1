"""Modes cdi and auto of nvidia-container-runtime: the CDI devices of a config.json, put into it.

    auto   NVIDIA_VISIBLE_DEVICES=0,1: edits are made from the host on the spot ("jit-cdi")
    cdi    NVIDIA_VISIBLE_DEVICES=0,1 or nvidia.com/gpu=0: the devices of /etc/cdi and /var/run/cdi

Annotations cdi.k8s.io/* beat mounts of /dev/null below …/nvidia-container-devices, where
config.toml lets these count, and mounts beat the environment. A name that is none of CDI gets the
kind of the mode: runtime.nvidia.com/gpu in auto, whose devices are made on the spot in both modes.
NVIDIA_DRIVER_CAPABILITIES counts in neither: the edits bring every library (facts sheet, "Two
behaviours").
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.gpu.asked.request import VISIBLE
from minirun.gpu.cdi import inject, names, registry, stale
from minirun.gpu.nvidia.shared import environment, versions
from minirun.gpu.nvidia.shared.config import Toolkit
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.ctk import host
from minirun.toolkit.runtime import jit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MADE = f"{jit.KIND}="
_MIXED = (
    "requesting a CDI device with vendor 'runtime.nvidia.com' is not supported when requesting "
    "other CDI devices"
)
_NONE = "none"


def apply(config: dict[str, Any], toolkit: Toolkit, log: ToolkitLog, store: str) -> bool:
    """Put the devices asked for into `config`; return True if any. Raises MinirunError, OSError."""
    kind = toolkit.default_kind if toolkit.mode == "cdi" else jit.KIND
    words = _words(config, toolkit, log)
    wanted = [word if names.is_qualified(word) else f"{kind}={word}" for word in words]
    made = tuple(name.removeprefix(_MADE) for name in wanted if name.startswith(_MADE))
    if made and len(made) < len(wanted):
        raise GPUError(_MIXED, f"asked for: {', '.join(wanted)}")
    if toolkit.version == versions.FIRST and f"{_MADE}{_NONE}" in words:
        raise GPUError(f"{host.UNRESOLVABLE} {', '.join(wanted)}")  # it knows no device none
    if made:
        jit.apply(config, made, toolkit, log, store)
    elif wanted:
        _from_files(config, wanted, toolkit, log)
    return bool(wanted)


def _from_files(
    config: dict[str, Any], wanted: list[str], toolkit: Toolkit, log: ToolkitLog
) -> None:
    """Put devices of the spec folders into `config`. Raises GPUError, OSError."""
    log.info(f"Using CDI devices {' '.join(wanted)}")
    found = registry.load(toolkit.spec_dirs)
    if wanted == [f"{toolkit.default_kind}={_NONE}"] and wanted[0] not in found.devices:
        wanted = []
    missing = [name for name in wanted if name not in found.devices]
    if missing:
        raise GPUError(f"{host.UNRESOLVABLE} {', '.join(missing)}")
    for warning in (*found.warnings, *stale.warnings(found.devices[name] for name in wanted)):
        log.warning(warning)
    edits = found.edits(wanted) if wanted else found.control_nodes(toolkit.default_kind)
    inject.apply(config, inject.complete(inject.join(edits)))


def named_only(config: dict[str, Any], toolkit: Toolkit, log: ToolkitLog) -> bool:
    """Tell whether all devices that `config` asks for have full names of CDI. Raises GPUError."""
    words = _words(config, toolkit, log)
    return bool(words) and all(map(names.is_qualified, words))


def _words(config: dict[str, Any], toolkit: Toolkit, log: ToolkitLog) -> list[str]:
    """Return the devices asked for, each once: full names of CDI, or others. Raises GPUError."""
    words = _annotated(config, toolkit)
    if toolkit.mode != "cdi" and not all(map(names.is_qualified, words)):
        words = []  # only mode cdi takes other names from there
    words = words or _mounted(config, toolkit, log)
    return list(dict.fromkeys(words or _of_environment(config, toolkit, log)))


def _annotated(config: dict[str, Any], toolkit: Toolkit) -> list[str]:
    """Return what annotations name, in the order of their keys. Raises GPUError."""
    rows = sorted((config.get("annotations") or {}).items())
    values = [value for key, value in rows if key.startswith(toolkit.annotation_prefixes)]
    if toolkit.version == versions.LEGACY:  # it takes full names alone
        return names.from_annotations((names.PREFIX, value) for value in values)
    return [word or _NONE for value in values for word in value.split(",")]


def _mounted(config: dict[str, Any], toolkit: Toolkit, log: ToolkitLog) -> list[str]:
    """Return what mounts name: GPU, cdi/vendor.com/class/name, cdi/vendor.com/class=name."""
    if not toolkit.hook.accept_volume_mounts:
        return []
    found: list[str] = []
    for name in environment.mounted_devices(config.get("mounts") or []):
        asked = name.removeprefix(environment.CDI)
        parts = asked.split("/", 2)
        if name.startswith(environment.IMEX):
            continue
        if asked == name or names.is_qualified(asked):
            found.append(asked)
        elif len(parts) == 3:
            found.append(f"{parts[0]}/{parts[1]}={parts[2]}")
        else:
            log.warning(f"Ignoring invalid mount request for CDI device {name}")
    return found


def _of_environment(config: dict[str, Any], toolkit: Toolkit, log: ToolkitLog) -> list[str]:
    """Return what the environment names, where it counts in this container."""
    hook = toolkit.hook
    devices = environment.listed(environment.of_config(config), hook.swarm_resources)
    if devices is None:
        return []
    if not (hook.accept_env_unprivileged or environment.is_privileged(config)):
        variables = ", ".join(hook.swarm_resources) or VISIBLE
        log.warning(f"Ignoring devices of {variables} in an unprivileged container")
        return []
    return [name for name in devices if name] or [_NONE]
