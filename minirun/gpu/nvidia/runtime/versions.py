"""What the real toolkit's versions make of the same request: 1.17, 1.18, or 1.20, the default.

A line of minirun's own in config.toml, `minirun.toolkit-version = "1.18"`, asks for an older one;
the real programs skip keys that they do not know. It is for those who must see what an upgrade
changes (nvidia-container-toolkit #1456, #1470, #1555), and for comparing with recorded cases.

    1.17   auto means legacy, but where every device is named in CDI's way
    1.18   auto makes edits on the spot, and applies them twice; nodes get no mode, sockets are
           read-only, `none` gives all GPUs, an unknown GPU is an unresolvable device
    1.20   once; with OpenCL's file and EGL's newest; the application profile is a hook
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LEGACY, FIRST, LATEST = "1.17", "1.18", "1.20"
VERSIONS = (LEGACY, FIRST, LATEST)
_LATER_FILES = ("/OpenCL/vendors/nvidia.icd", "wayland2")
_LATER_HOOKS = ("update-application-profile",)


def fitting(edits: "dict[str, Any]", version: str) -> "dict[str, Any]":
    """Return containerEdits of today as `version` would have made them."""
    if version == LATEST:
        return edits
    older = dict(edits)
    if "deviceNodes" in edits:
        older["deviceNodes"] = [_without(node, "fileMode") for node in edits["deviceNodes"]]
    if "mounts" in edits:
        older["mounts"] = [_read_only(row) for row in edits["mounts"] if not _is_later(row)]
    if "hooks" in edits:
        rows = [row for row in edits["hooks"] if not set(_LATER_HOOKS) & set(row["args"])]
        older["hooks"] = [_without(row, "env") for row in rows] if version == LEGACY else rows
    return older


def _without(row: "dict[str, Any]", name: str) -> "dict[str, Any]":
    return {key: value for key, value in row.items() if key != name}


def _read_only(mount: "dict[str, Any]") -> "dict[str, Any]":
    options = mount["options"]
    return mount | {"options": options if "ro" in options else ["ro", *options]}


def _is_later(mount: "dict[str, Any]") -> bool:
    return any(name in mount["containerPath"] for name in _LATER_FILES)
