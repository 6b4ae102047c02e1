"""Checks a CDI spec and names the culprit by its exact path: ``devices[0].containerEdits.env[1]``.

The shapes are the specification's JSON schema in brief, in the words of minirun.oci.validate: a
type, a list of one shape, or a dictionary of shapes, where ``"*"`` stands for any key and a key
that ends in ``!`` must be there. As in the reference library, which reads strictly, a property
that the schema does not know is an error: a misspelt `deviceNode` would else be lost in silence.
"""

from minirun.gpu.cdi.names import kind_problem, name_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOKS = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip


class Uint:
    """A whole number from 0 up, of 32 bits."""


_EDITS = {
    "env": [str],
    "deviceNodes": [
        {
            "path!": str, "hostPath": str, "type": str, "major": int, "minor": int,
            "fileMode": Uint, "permissions": str, "uid": Uint, "gid": Uint,
        }
    ],
    "netDevices": [{"hostInterfaceName!": str, "name!": str}],
    "hooks": [{"hookName!": str, "path!": str, "args": [str], "env": [str], "timeout": int}],
    "mounts": [{"hostPath!": str, "containerPath!": str, "options": [str], "type": str}],
    "intelRdt": {
        "closID": str, "l3CacheSchema": str, "memBwSchema": str, "schemata": [str],
        "enableMonitoring": bool, "enableCMT": bool, "enableMBM": bool,
    },
    "additionalGids": [Uint],
}  # fmt: skip
SHAPE: "dict[str, Any]" = {
    "cdiVersion!": str,
    "kind!": str,
    "annotations": {"*": str},
    "devices!": [{"name!": str, "annotations": {"*": str}, "containerEdits!": _EDITS}],
    "containerEdits": _EDITS,
}
_WORDS = {str: "a string", int: "a whole number", bool: "true or false", Uint: "0 to 2^32 - 1"}
_UINT_LIMIT = 2**32
_LONGEST = 150


class SpecError(ValueError):
    """What is wrong with a spec; begins with the place in it."""


def check(raw: "Any") -> "dict[str, Any]":
    """Return a spec without its null properties, which mean as much as none. Raises SpecError."""
    spec: "dict[str, Any]" = _value(raw, SHAPE, "")
    if spec["cdiVersion"] not in VERSIONS:
        _fail(
            "cdiVersion", f"unknown version {spec['cdiVersion']!r}: {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    if problem := kind_problem(spec["kind"]):
        _fail("kind", problem)
    _edits(spec.get("containerEdits", {}), "containerEdits")
    if not spec["devices"]:
        _fail("devices", "is empty")
    seen = set()
    for index, device in enumerate(spec["devices"]):
        where = f"devices[{index}]"
        if problem := name_problem(device["name"]):
            _fail(f"{where}.name", problem)
        if device["name"] in seen:
            _fail(f"{where}.name", f"{device['name']!r} stands there twice")
        seen.add(device["name"])
        if not any(device["containerEdits"].values()):
            _fail(f"{where}.containerEdits", "is empty")
        _edits(device["containerEdits"], f"{where}.containerEdits")
    return spec


def _edits(edits: "dict[str, Any]", where: str) -> None:
    _environment(edits.get("env", []), f"{where}.env")
    for index, node in enumerate(edits.get("deviceNodes", [])):
        _node(node, f"{where}.deviceNodes[{index}]")
    for index, hook in enumerate(edits.get("hooks", [])):
        place = f"{where}.hooks[{index}]"
        if hook["hookName"] not in HOOKS:
            _fail(f"{place}.hookName", f"{hook['hookName']!r} is none of {', '.join(HOOKS)}")
        _absolute(hook["path"], f"{place}.path")
        _environment(hook.get("env", []), f"{place}.env")
        if hook.get("timeout", 1) <= 0:
            _fail(f"{place}.timeout", "must be greater than 0 (seconds)")
    for index, mount in enumerate(edits.get("mounts", [])):
        place = f"{where}.mounts[{index}]"
        if not mount["hostPath"]:
            _fail(f"{place}.hostPath", "is empty")
        _absolute(mount["containerPath"], f"{place}.containerPath")
    _network(edits.get("netDevices", []), f"{where}.netDevices")
    name = edits.get("intelRdt", {}).get("closID", "")
    if name != "/" and (name in (".", "..") or len(name) >= 4096 or set(name) & {"/", "\n"}):
        _fail(f"{where}.intelRdt.closID", f"{name!r} is no name of a file")


def _environment(env: "list[str]", where: str) -> None:
    for index, entry in enumerate(env):
        if entry.find("=") <= 0:
            _fail(f"{where}[{index}]", f"{entry!r} is not NAME=VALUE")


def _node(node: "dict[str, Any]", where: str) -> None:
    _absolute(node["path"], f"{where}.path")
    if "hostPath" in node:
        _absolute(node["hostPath"], f"{where}.hostPath")
    if node.get("type", "c") not in ("b", "c", "u", "p"):
        _fail(f"{where}.type", f"{node['type']!r} is none of b, c, u, p")
    for name in ("major", "minor"):
        if not 0 <= node.get(name, 0) < _UINT_LIMIT:
            _fail(f"{where}.{name}", f"must lie between 0 and {_UINT_LIMIT - 1}")
    access = node.get("permissions", "")
    if access != "none" and set(access) - set("rwm"):
        _fail(f"{where}.permissions", f"{access!r} is neither none nor letters of rwm")


def _network(devices: "list[dict[str, str]]", where: str) -> None:
    for key in ("hostInterfaceName", "name"):
        seen = set()
        for index, device in enumerate(devices):
            if not device[key] or device[key] in seen:
                problem = "stands there twice" if device[key] else "is empty"
                _fail(f"{where}[{index}].{key}", f"{device[key]!r} {problem}")
            seen.add(device[key])


def _absolute(path: str, where: str) -> None:
    if not path.startswith("/"):
        _fail(where, f"{path!r} is not an absolute path")


def _value(value: "Any", shape: "Any", where: str) -> "Any":
    """Return `value` without nulls where it has this shape."""
    if isinstance(shape, dict):
        return _object(value, shape, where)
    if isinstance(shape, list):
        if not isinstance(value, list):
            _wrong(where, "a list", value)
        return [_value(item, shape[0], f"{where}[{at}]") for at, item in enumerate(value)]
    if shape is Uint:
        if type(value) is not int or not 0 <= value < _UINT_LIMIT:
            _wrong(where, _WORDS[Uint], value)
    elif type(value) is not shape:
        _wrong(where, _WORDS[shape], value)
    elif shape is str and "\0" in value:
        _fail(where, "holds a NUL character")
    return value


def _object(value: "Any", shape: "dict[str, Any]", where: str) -> "dict[str, Any]":
    if not isinstance(value, dict):
        _wrong(where or "the file", "an object", value)
    shapes = {key.removesuffix("!"): inner for key, inner in shape.items()}
    found = {}
    for key, item in value.items():
        path = f"{where}.{key}" if where else str(key)
        inner = shapes.get(key, shapes.get("*"))
        if inner is None:
            _fail(path, "is no property that CDI knows")
        if item is not None:
            found[key] = _value(item, inner, path)
    for key in shape:
        name = key.removesuffix("!")
        if key.endswith("!") and name not in found:
            _fail(f"{where}.{name}" if where else name, "is required")
    return found


def _wrong(where: str, expected: str, value: object) -> "NoReturn":
    _fail(where, f"expected {expected}, got {value!r}")


def _fail(where: str, what: str) -> "NoReturn":
    short = what if len(what) < _LONGEST else what[:_LONGEST] + "…"
    raise SpecError(f"{where}: {short}")
