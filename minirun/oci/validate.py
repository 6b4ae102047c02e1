"""Checks config.json and names the culprit by its exact path: ``mounts[3].options[0]: …``.

The shapes below are the runtime-spec's JSON schema in brief: a type, a list of one shape, or a
dictionary of shapes, where ``"*"`` stands for any key and a key that ends in ``!`` must be there.
Properties that are not listed are ignored, as the spec demands.
"""

from minirun.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Uint:
    """A whole number from 0 up."""


_ID_MAP = {"containerID!": Uint, "hostID!": Uint, "size!": Uint}
_HOOK = {"path!": str, "args": [str], "env": [str], "timeout": int}
_CAPS = {k: [str] for k in ("bounding", "effective", "inheritable", "permitted", "ambient")}
_RESOURCES = {
    "devices": [{"allow!": bool, "type": str, "major": int, "minor": int, "access": str}],
    "memory": {
        "limit": int, "reservation": int, "swap": int, "kernel": int, "kernelTCP": int,
        "swappiness": Uint, "disableOOMKiller": bool, "useHierarchy": bool,
        "checkBeforeUpdate": bool,
    },
    "cpu": {
        "shares": Uint, "quota": int, "burst": Uint, "period": Uint, "realtimeRuntime": int,
        "realtimePeriod": Uint, "cpus": str, "mems": str, "idle": int,
    },
    "pids": {"limit": int},
    "blockIO": dict,
    "hugepageLimits": [{"pageSize!": str, "limit!": Uint}],
    "network": {"classID": Uint, "priorities": [{"name!": str, "priority!": Uint}]},
    "rdma": {"*": dict},
    "unified": {"*": str},
}  # fmt: skip
SHAPE: "dict[str, Any]" = {
    "ociVersion!": str,
    "hostname": str,
    "domainname": str,
    "root!": {"path!": str, "readonly": bool},
    "process": {
        "terminal": bool,
        "consoleSize": {"height!": Uint, "width!": Uint},
        "cwd!": str,
        "env": [str],
        "args": [str],
        "rlimits": [{"type!": str, "soft!": Uint, "hard!": Uint}],
        "apparmorProfile": str,
        "capabilities": _CAPS,
        "noNewPrivileges": bool,
        "oomScoreAdj": int,
        "selinuxLabel": str,
        "user": {"uid": Uint, "gid": Uint, "umask": Uint, "additionalGids": [Uint]},
    },
    "mounts": [
        {
            "destination!": str, "type": str, "source": str, "options": [str],
            "uidMappings": [_ID_MAP], "gidMappings": [_ID_MAP],
        }
    ],
    "hooks": {
        kind: [_HOOK]
        for kind in (
            "prestart", "createRuntime", "createContainer", "startContainer", "poststart",
            "poststop",
        )
    },
    "annotations": {"*": str},
    "linux": {
        "devices": [
            {
                "type!": str, "path!": str, "major": int, "minor": int, "fileMode": Uint,
                "uid": Uint, "gid": Uint,
            }
        ],
        "uidMappings": [_ID_MAP],
        "gidMappings": [_ID_MAP],
        "sysctl": {"*": str},
        "cgroupsPath": str,
        "resources": _RESOURCES,
        "rootfsPropagation": str,
        "seccomp": {"defaultAction!": str, "architectures": [str], "syscalls": [dict]},
        "namespaces": [{"type!": str, "path": str}],
        "maskedPaths": [str],
        "readonlyPaths": [str],
        "timeOffsets": {"*": {"secs": int, "nanosecs": Uint}},
    },
}  # fmt: skip
_WORDS = {str: "a string", int: "a whole number", bool: "true or false", dict: "an object"}
_NAMESPACES = ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time")
_UID_LIMIT = 2**32 - 1


def check(raw: "Any") -> None:
    """Raise ConfigError where `raw` is not a config.json that minirun can run."""
    _check(raw, SHAPE, "")
    _version(raw["ociVersion"])
    _no_nul(raw, "")
    process = raw.get("process")
    if process:
        _process(process)
    for index, mount in enumerate(raw.get("mounts") or []):
        if not mount["destination"].startswith("/"):
            _fail(f"mounts[{index}].destination", "must be an absolute path")
    for kind, hooks in (raw.get("hooks") or {}).items():
        for index, hook in enumerate(hooks or [] if kind in SHAPE["hooks"] else []):
            if not hook["path"].startswith("/"):
                _fail(f"hooks.{kind}[{index}].path", "must be an absolute path")
            if "timeout" in hook and hook["timeout"] <= 0:
                _fail(f"hooks.{kind}[{index}].timeout", "must be greater than 0 (seconds)")
    _linux(raw.get("linux") or {})


def _process(process: "dict[str, Any]") -> None:
    if not process["cwd"].startswith("/"):
        _fail("process.cwd", "must be an absolute path")
    if not process.get("args"):
        _fail("process.args", "must hold at least the name of a program")
    for name in ("uid", "gid"):
        if process.get("user", {}).get(name, 0) >= _UID_LIMIT:
            _fail(f"process.user.{name}", f"must be below {_UID_LIMIT}")
    seen: set[str] = set()
    for index, limit in enumerate(process.get("rlimits") or []):
        where = f"process.rlimits[{index}]"
        if limit["type"] in seen:
            _fail(f"{where}.type", f"{limit['type']} stands there twice")
        if limit["soft"] > limit["hard"]:
            _fail(f"{where}.soft", "must not be above hard")
        seen.add(limit["type"])


def _linux(linux: "dict[str, Any]") -> None:
    seen: set[str] = set()
    for index, namespace in enumerate(linux.get("namespaces") or []):
        where = f"linux.namespaces[{index}]"
        kind, path = namespace["type"], namespace.get("path", "")
        if kind not in _NAMESPACES:
            _fail(f"{where}.type", f"unknown namespace {kind!r}")
        if kind in seen:
            _fail(f"{where}.type", f"{kind} stands there twice")
        if path and not path.startswith("/"):
            _fail(f"{where}.path", "must be an absolute path")
        seen.add(kind)
    for index, device in enumerate(linux.get("devices") or []):
        if device["type"] not in ("c", "b", "u", "p"):
            _fail(f"linux.devices[{index}].type", f"{device['type']!r} is none of c, b, u, p")
        if not device["path"].startswith("/"):
            _fail(f"linux.devices[{index}].path", "must be an absolute path")
    for index, rule in enumerate((linux.get("resources") or {}).get("devices") or []):
        where = f"linux.resources.devices[{index}]"
        if rule.get("type", "a") not in ("a", "b", "c"):
            _fail(f"{where}.type", f"{rule['type']!r} is none of a, b, c")
        if set(rule.get("access", "")) - set("rwm"):
            _fail(f"{where}.access", f"{rule['access']!r} holds more than r, w, m")
    for name in ("maskedPaths", "readonlyPaths"):
        for index, path in enumerate(linux.get(name) or []):
            if not path.startswith("/"):
                _fail(f"linux.{name}[{index}]", "must be an absolute path")


def _version(version: str) -> None:
    numbers = version.split("-")[0].split("+")[0].split(".")
    if len(numbers) != 3 or not all(n.isascii() and n.isdigit() for n in numbers):
        _fail("ociVersion", f"{version!r} is not a version like 1.2.0")
    if int(numbers[0]) != 1:
        _fail("ociVersion", f"{version} is not supported; 1.x.y is")


def _no_nul(value: "Any", where: str) -> None:
    """Refuse strings that the kernel would cut short."""
    if isinstance(value, str):
        if "\0" in value:
            _fail(where, "holds a NUL character")
    elif isinstance(value, dict):
        for key, item in value.items():
            _no_nul(item, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _no_nul(item, f"{where}[{index}]")


def _check(value: "Any", shape: "Any", where: str) -> None:
    if isinstance(shape, dict):
        _check_object(value, shape, where)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            _wrong(where, "a list", value)
        for index, item in enumerate(value):
            _check(item, shape[0], f"{where}[{index}]")
    elif shape is Uint:
        if type(value) is not int or value < 0:
            _wrong(where, "a whole number from 0 up", value)
    elif type(value) is not shape:
        _wrong(where, _WORDS[shape], value)


def _check_object(value: "Any", shape: "dict[str, Any]", where: str) -> None:
    if not isinstance(value, dict):
        _wrong(where or "config.json", "an object", value)
    for key, inner in shape.items():
        name = key.removesuffix("!")
        path = f"{where}.{name}" if where else name
        if key == "*":
            for any_name, item in value.items():
                _check(item, inner, f"{where}.{any_name}")
        elif value.get(name) is not None:
            _check(value[name], inner, path)
        elif key.endswith("!"):
            _fail(path, "is required")


def _wrong(where: str, expected: str, value: object) -> None:
    text = repr(value)
    _fail(where, f"expected {expected}, got {text if len(text) < 60 else text[:57] + '...'}")


def _fail(where: str, what: str) -> None:
    raise ConfigError(f"config.json: {where}: {what}", status=1)
