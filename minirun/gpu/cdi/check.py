"""Checks a CDI spec and names the culprit by its exact path: ``devices[0].containerEdits.env[1]``.

The shapes are the specification's JSON schema in brief, in the words of minirun.common.schema. As
in the reference library, which reads strictly, a property that the schema does not know is an
error: a misspelt `deviceNode` would else be lost in silence. So is a version that is older than a
property of the file: an engine of that time would not know it.
"""

from __future__ import annotations

from minirun.common.schema import UINT32, Checker, absolute, fail, without_nulls
from minirun.gpu.cdi.names import kind_problem, name_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOKS = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip
EDITS = {
    "env": [str],
    "deviceNodes": [
        {
            "path!": str, "hostPath": str, "type": str, "major": int, "minor": int,
            "fileMode": UINT32, "permissions": str, "uid": UINT32, "gid": UINT32,
        }
    ],
    "netDevices": [{"hostInterfaceName!": str, "name!": str}],
    "hooks": [{"hookName!": str, "path!": str, "args": [str], "env": [str], "timeout": int}],
    "mounts": [{"hostPath!": str, "containerPath!": str, "options": [str], "type": str}],
    "intelRdt": {
        "closID": str, "l3CacheSchema": str, "memBwSchema": str, "schemata": [str],
        "enableMonitoring": bool, "enableCMT": bool, "enableMBM": bool,
    },
    "additionalGids": [UINT32],
}  # fmt: skip
SHAPE: dict[str, Any] = {
    "cdiVersion!": str,
    "kind!": str,
    "annotations": {"*": str},
    "devices!": [{"name!": str, "annotations": {"*": str}, "containerEdits!": EDITS}],
    "containerEdits": EDITS,
}
_CHECKER = Checker("the file", {}, strict="CDI")
_UINT_LIMIT = 2**32


def check(raw: Any) -> dict[str, Any]:
    """Return a spec without its null properties, which mean as much as none. Raises SchemaError."""
    spec: dict[str, Any] = without_nulls(raw)
    _CHECKER.check(spec, SHAPE)
    version = spec["cdiVersion"].removeprefix("v")
    if version not in VERSIONS:
        known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
        fail("cdiVersion", f"unknown version {spec['cdiVersion']!r}: {known}")
    if problem := kind_problem(spec["kind"]):
        fail("kind", problem)
    _edits(spec.get("containerEdits", {}), "containerEdits")
    if not spec["devices"]:
        fail("devices", "is empty")
    seen = set()
    for index, device in enumerate(spec["devices"]):
        where = f"devices[{index}]"
        if problem := name_problem(device["name"]):
            fail(f"{where}.name", problem)
        if device["name"] in seen:
            fail(f"{where}.name", f"{device['name']!r} stands there twice")
        seen.add(device["name"])
        if not any(device["containerEdits"].values()):
            fail(f"{where}.containerEdits", "is empty")
        _edits(device["containerEdits"], f"{where}.containerEdits")
    least = raised_version(spec)
    if least != version:
        fail("cdiVersion", f"{version} is too old for what the file has: at least {least}")
    return spec


def raised_version(spec: dict[str, Any]) -> str:
    """Return the version of a spec, or a newer one where what it has is newer."""
    version: str = spec["cdiVersion"].removeprefix("v")
    return max(version, least_version(spec), key=VERSIONS.index)


def least_version(spec: dict[str, Any]) -> str:
    """Return the oldest version of the specification that knows all that is in a spec."""
    parts = [spec.get("containerEdits", {}), *(row["containerEdits"] for row in spec["devices"])]
    rdt = [part["intelRdt"] for part in parts if "intelRdt" in part]
    newer = any(row.get("schemata") or row.get("enableMonitoring") for row in rdt)
    if newer or any(part.get("netDevices") for part in parts):
        return "1.1.0"
    if rdt or any(part.get("additionalGids") for part in parts):
        return "0.7.0"
    annotated = any(row.get("annotations") for row in (spec, *spec["devices"]))
    if annotated or "." in spec["kind"].partition("/")[2]:
        return "0.6.0"
    nodes = any(node.get("hostPath") for part in parts for node in part.get("deviceNodes", ()))
    if nodes or any(row["name"][:1].isdigit() for row in spec["devices"]):
        return "0.5.0"
    typed = any(mount.get("type") for part in parts for mount in part.get("mounts", ()))
    return "0.4.0" if typed else "0.3.0"


def _edits(edits: dict[str, Any], where: str) -> None:
    _environment(edits.get("env", []), f"{where}.env")
    for index, node in enumerate(edits.get("deviceNodes", [])):
        _node(node, f"{where}.deviceNodes[{index}]")
    for index, hook in enumerate(edits.get("hooks", [])):
        place = f"{where}.hooks[{index}]"
        if hook["hookName"] not in HOOKS:
            fail(f"{place}.hookName", f"{hook['hookName']!r} is none of {', '.join(HOOKS)}")
        absolute(hook["path"], f"{place}.path")
        _environment(hook.get("env", []), f"{place}.env")
        if hook.get("timeout", 1) <= 0:
            fail(f"{place}.timeout", "must be greater than 0 (seconds)")
    for index, mount in enumerate(edits.get("mounts", [])):
        place = f"{where}.mounts[{index}]"
        if not mount["hostPath"]:
            fail(f"{place}.hostPath", "is empty")
        absolute(mount["containerPath"], f"{place}.containerPath")
    _network(edits.get("netDevices", []), f"{where}.netDevices")
    name = edits.get("intelRdt", {}).get("closID", "")
    if name != "/" and (name in (".", "..") or len(name) >= 4096 or set(name) & {"/", "\n"}):
        fail(f"{where}.intelRdt.closID", f"{name!r} is no name of a file")


def _environment(env: list[str], where: str) -> None:
    for index, entry in enumerate(env):
        if entry.find("=") <= 0:
            fail(f"{where}[{index}]", f"{entry!r} is not NAME=VALUE")


def _node(node: dict[str, Any], where: str) -> None:
    absolute(node["path"], f"{where}.path")
    if "hostPath" in node:
        absolute(node["hostPath"], f"{where}.hostPath")
    if node.get("type", "c") not in ("b", "c", "u", "p"):
        fail(f"{where}.type", f"{node['type']!r} is none of b, c, u, p")
    for name in ("major", "minor"):
        if not 0 <= node.get(name, 0) < _UINT_LIMIT:
            fail(f"{where}.{name}", f"must lie between 0 and {_UINT_LIMIT - 1}")
    access = node.get("permissions", "")
    if access != "none" and set(access) - set("rwm"):
        fail(f"{where}.permissions", f"{access!r} is neither none nor letters of rwm")


def _network(devices: list[dict[str, str]], where: str) -> None:
    for key in ("hostInterfaceName", "name"):
        seen = set()
        for index, device in enumerate(devices):
            if not device[key] or device[key] in seen:
                problem = "stands there twice" if device[key] else "is empty"
                fail(f"{where}[{index}].{key}", f"{device[key]!r} {problem}")
            seen.add(device[key])
