"""containerEdits, as a CDI file has them, → Edits, and back.

The same record that every vendor's planner makes (minirun.gpu.edits). What CDI leaves open is empty
there: a node's kind and numbers, which are then the host's, its mode and its owner. As the
reference library does, 0 and the empty list are not written.
"""

from minirun.gpu.edits import BindMount, CdiHook, CdiNetDevice, DeviceNode, Edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parse(row: "dict[str, Any]") -> Edits:
    """Return what a checked containerEdits says (minirun.gpu.cdi.check)."""
    nodes = [
        DeviceNode(
            node["path"], node.get("type", ""), node.get("major", 0), node.get("minor", 0),
            node.get("fileMode"), node.get("uid"), node.get("gid"), node.get("permissions", ""),
            node.get("hostPath", ""),
        )
        for node in row.get("deviceNodes", ())
    ]  # fmt: skip
    mounts = [
        BindMount(
            mount["hostPath"], mount["containerPath"], tuple(mount.get("options", ())),
            mount.get("type", ""),
        )
        for mount in row.get("mounts", ())
    ]  # fmt: skip
    hooks = [
        CdiHook(
            hook["hookName"], hook["path"], tuple(hook.get("args", ())),
            tuple(hook.get("env", ())), hook.get("timeout", 0),
        )
        for hook in row.get("hooks", ())
    ]  # fmt: skip
    return Edits(
        steps=(*nodes, *mounts),
        env=tuple(row.get("env", ())),
        hooks=tuple(hooks),
        net_devices=tuple(
            CdiNetDevice(device["hostInterfaceName"], device["name"])
            for device in row.get("netDevices", ())
        ),
        intel_rdt=row.get("intelRdt"),
        groups=tuple(row.get("additionalGids", ())),
    )


def dump(edits: Edits) -> "dict[str, Any]":
    """Return `edits` in CDI's words. It has none for a symbolic link."""
    devices = [{"hostInterfaceName": d.host_name, "name": d.name} for d in edits.net_devices]
    found = {
        "env": list(edits.env),
        "deviceNodes": [_dump_node(node) for node in edits.device_nodes],
        "netDevices": devices,
        "hooks": [dump_hook(hook) for hook in edits.hooks],
        "mounts": [_dump_mount(mount) for mount in edits.mounts],
        "intelRdt": edits.intel_rdt,
        "additionalGids": list(edits.groups),
    }
    return {key: value for key, value in found.items() if value}


def _dump_node(node: DeviceNode) -> "dict[str, Any]":
    row: "dict[str, Any]" = {"path": node.path, "hostPath": node.host_path, "type": node.kind}
    row |= {"major": node.major, "minor": node.minor}
    found = {key: value for key, value in row.items() if value}
    more = {"fileMode": node.mode, "permissions": node.permissions or None}
    more |= {"uid": node.uid, "gid": node.gid}
    return found | {key: value for key, value in more.items() if value is not None}


def dump_hook(hook: CdiHook) -> "dict[str, Any]":
    """Return a hook in CDI's words."""
    row: "dict[str, Any]" = {"hookName": hook.name, "path": hook.path, "args": list(hook.args)}
    row |= {"env": list(hook.env), "timeout": hook.timeout}
    return {key: value for key, value in row.items() if value}


def _dump_mount(mount: BindMount) -> "dict[str, Any]":
    row: "dict[str, Any]" = {"hostPath": mount.host_path, "containerPath": mount.path}
    row |= {"options": list(mount.options), "type": mount.kind}
    return {key: value for key, value in row.items() if value}
