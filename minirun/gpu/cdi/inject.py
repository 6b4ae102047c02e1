"""containerEdits → config.json: the same result as the reference library's (container-edits.go).

All edits are joined first and then applied once: environment, device nodes with their rules,
network devices, mounts, hooks, Intel RDT, groups. An entry of linux.devices or of mounts with the
same path is replaced; mounts are then sorted by the depth of their destination, those of the same
depth stay in order; hooks are appended.

Simplified: bind mounts in a user namespace get no `ridmap` option.
"""

import os
import stat

from minirun.core.errors import GPUError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTS = ("env", "deviceNodes", "netDevices", "hooks", "mounts", "additionalGids")
_KINDS = {stat.S_IFCHR: "c", stat.S_IFBLK: "b", stat.S_IFIFO: "p"}


def join(parts: "list[dict[str, Any]]") -> "dict[str, Any]":
    """Return one containerEdits that says what all of `parts` say, in their order."""
    joined: "dict[str, Any]" = {}
    for part in parts:
        for key in _LISTS:
            if part.get(key):
                joined.setdefault(key, []).extend(part[key])
        if "intelRdt" in part:
            joined["intelRdt"] = part["intelRdt"]
    return joined


def complete(edits: "dict[str, Any]") -> "dict[str, Any]":
    """Return `edits` with type, major and minor of every device node, looked up on the host.

    Raises GPUError where a node is missing there, or is another device.
    """
    if "deviceNodes" not in edits:
        return edits
    return {**edits, "deviceNodes": [_complete_node(node) for node in edits["deviceNodes"]]}


def _complete_node(node: "dict[str, Any]") -> "dict[str, Any]":
    kind, major = node.get("type", ""), node.get("major", 0)
    if kind and (major or kind == "p"):
        return {**node, "major": major, "minor": node.get("minor", 0)}
    path = node.get("hostPath") or node["path"]
    try:
        status = os.lstat(path)
    except OSError as error:
        what = os.strerror(error.errno or 0).lower()
        hint = "the CDI spec is older than the driver? make it anew: nvidia-ctk cdi generate"
        raise GPUError(f'failed to stat CDI host device "{path}": {what}', hint) from None
    found = _KINDS.get(stat.S_IFMT(status.st_mode))
    if found is None:
        raise GPUError(f'CDI host device "{path}" is not a device node')
    if kind not in ("", found):
        raise GPUError(f'CDI device "{node["path"]}": host type mismatch ({kind}, {found})')
    numbers = (major, node.get("minor", 0))
    if not major and found != "p":
        numbers = (os.major(status.st_rdev), os.minor(status.st_rdev))
    return {**node, "type": found, "major": numbers[0], "minor": numbers[1]}


def apply(config: "dict[str, Any]", edits: "dict[str, Any]") -> None:
    """Put `edits`, whose device nodes are complete, into a config.json document."""
    process = config.setdefault("process", {})
    linux = config.setdefault("linux", {})
    if edits.get("env"):
        process["env"] = _environment(process.get("env") or [], edits["env"])
    for node in edits.get("deviceNodes", ()):
        _device(linux, node, process.get("user") or {})
    for device in edits.get("netDevices", ()):
        linux.setdefault("netDevices", {})[device["hostInterfaceName"]] = {"name": device["name"]}
    if edits.get("mounts"):
        config["mounts"] = _mounts(config.get("mounts") or [], edits["mounts"])
    for hook in edits.get("hooks", ()):
        row = {key: value for key, value in hook.items() if key != "hookName"}
        config.setdefault("hooks", {}).setdefault(hook["hookName"], []).append(row)
    if "intelRdt" in edits:
        linux["intelRdt"] = dict(edits["intelRdt"])
    gids = [gid for gid in edits.get("additionalGids", ()) if gid]
    if gids:
        user = process.setdefault("user", {})
        user["additionalGids"] = list(dict.fromkeys([*user.get("additionalGids", ()), *gids]))


def _environment(env: "list[str]", more: "list[str]") -> "list[str]":
    """Append; of a name that the edits have twice the last one counts, in the first one's place."""
    by_name = {entry.partition("=")[0]: entry for entry in more}
    return [*env, *by_name.values()]


def _device(linux: "dict[str, Any]", node: "dict[str, Any]", user: "dict[str, Any]") -> None:
    """One device node: its row of linux.devices, and the rule that lets it be used."""
    row = {"path": node["path"], "type": node["type"]}
    row |= {key: node[key] for key in ("major", "minor", "fileMode") if key in node}
    for key in ("uid", "gid"):
        number = node.get(key, user.get(key) or None)
        if number is not None:
            row[key] = number
    devices = [other for other in linux.get("devices") or [] if other["path"] != node["path"]]
    linux["devices"] = [*devices, row]
    if node["type"] in ("b", "c"):
        access = node.get("permissions") or "rwm"
        rule = {
            "allow": True, "type": node["type"], "major": node["major"], "minor": node["minor"],
            "access": "" if access == "none" else access,
        }  # fmt: skip
        linux.setdefault("resources", {}).setdefault("devices", []).append(rule)


def _mounts(mounts: "list[dict[str, Any]]", more: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    rows: "dict[str, dict[str, Any]]" = {}
    for mount in more:
        rows.pop(mount["containerPath"], None)
        rows[mount["containerPath"]] = mount
    found = [mount for mount in mounts if mount["destination"] not in rows]
    for path, mount in rows.items():
        row = {"destination": path, "source": mount["hostPath"]}
        row |= {key: mount[key] for key in ("type", "options") if key in mount}
        found.append(row)
    return sorted(found, key=lambda row: os.path.normpath(row["destination"]).count("/"))
