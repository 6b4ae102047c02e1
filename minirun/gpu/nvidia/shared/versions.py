"""What the real toolkit's versions make of the same request: 1.17, 1.18, or 1.20, the default.

A line of minirun's own in config.toml, `minirun.toolkit-version = "1.18"`, asks for an older one;
the real programs skip keys that they do not know. It is for those who must see what an upgrade
changes (nvidia-container-toolkit #1456, #1470, #1555), and for comparing with recorded cases.

    1.17   auto means legacy, but where every device is named in CDI's way
    1.18   auto makes edits on the spot, and applies them twice; nodes get no mode, sockets are
           read-only, `none` gives all GPUs, an unknown GPU is an unresolvable device
    1.20   once; with OpenCL's file and EGL's newest; the application profile is a hook
"""

from minirun.gpu.edits import Edits
from minirun.gpu.steps import BindMount

LEGACY, FIRST, LATEST = "1.17", "1.18", "1.20"
VERSIONS = (LEGACY, FIRST, LATEST)
_LATER_FILES = ("/OpenCL/vendors/nvidia.icd", "wayland2")
_LATER_HOOKS = ("update-application-profile",)


def fitting(edits: Edits, version: str) -> Edits:
    """Return edits of today as `version` would have made them."""
    if version == LATEST:
        return edits
    nodes = (node._replace(mode=None) for node in edits.device_nodes)
    mounts = (_read_only(mount) for mount in edits.mounts if not _is_later(mount))
    hooks = (hook for hook in edits.hooks if not set(_LATER_HOOKS) & set(hook.args))
    if version == LEGACY:
        hooks = (hook._replace(env=()) for hook in hooks)
    return edits._replace(steps=(*nodes, *mounts), hooks=tuple(hooks))


def _read_only(mount: BindMount) -> BindMount:
    return mount if "ro" in mount.options else mount._replace(options=("ro", *mount.options))


def _is_later(mount: BindMount) -> bool:
    return any(name in mount.path for name in _LATER_FILES)
