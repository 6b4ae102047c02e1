"""--volume, --mount and --tmpfs of `run`: what docker mounts in a container for them.

All raise UsageError, which names the flag and how it is to be written.
"""

from __future__ import annotations

import os

from minirun.cli.words import size
from minirun.core.errors import UsageError
from minirun.core.keeping import places
from minirun.core.lazy import lazy
from minirun.core.rootfs.mount_options import COPY_UP
from minirun.oci.bundle import absolute

with lazy:
    import re  # few have quotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.cli.docker.run_flags import ConfigFlags
    from minirun.image.store import Image
    from minirun.oci.run_config import RunOptions

    MountArgument = tuple[str, str, tuple[str, ...]]
    """Source, destination and options of a mount. The source "" is a new tmpfs."""

_MOUNT = "type=bind,src=/host/path,dst=/path[,ro], or type=tmpfs,dst=/path[,tmpfs-size=64m]"
_KEYS = {
    "type": "type", "source": "source", "src": "source", "target": "target", "dst": "target",
    "destination": "target", "readonly": "ro", "ro": "ro", "tmpfs-size": "size",
    "tmpfs-mode": "mode",
}  # fmt: skip
"""docker's names of what --mount takes."""
_FLAGS = frozenset(
    (
        "ro", "rw", "exec", "noexec", "suid", "nosuid", "dev", "nodev", "atime", "noatime",
        "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime",
        "sync", "async",
    )
)  # fmt: skip
_CSV = r'"((?:[^"]|"")*)"|([^",\n]*)'
"""A field of a comma-separated line, as RFC 4180 has it: in quotes, "" is one; else without any."""
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
"""What Go's strconv.ParseBool knows."""
_SAFE = ("noexec", "nosuid", "nodev")
"""What a tmpfs has unless its options say exec, suid or dev."""
VOLUME_LIMIT = 100
"""So many volumes one image may declare."""


def add(run: RunOptions, flags: ConfigFlags, image: Image) -> RunOptions:
    """Return the options with what the flags mount; none may hide another, in docker's words."""
    rows = [*map(_volume, flags.volume), *map(_mount, flags.mount), *map(_tmpfs, flags.tmpfs)]
    found: dict[str, MountArgument] = {}
    for row in rows:
        if found.setdefault(row[1], row) is not row:
            hint = "one -v, --mount or --tmpfs for a destination"
            raise UsageError(f"duplicate mount point: {row[1]}", hint)
    return run._replace(mounts=tuple(found.values()))


def add_declared(run: RunOptions) -> RunOptions:
    """Return the options with the volumes that the image declares. Raises UsageError.

    One becomes docker's anonymous volume: a directory of the container's own, kept apart from what
    the container writes elsewhere, and removed with it. In stage 1 it gets what the image has there
    (minirun.core.rootfs.mount_entry). A flag's mount with the same destination takes its place.
    """
    given = {absolute(path) for _, path, _ in run.mounts}
    volumes = sorted({absolute(path) for path in run.declared["volumes"]} - given)
    if "/" in volumes:
        raise UsageError("invalid volume '/': the image declares one in place of all its files")
    if len(volumes) > VOLUME_LIMIT:
        raise UsageError(f"the image declares {len(volumes)} volumes", f"{VOLUME_LIMIT} at most")
    rows = [(f"{places.VOLUMES}/{n}", path, (COPY_UP,)) for n, path in enumerate(volumes)]
    return run._replace(mounts=(*rows, *run.mounts))


def in_memory(document: dict[str, Any]) -> None:
    """Make the declared volumes of a config.json for a bundle into file systems in memory."""
    for row in document["mounts"]:
        if row["source"].startswith(f"{places.VOLUMES}/"):
            options = ["rw", "nosuid", "nodev", COPY_UP]
            row.update({"type": "tmpfs", "source": "tmpfs", "options": options})


def _volume(text: str) -> MountArgument:
    parts = text.split(":")
    if len(parts) not in (2, 3) or not parts[0]:
        raise UsageError(f"invalid volume {text!r}", "-v /host/path:/container/path[:ro]")
    place = _destination(parts[1], f"volume {text!r}", "-v /host/path:/container/path[:ro]")
    source = _source(parts[0], f"volume {text!r}")
    options = tuple(parts[2].split(",")) if len(parts) == 3 else ()
    unknown = set(options) - {"ro", "rw", "noexec", "nosuid", "nodev", "z", "Z"}
    if unknown:
        raise UsageError(f"volume {text!r}: unknown option {min(unknown)!r}", "ro or rw")
    return source, place, tuple(o for o in options if o not in ("z", "Z"))


def _mount(text: str) -> MountArgument:
    """Return what --mount says."""
    given = _fields(text)
    kind = given.get("type", "").lower()
    source, read_only = given.get("source", ""), given.get("ro", "false")
    if kind not in ("bind", "tmpfs"):
        raise UsageError(f"mount {text!r}: type {kind or 'volume'!r} is not supported", _MOUNT)
    if read_only not in (*_TRUE, *_FALSE):
        raise UsageError(f"invalid mount {text!r}: readonly is true or false", _MOUNT)
    target = _destination(given.get("target", ""), f"mount {text!r}", _MOUNT)
    options = ["ro"] if read_only in _TRUE else []
    if kind == "bind":
        if "size" in given or "mode" in given:
            raise UsageError(f"mount {text!r}: tmpfs-size and tmpfs-mode are a tmpfs'", _MOUNT)
        if not source:
            raise UsageError(f"invalid mount {text!r}: it has no source", _MOUNT)
        return _source(source, f"mount {text!r}"), target, tuple(options)
    if source:
        raise UsageError(f"invalid mount {text!r}: a tmpfs has no source", _MOUNT)
    if "size" in given:
        options.append(f"size={size(given['size'])}")
    if "mode" in given:
        options.append(f"mode={given['mode']}")
    return "", target, _of_tmpfs(options, f"mount {text!r}")


def _fields(text: str) -> dict[str, str]:
    """Return the values of --mount by their names in _KEYS."""
    given: dict[str, str] = {}
    for field in _split(text):
        name, equals, value = field.partition("=")
        key = _KEYS.get(name.lower())
        if not key:
            raise UsageError(f"mount {text!r}: unexpected key {name!r}", _MOUNT)
        if not equals and key != "ro":
            raise UsageError(f"invalid mount {text!r}: {name!r} needs a value", _MOUNT)
        given[key] = value if equals else "true"
    return given


def _split(text: str) -> list[str]:
    """Return the fields of a comma-separated line: with quotes a field may hold a comma."""
    if '"' not in text:
        return text.split(",")
    if not re.fullmatch(f"(?:{_CSV})(?:,(?:{_CSV}))*", text):
        hint = """--mount 'type=bind,"src=/a,b",dst=/x': quotes go around a whole field"""
        raise UsageError(f"invalid mount {text!r}: quotes that no comma follows", hint)
    found = re.finditer(f"(?:^|,)(?:{_CSV})", text)
    return [one[2] if one[1] is None else one[1].replace('""', '"') for one in found]


def _tmpfs(text: str) -> MountArgument:
    """Return what --tmpfs says."""
    path, _, words = text.partition(":")
    place = _destination(path, f"tmpfs {text!r}", "--tmpfs /path[:size=64m,mode=1777]")
    return "", place, _of_tmpfs(words.split(",") if words else [], f"tmpfs {text!r}")


def _of_tmpfs(words: list[str], where: str) -> tuple[str, ...]:
    """Return the options of a tmpfs, docker's own first: of two the later counts."""
    for word in words:
        name, _, value = word.partition("=")
        if word not in _FLAGS and not _is_setting(name, value):
            hint = "ro, exec, size=64m, mode=1777, uid=0, gid=0, nr_inodes=1k and the like"
            raise UsageError(f"{where}: invalid tmpfs option {word!r}", hint)
    return *_SAFE, *words


def _is_setting(name: str, value: str) -> bool:
    """Return True for a setting of tmpfs(5) with a value that the kernel can read."""
    if name == "mpol":
        return bool(value)
    if name in ("size", "nr_blocks", "nr_inodes"):
        value = value[:-1] if value[-1:] in tuple("kKmMgG") else value
        value = value.removesuffix("%") if name == "size" else value
    elif name not in ("uid", "gid") and (name != "mode" or value.strip("01234567")):
        return False
    return value.isascii() and value.isdigit() and len(value) < 20


def _destination(path: str, where: str, hint: str) -> str:
    """Return a path of a container, cleaned. Raises UsageError if nothing can be mounted there."""
    if not path.startswith("/"):
        raise UsageError(f"invalid {where}: the destination is no absolute path", hint)
    cleaned = absolute(path)
    if cleaned == "/":
        raise UsageError(f"invalid {where}: the destination cannot be /")
    return cleaned


def _source(path: str, where: str) -> str:
    """Return a path of the host as an absolute one. Raises UsageError if nothing is there.

    A word that begins with neither / nor . is no path, but docker's name of a volume.
    """
    if path[0] not in "/.":
        text = f"{where}: {path!r} is no path: docker has a volume of that name, minirun has none"
        there = f"for the folder {os.path.abspath(path)} write ./{path}"
        raise UsageError(text, there if os.path.exists(path) else "/host/path, or ./path")
    source = os.path.abspath(path)
    try:
        os.stat(source)
    except FileNotFoundError:
        raise UsageError(f"{where}: {source} does not exist on this host") from None
    except OSError as error:
        what = os.strerror(error.errno or 0).lower()
        raise UsageError(f"{where}: {source}: {what}") from None
    return source
