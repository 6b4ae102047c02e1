"""Modes cdi and auto of nvidia-container-runtime: the CDI devices of a config.json, put into it.

    auto   NVIDIA_VISIBLE_DEVICES=0,1: edits are made from the host on the spot ("jit-cdi")
    cdi    NVIDIA_VISIBLE_DEVICES=0,1 or nvidia.com/gpu=0: the devices of /etc/cdi and /var/run/cdi

Annotations cdi.k8s.io/*, and mounts of /dev/null at …/nvidia-container-devices/cdi/VENDOR/CLASS/
NAME where config.toml lets them count, name devices of those folders in both modes, and beat the
environment. NVIDIA_DRIVER_CAPABILITIES counts in neither: the edits bring every library (facts
sheet, "Two behaviours").
"""

from minirun.core.errors import GPUError
from minirun.gpu.cdi import inject, names, registry, stale
from minirun.gpu.nvidia.hook import environment
from minirun.gpu.nvidia.runtime import host, jit
from minirun.gpu.nvidia.runtime.config import Toolkit
from minirun.gpu.nvidia.runtime.log import ToolkitLog
from minirun.gpu.request import VISIBLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CDI = "cdi/"


def apply(config: "dict[str, Any]", toolkit: Toolkit, log: ToolkitLog) -> bool:
    """Put the devices asked for into `config`; return True if any. Raises MinirunError, OSError."""
    wanted = _named(config, toolkit) or _in_words(config)
    if not wanted:
        ignored = (environment.DRIVER_CAPABILITIES,)
        request = environment.request(config, toolkit.hook, ignored)
        if request is None:
            return False
        if toolkit.mode != "cdi":
            jit.apply(config, request, toolkit, log)
            return True
        wanted = [name for name in request.devices if name]
    wanted = [name if "=" in name else f"{toolkit.default_kind}={name}" for name in wanted]
    log.info(f"Using CDI devices {' '.join(wanted) or 'none'}")
    found = registry.load(toolkit.spec_dirs)
    missing = [name for name in wanted if name not in found.devices]
    if missing:
        raise GPUError(f"{host.UNRESOLVABLE} {', '.join(missing)}")
    for warning in (*found.warnings, *stale.warnings(found.devices[name] for name in wanted)):
        log.warning(warning)
    edits = found.edits(wanted) if wanted else found.control_nodes(toolkit.default_kind)
    inject.apply(config, inject.complete(inject.join(edits)))
    return True


def named_only(config: "dict[str, Any]", toolkit: Toolkit) -> bool:
    """Tell whether all devices that `config` asks for have full names of CDI. Raises GPUError."""
    words = _in_words(config)
    return bool(_named(config, toolkit)) or (bool(words) and all(map(names.is_qualified, words)))


def _named(config: "dict[str, Any]", toolkit: Toolkit) -> "list[str]":
    """Return the full names that annotations and mounts give. Raises GPUError."""
    prefixes = toolkit.annotation_prefixes
    rows = (config.get("annotations") or {}).items()
    found = names.from_annotations(
        (names.PREFIX, value) for key, value in rows if key.startswith(prefixes)
    )
    if found or not toolkit.hook.accept_volume_mounts:
        return found
    mounts = environment.mounted_devices(config.get("mounts") or [])
    parts = (name[len(_CDI) :].rpartition("/") for name in mounts if name.startswith(_CDI))
    return [f"{kind}={device}" for kind, _, device in parts]


def _in_words(config: "dict[str, Any]") -> "list[str]":
    """Return the devices of the environment, where a full name of CDI is among them."""
    text = environment.of_config(config).get(VISIBLE, "")
    words = [word.strip() for word in text.split(",") if word.strip()]
    if "void" in words or not any(map(names.is_qualified, words)):
        return []
    return list(dict.fromkeys(words))
