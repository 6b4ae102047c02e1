"""Reads config.json, and names what is wrong by its exact path: ``mounts[3].options[0]: …``.

shape.json is the runtime-spec's JSON schema in brief: a type, [a shape] for a list, {name: shape}
for an object, in which what ends in ! must be there, and "*" stands for any name. Properties that
are not listed are ignored, as the spec demands.
"""

from __future__ import annotations

import os

from minirun.common.schema import UINT64, Checker, SchemaError, absolute, fail, without_nulls
from minirun.core.config import Config
from minirun.core.errors import ConfigError, reason
from minirun.core.keeping import jsonlite, places, state, state_file
from minirun.core.keeping.choices import DEFAULTS, Choices
from minirun.core.keeping.numbers import whole
from minirun.oci.rlimits import RLIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "uint64": UINT64}


def _shapes() -> dict[str, Any]:
    """Return the shapes of shape.json by name, in the words of minirun.common.schema."""
    known: dict[str, Any] = dict(_TYPES)

    def typed(value: Any) -> Any:
        if isinstance(value, str):
            return known[value]
        if isinstance(value, list):
            return [typed(value[0])]
        return {name: typed(inner) for name, inner in value.items()}

    text = state.read_text(f"{os.path.dirname(__file__)}/shape.json")
    for name, value in jsonlite.loads(text).items():
        known[name] = typed(value)
    return known


SHAPE: dict[str, Any] = _shapes()["config.json"]
_MOST_ITEMS = {
    "mounts": 4096, "linux.devices": 4096, "linux.maskedPaths": 4096, "linux.readonlyPaths": 4096,
    "linux.uidMappings": 340, "linux.gidMappings": 340,
    **{f"hooks.{kind}": 256 for kind in SHAPE["hooks"]},
}  # fmt: skip
"""How long a list may be whose every item is a call or a process; id maps: user_namespaces(7)."""
_CHECKER = Checker("config.json", _MOST_ITEMS)
_MOST_BYTES = 4 << 20
"""Bytes. A larger config.json is refused: parsed, it takes up to forty times the memory."""
NAMESPACES = ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time")
_ID_LIMIT = 2**32 - 1  # which is -1 to the kernel: "leave it as it is"
_MOST_GROUPS = 1 << 16  # NGROUPS_MAX of linux/limits.h
_LONGEST_NAME = 64  # bytes of a host name: HOST_NAME_MAX
_LONGEST_INTERFACE = 15  # bytes of a network interface's name: IFNAMSIZ, less its NUL


def load(bundle: str, choices: Choices = DEFAULTS) -> Config:
    """Read and check `bundle`/config.json. Raises ConfigError."""
    path = f"{bundle}/{places.CONFIG}"
    try:
        document = check(jsonlite.loads(_read(path)))
        return Config(document, bundle, choices)
    except FileNotFoundError:
        hint = "a bundle is a directory with a config.json; minirun spec makes one"
        raise ConfigError(f"{path}: no such file", hint, status=1) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8", status=1) from None
    except OSError as error:
        raise ConfigError(f"{path}: {reason(error)}", status=1) from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}", status=1) from None


def _read(path: str) -> str:
    """Return the text of a config.json. Raises ValueError if it is too large, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return state_file.read_regular(fd, _MOST_BYTES).decode()
    finally:
        os.close(fd)


def check(raw: Any) -> dict[str, Any]:
    """Return `raw` without its null properties, which mean as much as none.

    Raises ConfigError if it is not a config.json that minirun can run.
    """
    return _checked(raw, SHAPE, "", _document)


def resources(raw: Any) -> dict[str, Any]:
    """Return linux.resources alone, as `update` gets it, without null properties.

    Raises ConfigError.
    """
    return _checked(raw, SHAPE["linux"]["resources"], "linux.resources", lambda _: None)


def process(raw: Any) -> dict[str, Any]:
    """Return process alone, as `exec --process` gets it, without null properties.

    Raises ConfigError.
    """
    return _checked(raw, SHAPE["process"], "process", _process)


def _checked(
    raw: Any, shape: Any, where: str, more: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Return `raw` without nulls, after the check of its shape and what `more` looks at."""
    try:
        cleaned: dict[str, Any] = without_nulls(raw, where)
        _CHECKER.check(cleaned, shape, where)
        more(cleaned)
    except SchemaError as error:
        raise ConfigError(f"config.json: {error}", status=1) from None
    return cleaned


def _document(config: dict[str, Any]) -> None:
    """Check what a shape cannot say."""
    _version(config["ociVersion"])
    if not config["root"]["path"]:
        fail("root.path", "is empty")
    if "" in config.get("annotations", {}):
        fail("annotations", "holds a key without a name")
    if "process" in config:
        _process(config["process"])
    for index, mount in enumerate(config.get("mounts", [])):
        _mount(mount, f"mounts[{index}]")
    for kind, hooks in config.get("hooks", {}).items():
        for index, hook in enumerate(hooks if kind in SHAPE["hooks"] else []):
            absolute(hook["path"], f"hooks.{kind}[{index}].path")
            if hook.get("timeout", 1) <= 0:
                fail(f"hooks.{kind}[{index}].timeout", "must be greater than 0 (seconds)")
    linux = config.get("linux", {})
    _no_limit_of_old(config["ociVersion"], linux.get("resources", {}))
    _namespaces(config, linux)
    _devices(linux)
    for name in ("maskedPaths", "readonlyPaths"):
        for index, path in enumerate(linux.get(name, [])):
            absolute(path, f"linux.{name}[{index}]")


def _process(process: dict[str, Any]) -> None:
    absolute(process["cwd"], "process.cwd")
    if not process.get("args"):
        fail("process.args", "must hold at least the name of a program")
    for index, entry in enumerate(process.get("env", [])):
        if not entry.partition("=")[0]:
            fail(f"process.env[{index}]", f"{entry!r} has no name")
    user = process.get("user", {})
    for name in ("uid", "gid"):
        _id(user.get(name, 0), f"process.user.{name}")
    more = len(user.get("additionalGids", []))
    if more > _MOST_GROUPS:
        what = f"{more} groups, and the kernel takes at most {_MOST_GROUPS} (setgroups(2))"
        fail("process.user.additionalGids", what)
    for index, gid in enumerate(user.get("additionalGids", [])):
        _id(gid, f"process.user.additionalGids[{index}]")
    if user.get("umask", 0) > 0o777:
        fail("process.user.umask", f"{user['umask']} is above {0o777} (octal 777)")
    for name, cells in process.get("consoleSize", {}).items():
        if name in ("height", "width") and cells > 0xFFFF:
            fail(f"process.consoleSize.{name}", f"must be at most {0xFFFF}")
    if not -1000 <= process.get("oomScoreAdj", 0) <= 1000:
        fail("process.oomScoreAdj", "must lie between -1000 and 1000")
    seen: set[str] = set()
    for index, limit in enumerate(process.get("rlimits", [])):
        where = f"process.rlimits[{index}]"
        if limit["type"] not in RLIMITS:
            fail(f"{where}.type", f"unknown limit {limit['type']!r}")
        if limit["type"] in seen:
            fail(f"{where}.type", f"{limit['type']} stands there twice")
        if limit["soft"] > limit["hard"]:
            fail(f"{where}.soft", "must not be above hard")
        seen.add(limit["type"])


def _mount(mount: dict[str, Any], where: str) -> None:
    mount["destination"] = "/" + mount["destination"].lstrip("/")  # podman writes "" for --tmpfs /
    if bool(mount.get("uidMappings")) != bool(mount.get("gidMappings")):
        fail(where, "uidMappings and gidMappings go together")
    for name in ("uidMappings", "gidMappings"):
        _id_maps(mount.get(name, []), f"{where}.{name}")


def _namespaces(config: dict[str, Any], linux: dict[str, Any]) -> None:
    paths: dict[str, str] = {}
    for index, namespace in enumerate(linux.get("namespaces", [])):
        where = f"linux.namespaces[{index}]"
        kind, path = namespace["type"], namespace.get("path", "")
        if kind not in NAMESPACES:
            fail(f"{where}.type", f"unknown namespace {kind!r}")
        if kind in paths:
            fail(f"{where}.type", f"{kind} stands there twice")
        if path:
            absolute(path, f"{where}.path")
        paths[kind] = path
    if "mount" not in paths:
        _host_mounts(linux, "user" in paths)
    for name in ("hostname", "domainname"):
        if config.get(name) and "uts" not in paths:
            fail(name, "needs a uts namespace of the container's own")
        if len(config.get(name, "").encode()) > _LONGEST_NAME:
            fail(name, f"is longer than {_LONGEST_NAME} bytes")
    if linux.get("timeOffsets") and paths.get("time") != "":
        fail("linux.timeOffsets", "needs a new time namespace")
    for name in ("uidMappings", "gidMappings"):
        if paths.get("user") == "" and not linux.get(name):
            fail(f"linux.{name}", "is required for a new user namespace")
        if linux.get(name) and "user" not in paths:
            fail(f"linux.{name}", "needs a user namespace")
        _id_maps(linux.get(name, []), f"linux.{name}")
    for name in linux.get("timeOffsets", {}):
        if name not in ("monotonic", "boottime"):
            fail(f"linux.timeOffsets.{name}", "is none of monotonic, boottime")
    if linux.get("netDevices"):
        _net_devices(linux["netDevices"], "network" in paths)


def _host_mounts(linux: dict[str, Any], own_users: bool) -> None:
    """Check a container that has the host's mounts."""
    for name in ("maskedPaths", "readonlyPaths"):
        if linux.get(name):
            fail(f"linux.{name}", "cannot be restricted without a private mount namespace")
    if own_users:
        fail("linux.namespaces", "a user namespace may not mount in the host's mount namespace")


def _id_maps(rows: list[dict[str, int]], where: str) -> None:
    for index, row in enumerate(rows):
        if row["size"] == 0:
            fail(f"{where}[{index}].size", "must be greater than 0")
        for side in ("containerID", "hostID"):
            if row[side] + row["size"] > _ID_LIMIT:
                fail(f"{where}[{index}].{side}", f"with its size reaches beyond {_ID_LIMIT - 1}")


def _net_devices(rows: dict[str, dict[str, str]], own_network: bool) -> None:
    """Check the names as the kernel does (dev_valid_name), but with the path of the culprit."""
    if not own_network:
        fail("linux.netDevices", "unable to move network devices without a NET namespace")
    for name, row in rows.items():
        for text in (name, row.get("name") or name):
            odd = text in ("", ".", "..") or any(c in "/:" or c.isspace() for c in text)
            if odd or len(text.encode()) > _LONGEST_INTERFACE:
                fail(f"linux.netDevices.{name}", f"{text!r} is not the name of an interface")


def _devices(linux: dict[str, Any]) -> None:
    for index, device in enumerate(linux.get("devices", [])):
        where = f"linux.devices[{index}]"
        if device["type"] not in ("c", "b", "u", "p"):
            fail(f"{where}.type", f"{device['type']!r} is none of c, b, u, p")
        absolute(device["path"], f"{where}.path")
        if device["path"].rstrip("/").rpartition("/")[2] in ("", ".", ".."):
            fail(f"{where}.path", f"{device['path']!r} does not end with a name")
        for name in ("uid", "gid"):
            _id(device.get(name, 0), f"{where}.{name}")
        for name in ("major", "minor"):
            if device["type"] != "p" and name not in device:
                fail(f"{where}.{name}", "is required for a device")
        for name, most in (("major", 0xFFF), ("minor", 0xFFFFF), ("fileMode", 0xFFFFFFFF)):
            if not 0 <= device.get(name, 0) <= most:
                fail(f"{where}.{name}", f"must lie between 0 and {most}")
    for index, rule in enumerate(linux.get("resources", {}).get("devices", [])):
        where = f"linux.resources.devices[{index}]"
        if rule.get("type", "a") not in ("a", "b", "c"):
            fail(f"{where}.type", f"{rule['type']!r} is none of a, b, c")
        if set(rule.get("access", "")) - set("rwm"):
            fail(f"{where}.access", f"{rule['access']!r} holds more than r, w, m")
        for name in ("major", "minor"):
            if not -1 <= rule.get(name, -1) < 2**32:
                fail(f"{where}.{name}", "must be a number of 32 bits, or -1 for any")


def _version(version: str) -> None:
    numbers = version.split("-")[0].split("+")[0].split(".")
    if len(numbers) != 3 or any(whole(n) is None for n in numbers):
        fail("ociVersion", f"{version!r} is not a version like 1.2.0")
    if numbers[0] != "1":
        fail("ociVersion", f"{version} is not supported; 1.x.y is")


def _no_limit_of_old(version: str, resources: dict[str, Any]) -> None:
    """Take out a pids.limit of 0 that an engine older than version 1.3 has written for "no limit".

    What a 0 means since 1.3: minirun.cgroups.resources.
    """
    if resources.get("pids", {}).get("limit") == 0 and (whole(version.split(".")[1]) or 0) < 3:
        del resources["pids"]["limit"]


def _id(number: int, where: str) -> None:
    if number >= _ID_LIMIT:
        fail(where, f"must be below {_ID_LIMIT}")
