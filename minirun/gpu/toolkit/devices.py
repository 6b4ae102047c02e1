"""Modes cdi and auto of nvidia-container-runtime: the CDI devices of a config.json, put into it.

    auto   NVIDIA_VISIBLE_DEVICES=0,1: a spec is made from the host on the spot ("jit-cdi")
    cdi    NVIDIA_VISIBLE_DEVICES=0,1 or nvidia.com/gpu=0: the devices of /etc/cdi and /var/run/cdi

Annotations cdi.k8s.io/*, and mounts of /dev/null at …/nvidia-container-devices/cdi/VENDOR/CLASS/
NAME where config.toml lets them count, name devices of those folders in both modes, and beat the
environment. NVIDIA_DRIVER_CAPABILITIES counts in neither: the edits bring every library (facts
sheet, "Two behaviours"). The simulated driver serves only where MINIRUN_SIM asks for it.
"""

import os

from minirun.errors import GPUError
from minirun.gpu import environment, inventory
from minirun.gpu.cdi import generate, inject, names, registry, request
from minirun.gpu.toolkit import prestart
from minirun.gpu.toolkit.config import Toolkit
from minirun.gpu.toolkit.log import Log
from minirun.settings import STORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CDI = "cdi/"
_UNRESOLVABLE = "failed to inject CDI devices: unresolvable CDI devices"


def apply(config: "dict[str, Any]", toolkit: Toolkit, log: Log) -> bool:
    """Put the devices that `config` asks for into it; return whether it asks for any.

    Raises GPUError, UsageError, OSError.
    """
    wanted = _named(config, toolkit)
    on_the_spot = not wanted and toolkit.mode != "cdi"
    if not wanted:
        asked = _asked(config, toolkit)
        if asked is None:
            return False
        wanted = [_full(name, toolkit) for name in asked]
        on_the_spot = on_the_spot and not any(map(names.is_qualified, asked))
    log.info(f"Using CDI devices {' '.join(wanted) or 'none'}")
    found = _made(toolkit) if on_the_spot else registry.load(toolkit.spec_dirs)
    for warning in found.warnings:
        log.warning(warning)
    missing = [name for name in wanted if name not in found.devices]
    if missing:
        prefix = "runtime." if on_the_spot else ""
        raise GPUError(f"{_UNRESOLVABLE} {', '.join(prefix + name for name in missing)}")
    edits = found.edits(wanted) if wanted else _control_nodes(found, toolkit)
    inject.apply(config, inject.complete(inject.join(edits)))
    return True


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


def _asked(config: "dict[str, Any]", toolkit: Toolkit) -> "tuple[str, ...] | None":
    """Return the devices of the environment as they stand there; None for nothing at all.

    Raises GPUError.
    """
    process = config.get("process") or {}
    env = dict(entry.split("=", 1) for entry in process.get("env") or [] if "=" in entry)
    words = [word.strip() for word in env.get(environment.VISIBLE, "").split(",") if word.strip()]
    if any(map(names.is_qualified, words)) and "void" not in words:
        return tuple(dict.fromkeys(words))
    bounding = (process.get("capabilities") or {}).get("bounding") or []
    mounts = environment.mounted_devices(config.get("mounts") or [])
    env.pop(environment.DRIVER_CAPABILITIES, None)
    privileged = "CAP_SYS_ADMIN" in bounding
    request = environment.environment_request(env, toolkit.hook, privileged, mounts)
    return None if request is None else tuple(name for name in request.devices if name)


def _full(name: str, toolkit: Toolkit) -> str:
    return name if names.is_qualified(name) else f"{toolkit.default_kind}={name}"


def _made(toolkit: Toolkit) -> registry.Registry:
    """Return a registry with one spec, made from the host now. Raises GPUError, OSError."""
    for name, value in prestart.environment(toolkit).items():
        os.environ[name] = value
    driver = "simulated" if os.environ.get("MINIRUN_SIM") else "nvidia"
    host = inventory.inventory(driver, os.environ.get("MINIRUN_STORE") or STORE)
    found = registry.Registry()
    made = generate.spec(host, request.program(), toolkit.default_kind)
    found.add(registry.Spec("", 0, made))
    return found


def _control_nodes(found: registry.Registry, toolkit: Toolkit) -> "list[dict[str, Any]]":
    """NVIDIA_VISIBLE_DEVICES=none: the control nodes, no GPU and no library."""
    edits = [spec.raw.get("containerEdits", {}) for spec in found.of_kind(toolkit.default_kind)]
    keys = ("env", "deviceNodes")
    return [{key: row[key] for key in keys if key in row} for row in edits[-1:]]
