"""Edits → config.json: the same result as the reference library's (container-edits.go).

All edits are joined first and then applied once: environment, device nodes with their rules,
network devices, mounts, hooks, Intel RDT, groups. An entry of linux.devices or of mounts with the
same path is replaced; mounts are then sorted by the depth of their destination, those of the same
depth stay in order; hooks are appended.

Simplified: bind mounts in a user namespace get no `ridmap` option.
"""

from __future__ import annotations

import os
import stat

from minirun.core.errors import GPUError, reason
from minirun.core.rootfs.own_root import refusal
from minirun.gpu.cdi.container_edits import dump_hook
from minirun.gpu.edits import Edits
from minirun.gpu.steps import BindMount, DeviceNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BOUND = ("bind", "nosuid", "noexec")
_KINDS = {stat.S_IFCHR: "c", stat.S_IFBLK: "b", stat.S_IFIFO: "p"}


def join(parts: list[Edits]) -> Edits:
    """Return one Edits that says what all of `parts` say, in their order."""
    return Edits(
        steps=tuple(step for part in parts for step in part.steps),
        env=tuple(entry for part in parts for entry in part.env),
        hooks=tuple(hook for part in parts for hook in part.hooks),
        net_devices=tuple(device for part in parts for device in part.net_devices),
        intel_rdt=next((p.intel_rdt for p in reversed(parts) if p.intel_rdt is not None), None),
        groups=tuple(gid for part in parts for gid in part.groups),
    )


def complete(edits: Edits) -> Edits:
    """Return `edits` with kind, numbers, mode and permissions of every device node.

    What is open is looked up on the host. Raises GPUError if the node there is another, or missing.
    """
    steps = (_complete(step) if isinstance(step, DeviceNode) else step for step in edits.steps)
    return edits._replace(steps=tuple(steps))


def _complete(node: DeviceNode) -> DeviceNode:
    access = "" if node.permissions == "none" else node.permissions or "rwm"
    node = node._replace(permissions=access)
    is_whole = bool(node.kind) and bool(node.major or node.kind == "p")
    if is_whole and node.mode is not None:
        return node
    path = node.host_path or node.path
    try:
        status = os.lstat(path)
    except OSError as error:
        if is_whole:
            return node  # it says all that must be known; only the mode is the runtime's then
        what = reason(error)
        hint = "the CDI spec is older than the driver? make it anew: nvidia-ctk cdi generate"
        raise GPUError(f'failed to stat CDI host device "{path}": {what}', hint) from None
    found = _KINDS.get(stat.S_IFMT(status.st_mode))
    if found is None:
        if is_whole:
            return node
        raise GPUError(f'CDI host device "{path}" is not a device node')
    if node.mode is None:
        node = node._replace(mode=stat.S_IMODE(status.st_mode))
    if is_whole:
        return node
    if node.kind not in ("", found):
        raise GPUError(f'CDI device "{node.path}": host type mismatch ({node.kind}, {found})')
    if node.major or found == "p":
        return node._replace(kind=found)
    device = status.st_rdev
    return node._replace(kind=found, major=os.major(device), minor=os.minor(device))


def apply(config: dict[str, Any], edits: Edits) -> None:
    """Put `edits`, whose device nodes are complete, into a config.json document.

    Raises MinirunError if a node or a mount point of theirs would be made in a folder of the host.
    """
    rows = config.get("mounts") or []
    rows = sorted(rows, key=_depth) if edits.mounts else rows
    for path in (*(node.path for node in edits.device_nodes), *(m.path for m in edits.mounts)):
        _refuse_in_host_folder(rows, path)
    process = config.setdefault("process", {})
    linux = config.setdefault("linux", {})
    if edits.env:
        # of a name that the edits have twice the last one counts, in the first one's place
        by_name = {entry.partition("=")[0]: entry for entry in edits.env}
        process["env"] = [*(process.get("env") or []), *by_name.values()]
    mapped = any(row["type"] == "user" for row in linux.get("namespaces") or ())
    bound = []
    for node in edits.device_nodes:
        if mapped and node.host_path not in ("", node.path):  # mknod is denied there
            bound.append(BindMount(node.host_path, node.path, _BOUND))
            _allow(linux, node)
        else:
            _device(linux, node, process.get("user") or {})
    for device in edits.net_devices:
        linux.setdefault("netDevices", {})[device.host_name] = {"name": device.name}
    if edits.mounts or bound:
        config["mounts"] = _mounts(config.get("mounts") or [], (*bound, *edits.mounts))
    for hook in edits.hooks:
        row = dump_hook(hook)
        config.setdefault("hooks", {}).setdefault(row.pop("hookName"), []).append(row)
    if edits.intel_rdt is not None:
        linux["intelRdt"] = dict(edits.intel_rdt)
    gids = [gid for gid in edits.groups if gid]
    if gids:
        user = process.setdefault("user", {})
        user["additionalGids"] = list(dict.fromkeys([*user.get("additionalGids", ()), *gids]))


def _refuse_in_host_folder(mounts: list[dict[str, Any]], path: str) -> None:
    """Raise MinirunError if `path` lies below a folder of the host that has nothing there."""
    above = [row for row in mounts if path.startswith(f"{row['destination'].rstrip('/')}/")]
    if not above:
        return
    row = above[-1]  # what is mounted later covers it
    words, source = row.get("options") or (), row.get("source") or ""
    is_bind = row.get("type") == "bind" or "bind" in words or "rbind" in words
    place = source + path[len(row["destination"].rstrip("/")) :]
    if is_bind and source.startswith("/") and not os.path.lexists(place):
        raise refusal(path, row["destination"])


def _device(linux: dict[str, Any], node: DeviceNode, user: dict[str, Any]) -> None:
    """One device node: its row of linux.devices, and the rule that lets it be used."""
    row = {"path": node.path, "type": node.kind, "major": node.major, "minor": node.minor}
    own = {"fileMode": node.mode, "uid": node.uid, "gid": node.gid}
    for key, value in own.items():
        number = value if value is not None else user.get(key) or None
        if number is not None:
            row[key] = number
    devices = [other for other in linux.get("devices") or [] if other["path"] != node.path]
    linux["devices"] = [*devices, row]
    _allow(linux, node)


def _allow(linux: dict[str, Any], node: DeviceNode) -> None:
    """Let a device node be used."""
    if node.kind in ("b", "c"):
        rule = {
            "allow": True, "type": node.kind, "major": node.major, "minor": node.minor,
            "access": node.permissions,
        }  # fmt: skip
        linux.setdefault("resources", {}).setdefault("devices", []).append(rule)


def _mounts(mounts: list[dict[str, Any]], more: tuple[BindMount, ...]) -> list[dict[str, Any]]:
    rows: dict[str, BindMount] = {}
    for mount in more:
        rows.pop(mount.path, None)
        rows[mount.path] = mount
    found = [mount for mount in mounts if mount["destination"] not in rows]
    for path, mount in rows.items():
        row: dict[str, Any] = {"destination": path, "source": mount.host_path}
        row |= {"type": mount.kind} if mount.kind else {}
        row |= {"options": list(mount.options)} if mount.options else {}
        found.append(row)
    return sorted(found, key=_depth)


def _depth(row: dict[str, Any]) -> int:
    path: str = row["destination"]
    return os.path.normpath(path).count("/")
