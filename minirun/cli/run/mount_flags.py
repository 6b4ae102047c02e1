"""A value of --volume, --mount or --tmpfs: what one flag mounts, in docker's words.

All raise UsageError, which names the flag and how it is to be written. What the flags mount
together: minirun.cli.run.mounts.
"""

from __future__ import annotations

import os

from minirun.cli.words import size
from minirun.core.errors import UsageError, reason
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.core.rootfs.mount_options import COPY_UP
from minirun.oci.bundle import absolute
from minirun.oci.run_config import SPREADING

with lazy:
    import re  # few have quotes

    from minirun.running import volumes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.common.docker_record import MountRecord
    from minirun.core.keeping.settings import Settings
    from minirun.running.volumes import Volume

_VOLUME = "-v NAME:/container/path, or -v /host/path:/container/path[:ro]"
_MOUNT = "type=volume,src=NAME,dst=/path; type=bind,src=/host/path,dst=/path; type=tmpfs,dst=/path"
_KEYS = {
    "type": "type", "source": "source", "src": "source", "target": "target", "dst": "target",
    "destination": "target", "readonly": "ro", "ro": "ro", "consistency": "consistency",
    "bind-propagation": "bind-propagation", "bind-nonrecursive": "bind-nonrecursive",
    "bind-recursive": "bind-recursive", "volume-nocopy": "volume-nocopy",
    "volume-label": "volume-label", "volume-driver": "volume-driver", "volume-opt": "volume-opt",
    "volume-subpath": "volume-subpath", "tmpfs-size": "tmpfs-size", "tmpfs-mode": "tmpfs-mode",
}  # fmt: skip
"""docker's names of what --mount takes."""
_BARE = ("ro", "volume-nocopy", "bind-nonrecursive")
"""Keys that need no value: they are true then."""
_SEVERAL = ("volume-label", "volume-opt")
_CONSISTENCY = ("consistent", "cached", "delegated", "default")
"""What a Mac's file sharing knows; on Linux docker takes the words, and they mean nothing."""
_RECURSIVE = ("enabled", "disabled", "writable", "readonly")
_OTHERS = {
    "image": "its files are in the image: minirun run IMAGE, or COPY --from=IMAGE in a Dockerfile",
    "npipe": "a named pipe is of Windows",
    "cluster": "a cluster volume is of docker's swarm",
}
"""docker's further types, and why they are none here."""
_OPTIONS = frozenset(("ro", "rw", "noexec", "nosuid", "nodev", "z", "Z", "nocopy"))
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


class MountArgument(Record):
    """What one flag mounts."""

    source: str
    """A path of the host; "" for a tmpfs."""
    target: str
    options: tuple[str, ...]
    volume: Volume | None = None
    subpath: str = ""
    folder: bool = False
    """`source` is made if it is missing."""
    tmpfs: str | None = None
    """The options as --tmpfs has them; None for another flag."""
    inherited: bool = False
    """It is another container's: --volumes-from."""

    def noted(self) -> MountRecord:
        """Return what the container's record says of it."""
        options = [word for word in self.options if word != COPY_UP]
        kind = "volume" if self.volume else "bind" if self.source else "tmpfs"
        name = self.volume.name if self.volume else ""
        row: MountRecord = {
            "type": kind, "name": name, "source": self.source, "target": self.target,
            "options": options,
        }  # fmt: skip
        if self.volume and self.volume.anonymous:
            row["anonymous"] = True
        if self.subpath:
            row["subpath"] = self.subpath
        if self.tmpfs is not None:
            row["tmpfs"] = self.tmpfs
        return row


def of_volume_flag(text: str, settings: Settings) -> MountArgument:
    """Return what -v says: [SOURCE:]DESTINATION[:OPTIONS]."""
    parts = text.split(":")
    where = f"volume {text!r}"
    if len(parts) == 2 and len(parts[0]) == 1 and parts[0].isalpha() and parts[1]:
        warn(f"{where}: to docker {parts[0]}: is a drive of Windows, so a new volume is at /{text}")
        parts = [f"/{text}"]
    if len(parts) > 3 or not all(parts):
        raise UsageError(f"invalid {where}", _VOLUME)
    source, target = (parts[0], parts[1]) if len(parts) > 1 else ("", parts[0])
    target = destination(target, where, _VOLUME)
    words = parts[2].split(",") if len(parts) == 3 else []
    is_volume = source[:1] not in ("/", ".")
    options = _options(words, where, is_volume=is_volume)
    if is_volume:
        volume = named(source, where) if source else None
        return of_volume(volume, target, options, settings, copies="nocopy" not in words)
    path = os.path.abspath(source)
    return MountArgument(path, target, options, folder=not exists(path, where))


def _options(words: list[str], where: str, *, is_volume: bool) -> tuple[str, ...]:
    """Return the mount options that -v's words mean. Raises UsageError, as docker does, for two of
    a kind."""
    known = [*_OPTIONS, *SPREADING, *_CONSISTENCY]
    if unknown := set(words) - set(known):
        hint = "ro, rw, z, Z, nocopy, [r]shared, [r]slave, [r]private, or cached"
        raise UsageError(f"{where}: unknown option {min(unknown)!r}", hint)
    for kind in (("ro", "rw"), ("z", "Z"), SPREADING, _CONSISTENCY):
        if len(twice := [word for word in words if word in kind]) > 1:
            raise UsageError(f"{where}: {' and '.join(twice)} exclude each other", "one of them")
    spreading = SPREADING & set(words)
    if is_volume and spreading:
        text = f"{where}: {min(spreading)} is for a bind mount, and this is a volume"
        raise UsageError(text, "-v /host/path:/path:rshared")
    if not is_volume and "nocopy" in words:
        raise UsageError(f"{where}: nocopy is for a volume, and this is a bind mount", _VOLUME)
    if {"z", "Z"} & set(words) and os.path.exists("/sys/fs/selinux/enforce"):
        warn(
            f"{where}: z and Z label nothing: SELinux is on, and minirun leaves labels as they are"
        )
    return tuple(o for word in words for o in _option(word))


def _option(word: str) -> tuple[str, ...]:
    """Return what a word of -v is to mount(8). Read-only is all that is mounted below, too."""
    if word == "ro":
        return ("ro", "rro")
    return () if word in ("z", "Z", "nocopy", *_CONSISTENCY) else (word,)


def named(name: str, where: str) -> Volume:
    """Return a volume that a flag names. Raises UsageError, in docker's words."""
    try:
        hint = f"for the folder {os.path.abspath(name)} write ./{name}"
        volumes.check_name(name, hint if os.path.exists(name) else "")
    except volumes.VolumeError as error:
        raise UsageError(f"{where}: {error}", error.hint) from None
    return volumes.Volume(name)


def of_volume(
    volume: Volume | None,
    target: str,
    options: tuple[str, ...],
    settings: Settings,
    subpath: str = "",
    *,
    copies: bool,
) -> MountArgument:
    """Return the mount of a volume; None for an anonymous one. Raises UsageError."""
    if not volume:
        volume = volumes.Volume(volumes.new_name(), anonymous=True)
    try:
        if volume.name in volumes.names(settings.store):
            volume = volumes.load(settings.store, volume.name)._replace(anonymous=volume.anonymous)
    except volumes.VolumeError as error:
        raise UsageError(str(error), error.hint) from None
    if own := volume.mount():
        source, words = own
        if source and not os.path.exists(source):
            text = f"volume {volume.name}: its device {source} does not exist on this host"
            raise UsageError(text, f"mkdir {source}")
        words = (*_SAFE, *words) if not source else words
        options = tuple(word for word in options if source or word != "rro")
        return MountArgument(source, target, (*words, *options), volume, subpath)
    copied = (COPY_UP,) if copies and not subpath else ()
    source = volumes.data(settings.store, volume.name)
    return MountArgument(source, target, (*copied, *options), volume, subpath)


def of_mount_flag(text: str, settings: Settings) -> MountArgument:
    """Return what --mount says."""
    given, several = _fields(text)
    where = f"mount {text!r}"
    kind = given.get("type", "volume").lower()
    if kind in _OTHERS:
        raise UsageError(f"{where}: minirun has no mounts of type {kind}", _OTHERS[kind])
    if kind not in ("bind", "volume", "tmpfs"):
        raise UsageError(f"{where}: unknown type {kind!r}", _MOUNT)
    for key in (*given, *several):
        group = key.partition("-")[0]
        if group in ("bind", "volume", "tmpfs") and group != kind:
            text = f"{where}: cannot mix '{group}-*' options with mount type '{kind}': {key}"
            raise UsageError(text, f"type={group}, or without {key}")
    if given.get("consistency", "default") not in _CONSISTENCY:
        raise UsageError(f"{where}: invalid consistency", ", ".join(_CONSISTENCY))
    target = destination(given.get("target", ""), where, _MOUNT)
    read_only = _true(given, "ro", where)
    if kind == "bind":
        return _bind_mount(given, target, where, read_only=read_only)
    if kind == "volume":
        return _volume_mount(given, several, target, where, settings, read_only=read_only)
    if given.get("source"):
        raise UsageError(f"invalid {where}: a tmpfs has no source", _MOUNT)
    options = ["ro"] if read_only else []
    if "tmpfs-size" in given:
        options.append(f"size={size(given['tmpfs-size'])}")
    if "tmpfs-mode" in given:
        options.append(f"mode={given['tmpfs-mode']}")
    return MountArgument("", target, _of_tmpfs(options, where))


def _bind_mount(
    given: dict[str, str], target: str, where: str, *, read_only: bool
) -> MountArgument:
    """Return a bind mount; unlike with -v its source has to be there."""
    source = given.get("source", "")
    if not source:
        raise UsageError(f"invalid {where}: it has no source", _MOUNT)
    if source[0] not in "/.":
        text = f"invalid {where}: {source!r} is no path of the host"
        raise UsageError(text, f"the folder {os.path.abspath(source)} is ./{source}")
    path = os.path.abspath(source)
    if not exists(path, where):
        text = f"invalid {where}: bind source path does not exist: {path}"
        raise UsageError(text, "mkdir it first, or -v, which makes it")
    recursive = given.get("bind-recursive", "enabled")
    if recursive not in _RECURSIVE:
        text = f"invalid {where}: invalid bind-recursive {recursive!r}"
        raise UsageError(text, ", ".join(_RECURSIVE))
    alone = recursive == "disabled" or _true(given, "bind-nonrecursive", where)
    spreading = given.get("bind-propagation", "")
    if spreading and spreading not in SPREADING:
        text = f"invalid {where}: invalid bind-propagation {spreading!r}"
        raise UsageError(text, "private, rprivate, shared, rshared, slave or rslave")
    if recursive == "readonly" and not (read_only and spreading in ("", "rprivate")):
        text = f"invalid {where}: bind-recursive=readonly needs readonly"
        raise UsageError(text, "and bind-propagation=rprivate, or none")
    options: tuple[str, ...] = ("bind",) if alone else ()
    options += ("ro",) if read_only else ()
    options += ("rro",) if read_only and not alone and recursive != "writable" else ()
    return MountArgument(path, target, (*options, *filter(None, [spreading])))


def _volume_mount(
    given: dict[str, str],
    several: dict[str, list[str]],
    target: str,
    where: str,
    settings: Settings,
    *,
    read_only: bool,
) -> MountArgument:
    """Return the mount of a volume, named or anonymous."""
    if given.get("volume-driver", "local") != "local":
        text = f"invalid {where}: volume-driver {given['volume-driver']!r}"
        raise UsageError(text, "minirun has no volumes but local ones")
    name, subpath = given.get("source", ""), given.get("volume-subpath", "")
    if subpath.startswith("/") or ".." in subpath.split("/"):
        text = f"invalid {where}: volume-subpath must be a relative path within the volume"
        raise UsageError(text, "volume-subpath=folder/inner")
    if subpath and not name:
        text = f"invalid {where}: an anonymous volume is empty: there is no {subpath!r} in it"
        raise UsageError(text, "source=NAME")
    labels = dict(text.partition("=")[::2] for text in several.get("volume-label", ()))
    options = dict(text.partition("=")[::2] for text in several.get("volume-opt", ()))
    try:
        volumes.check_options(options)
    except volumes.VolumeError as error:
        raise UsageError(f"invalid {where}: {error}", error.hint) from None
    volume = named(name, where) if name else volumes.Volume(volumes.new_name(), anonymous=True)
    copies = not _true(given, "volume-nocopy", where)
    words = ("ro", "rro") if read_only else ()
    volume = volume._replace(labels=labels, options=options)
    return of_volume(volume, target, words, settings, subpath, copies=copies)


def _true(given: dict[str, str], key: str, where: str) -> bool:
    """Return the value of a switch of --mount, as Go reads it. Raises UsageError."""
    value = given.get(key, "false")
    if value not in (*_TRUE, *_FALSE):
        shown = "readonly" if key == "ro" else key
        raise UsageError(f"invalid {where}: {shown} is true or false", _MOUNT)
    return value in _TRUE


def _fields(text: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the values of --mount by their names in _KEYS; and those that may be several."""
    given: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    for field in _split(text):
        name, equals, value = field.partition("=")
        key = _KEYS.get(name.lower())
        if not key:
            raise UsageError(f"mount {text!r}: unexpected key {name!r}", _MOUNT)
        if not equals and key not in _BARE:
            raise UsageError(f"invalid mount {text!r}: {name!r} needs a value", _MOUNT)
        if key in _SEVERAL:
            several.setdefault(key, []).append(value)
        else:
            given[key] = value if equals else "true"
    return given, several


def _split(text: str) -> list[str]:
    """Return the fields of a comma-separated line: with quotes a field may hold a comma."""
    if '"' not in text:
        return text.split(",")
    if not re.fullmatch(f"(?:{_CSV})(?:,(?:{_CSV}))*", text):
        hint = """--mount 'type=bind,"src=/a,b",dst=/x': quotes go around a whole field"""
        raise UsageError(f"invalid mount {text!r}: quotes that no comma follows", hint)
    found = re.finditer(f"(?:^|,)(?:{_CSV})", text)
    return [one[2] if one[1] is None else one[1].replace('""', '"') for one in found]


def of_tmpfs_flag(text: str) -> MountArgument:
    """Return what --tmpfs says."""
    path, _, words = text.partition(":")
    place = destination(path, f"tmpfs {text!r}", "--tmpfs /path[:size=64m,mode=1777]")
    options = _of_tmpfs(words.split(",") if words else [], f"tmpfs {text!r}")
    return MountArgument("", place, options, tmpfs=words)


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
    return whole(value) is not None


def destination(path: str, where: str, hint: str) -> str:
    """Return a path of a container, cleaned. Raises UsageError if nothing can be mounted there."""
    if not path.startswith("/"):
        raise UsageError(f"invalid {where}: the destination is no absolute path", hint)
    cleaned = absolute(path)
    if cleaned == "/":
        raise UsageError(f"invalid {where}: the destination cannot be /")
    return cleaned


def exists(path: str, where: str) -> bool:
    """Return True if something is at a path of the host. Raises UsageError if that is not known."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        what = reason(error)
        raise UsageError(f"{where}: {path}: {what}") from None
    return True
