"""Volumes: directories that outlive containers, for docker's `volume` and `run -v NAME:/path`.

    STORE/volumes/               0700; locked by a command that makes or removes a volume
        NAME/volume.json         what it is: name, time, labels, options
        NAME/_data/              what a container sees
        .new.NAME, .gone.NAME    one in the making, and one that is being removed

A volume gets its name by one rename, when it is complete, and loses it by one. Who uses it stands
in the containers' records, which are written before: so what is removed has no user, and SIGKILL
leaves hidden directories at most, which :func:`sweep` removes for `gc`.

What the real stack does: dockerd keeps the same two names below /var/lib/docker/volumes, and a
database beside it; podman has a database, too.
"""

from __future__ import annotations

import fcntl
import os

from minirun.common import docker_record
from minirun.core.container import Extra
from minirun.core.errors import MinirunError, from_os
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy
from minirun.core.rootfs.tree import remove_at, remove_tree

with lazy:
    from minirun.running import store_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.container import Container
    from minirun.core.keeping.settings import Settings

LOCAL = "local"
"""docker's name of the driver whose volumes are directories: minirun has no other."""
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_CHARACTERS = _FIRST | set("_.-")
_LONGEST = 255
_RECORD, _DATA = "volume.json", "_data"
_MAKING, _GONE = ".new.", ".gone."
_OPTIONS = ("type", "device", "o")
_BINDS = ("bind", "rbind")
_NOT_OF_A_VOLUME = ("suid", "dev")


class VolumeError(MinirunError):
    """There is no such volume, or it is in use, or it cannot be made."""

    status = 1


class Volume(Record):
    """One volume, as volume.json has it."""

    name: str
    created: str = ""
    """RFC 3339."""
    labels: dict[str, str] = {}
    options: dict[str, str] = {}
    """docker's of its local driver: type, device, o."""
    anonymous: bool = False
    """A container was given it without a name."""

    def mount(self) -> tuple[str, tuple[str, ...]] | None:
        """Return what its options mount in place of its directory: source, options.

        The source "" is a tmpfs. None without such options.
        """
        if not self.options:
            return None
        words = tuple(filter(None, self.options.get("o", "").split(",")))
        if self.options.get("type") == "tmpfs":
            return "", words
        return self.options["device"], tuple(word for word in words if word not in _BINDS)


def check_name(name: str, hint: str = "") -> str:
    """Return a name that a volume may have. Raises VolumeError, in docker's words."""
    if len(name) == 1 and name in _FIRST:
        text = "volume name is too short, names should be at least two alphanumeric characters"
        raise VolumeError(f"create {name}: {text}", hint)
    if not is_name(name):
        allowed = 'only "[a-zA-Z0-9][a-zA-Z0-9_.-]" are allowed'
        text = f'"{name}" includes invalid characters for a local volume name, {allowed}'
        raise VolumeError(f"create {name}: {text}", hint or "a path of the host begins with /")
    return name


def is_name(text: str) -> bool:
    """Return True if a volume may have this name."""
    return 1 < len(text) <= _LONGEST and text[0] in _FIRST and set(text) <= _CHARACTERS


def new_name() -> str:
    """Return a name for an anonymous volume: 64 digits, as docker's."""
    return os.urandom(32).hex()


def check_options(options: dict[str, str]) -> dict[str, str]:
    """Return options that a local volume may have: of docker's, a tmpfs and a bind mount.

    Raises VolumeError.
    """
    for key in options:
        if key not in _OPTIONS:
            raise VolumeError(f"create: invalid option: {key!r}", "type, device or o")
    if not options:
        return options
    kind, device = options.get("type", ""), options.get("device", "")
    words = options.get("o", "").split(",")
    if kind == "tmpfs":
        return options
    is_bind = kind in ("", "none", "bind") and set(words) & set(_BINDS)
    if not is_bind or not device.startswith("/"):
        text = f"create: type={kind},device={device},o={options.get('o', '')}: not a volume's"
        raise VolumeError(text, "type=tmpfs, or type=none with o=bind and device=/host/path")
    return options


def folder(store: str) -> str:
    """Return the directory that the volumes of a store lie in."""
    return f"{store}/{places.VOLUMES}"


def data(store: str, name: str) -> str:
    """Return the directory that a container sees of a volume."""
    return f"{folder(store)}/{name}/{_DATA}"


def names(store: str) -> list[str]:
    """Return the names of all volumes, in order. Raises OSError."""
    try:
        found = os.listdir(folder(store))
    except FileNotFoundError:
        return []
    return sorted(name for name in found if is_name(name))


def load(store: str, name: str) -> Volume:
    """Return a volume. Raises VolumeError: there is none, or its record is damaged."""
    path = f"{folder(store)}/{name}"
    try:
        if not is_name(name):
            raise FileNotFoundError
        found = Volume(**jsonlite.loads(state.read_text(f"{path}/{_RECORD}")))
        maps = (found.labels, found.options)
        if found.name != name or not all(isinstance(each, dict) for each in maps):
            raise ValueError("not a volume's record")
        if not all(isinstance(text, str) for each in maps for text in (*each, *each.values())):
            raise ValueError("a label or an option is no text")
        check_options(found.options)
    except FileNotFoundError:
        if os.path.lexists(path) and is_name(name):
            text = f"volume {name}: {_RECORD} is missing: it is not minirun's"
            raise VolumeError(text, f"ls -la {path}") from None
        raise VolumeError(f"get {name}: no such volume", "minirun volume ls lists all") from None
    except NotADirectoryError:
        raise VolumeError(f"volume {name}: {path} is no directory") from None
    except (ValueError, TypeError, KeyError) as error:
        text = f"volume {name}: {_RECORD} is damaged: {error}"
        raise VolumeError(text, f"ls -la {path}") from None
    return found


class locked:
    """Be the one command that makes or removes volumes of this store. Raises OSError."""

    def __init__(self, store: str) -> None:
        os.makedirs(folder(store), mode=0o700, exist_ok=True)
        self._fd = os.open(folder(store), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def make(store: str, volume: Volume, owner: tuple[int, int] = (0, 0)) -> None:
    """Make a volume, unless there is one of its name. Raises VolumeError, OSError.

    The caller has the lock. `owner`: the host's ids of the root that is to use it.
    """
    path = f"{folder(store)}/{volume.name}"
    if os.path.lexists(path):
        load(store, volume.name)
        return
    draft = f"{folder(store)}/{_MAKING}{volume.name}"
    remove_tree(draft)
    os.mkdir(draft, 0o700)
    inside = f"{draft}/{_DATA}"
    os.mkdir(inside, 0o755)
    os.chmod(inside, 0o755)  # whatever the umask
    if any(owner):
        os.chown(inside, *owner)
    moment = volume._replace(created=state.timestamp())
    state.write(f"{draft}/{_RECORD}", jsonlite.dumps(moment._asdict(), indent=1))
    os.rename(draft, path)


def remove(store: str, name: str) -> None:
    """Remove a volume that nothing uses: the caller has the lock, and has asked :func:`users`.

    What minirun has not made stays. Raises VolumeError, OSError.
    """
    load(store, name)
    fd = os.open(folder(store), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        volume = os.open(name, flags, dir_fd=fd)
        try:
            strange = set(os.listdir(volume)) - {_RECORD, _DATA}
            if strange or os.fstat(volume).st_uid != os.geteuid():
                what = f"{min(strange)!r} in it" if strange else "its owner"
                text = f"remove {name}: {what} is not minirun's: nothing is removed"
                raise VolumeError(text, f"ls -la {folder(store)}/{name}")
        finally:
            os.close(volume)
        os.rename(name, f"{_GONE}{name}", src_dir_fd=fd, dst_dir_fd=fd)
        remove_at(fd, f"{_GONE}{name}")
    finally:
        os.close(fd)


def users(settings: Settings, besides: str = "") -> dict[str, list[str]]:
    """Return which containers use which volume: name → names; not the directory `besides`.

    Raises ImageError if a record is damaged: what it uses is not known then.
    """
    found: dict[str, list[str]] = {}
    for directory, used in store_use.find(settings).certain().volumes.items():
        for name in used if directory != besides else ():
            found.setdefault(name, []).append(state.name_of(directory))
    return found


def sweep(store: str) -> list[str]:
    """Remove what killed commands left of volumes; return the names. Raises OSError."""
    if not os.path.isdir(folder(store)):
        return []
    with locked(store):
        left = [each for each in os.listdir(folder(store)) if each.startswith((_MAKING, _GONE))]
        for name in left:
            remove_tree(f"{folder(store)}/{name}")
    return left


def prepare(container: Container, wanted: tuple[Volume, ...], folders: tuple[str, ...]) -> None:
    """Make what a container is to have mounted and what is not there: volumes, and -v's folders.

    Its record names the volumes already. Raises MinirunError, OSError.
    """
    for path in folders:
        try:
            os.makedirs(path, 0o755, exist_ok=True)
        except OSError as error:
            doing = f"error while creating mount source path '{path}'"
            raise from_os(OSError(error.errno, error.strerror, None), doing) from None
    if wanted:
        with locked(container.settings.store):
            for volume in wanted:
                make(container.settings.store, volume, _root_of(container))


def _root_of(container: Container) -> tuple[int, int]:
    """Return the host's ids of the container's root."""
    if container.unprivileged:
        return (0, 0)  # whatever the user makes is its root's
    linux = container.config.linux
    maps = (linux.get("uidMappings") or (), linux.get("gidMappings") or ())
    ids = [[row["hostID"] for row in rows if row["containerID"] == 0] for rows in maps]
    return (ids[0] or [0])[0], (ids[1] or [0])[0]


class AnonymousVolumes(Extra):
    """The volumes of one container that go with it: with --rm, or if it was never whole."""

    def removed(self) -> None:
        """Remove them, unless another container has them. Raises OSError."""
        record = self.container.record
        docker = docker_record.of(record)
        if docker.auto_remove or not record.complete:
            drop_unused(self.container.settings, anonymous(docker.mounts), record.directory)


def anonymous(mounts: Any) -> list[str]:
    """Return the names of the anonymous volumes among the mounts of a container's record."""
    return [row["name"] for row in mounts or () if row.get("anonymous") and is_name(row["name"])]


def drop_unused(settings: Settings, wanted: list[str], besides: str = "") -> None:
    """Remove those of these volumes that no container uses; one that cannot be stays.

    `besides`: the directory of a container that does not count. Raises OSError.
    """
    if not wanted:
        return
    with locked(settings.store):
        try:
            used = users(settings, besides)
        except MinirunError:
            return  # who uses what is not known
        for name in wanted:
            if name not in used:
                try:
                    remove(settings.store, name)
                except VolumeError:
                    continue
