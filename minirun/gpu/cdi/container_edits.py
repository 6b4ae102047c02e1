"""containerEdits, as a CDI file has them, → Edits, which every vendor's planner makes, and back.

What CDI leaves open is empty
there: a node's kind and numbers, which are then the host's, its mode and its owner. As the
reference library does, 0 and the empty list are not written.
"""

from __future__ import annotations

from minirun.gpu.edits import CdiHook, CdiNetDevice, Edits
from minirun.gpu.steps import BindMount, DeviceNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NODE = (
    ("path", "path", ""), ("hostPath", "host_path", ""), ("type", "kind", ""),
    ("major", "major", 0), ("minor", "minor", 0), ("fileMode", "mode", None),
    ("permissions", "permissions", ""), ("uid", "uid", None), ("gid", "gid", None),
)  # fmt: skip
"""CDI's property, the record's field, and what that is if the property is not there."""
_NET_DEVICE = (("hostInterfaceName", "host_name", ""), ("name", "name", ""))
_HOOK = (
    ("hookName", "name", ""), ("path", "path", ""), ("args", "args", ()), ("env", "env", ()),
    ("timeout", "timeout", 0),
)  # fmt: skip
_MOUNT = (
    ("hostPath", "host_path", ""), ("containerPath", "path", ""), ("options", "options", ()),
    ("type", "kind", ""),
)  # fmt: skip


def parse(edits: dict[str, Any]) -> Edits:
    """Return what a checked containerEdits says (minirun.gpu.cdi.check)."""
    nodes = (DeviceNode(**_fields(row, _NODE)) for row in edits.get("deviceNodes", ()))
    mounts = (BindMount(**_fields(row, _MOUNT)) for row in edits.get("mounts", ()))
    devices = (CdiNetDevice(**_fields(row, _NET_DEVICE)) for row in edits.get("netDevices", ()))
    return Edits(
        steps=(*nodes, *mounts),
        env=tuple(edits.get("env", ())),
        hooks=tuple(CdiHook(**_fields(row, _HOOK)) for row in edits.get("hooks", ())),
        net_devices=tuple(devices),
        intel_rdt=edits.get("intelRdt"),
        groups=tuple(edits.get("additionalGids", ())),
    )


def _fields(row: dict[str, Any], table: tuple[tuple[str, str, Any], ...]) -> dict[str, Any]:
    found = ((field, row.get(key, default)) for key, field, default in table)
    return {field: tuple(value) if isinstance(value, list) else value for field, value in found}


def dump(edits: Edits) -> dict[str, Any]:
    """Return `edits` in CDI's words. It has none for a symbolic link."""
    found = {
        "env": list(edits.env),
        "deviceNodes": [_row(node, _NODE) for node in edits.device_nodes],
        "netDevices": [_row(device, _NET_DEVICE) for device in edits.net_devices],
        "hooks": [dump_hook(hook) for hook in edits.hooks],
        "mounts": [_row(mount, _MOUNT) for mount in edits.mounts],
        "intelRdt": edits.intel_rdt,
        "additionalGids": list(edits.groups),
    }
    return {key: value for key, value in found.items() if value}


def dump_hook(hook: CdiHook) -> dict[str, Any]:
    """Return a hook in CDI's words."""
    return _row(hook, _HOOK)


def _row(record: object, table: tuple[tuple[str, str, Any], ...]) -> dict[str, Any]:
    found = ((key, getattr(record, field), default) for key, field, default in table)
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value, default in found
        if value != default
    }
