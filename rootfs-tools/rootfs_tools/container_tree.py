"""The files of a container, by a descriptor of its root: for `export`, `cp` and `commit`.

Of one that runs, the root directory of its init counts, which is opened while that process is known
to be the container's. Of one that has ended, the layers and what it has written over them are
mounted again, where no other process sees it.

`cp` sees what docker's sees (moby's daemon/containerfs_linux.go): the root filesystem with volumes
and bind mounts, and nothing else that is mounted: no /proc, no /sys, no file system in memory, and
no mount that the container has made itself. So the root mount alone is cloned, and config.json's
bind mounts are laid over it in a mount namespace of its own. init's namespace is entered for one
system call, open_tree(2), in which no path is looked up and no file of the container is loaded
(CVE-2019-14271 was docker-tar in a chroot, which loaded the container's libraries).

A user without root has no right to mount but in a user namespace: `cp` becomes root of the
container's (:func:`become_root`), or of one with the same maps if the container has ended.
"""

from __future__ import annotations

import _socket
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from minirun.common.child import errno_of
from minirun.core.container import Container
from minirun.core.errors import ConfigError, MinirunError, StateError, os_error
from minirun.core.keeping import places, state
from minirun.core.keeping.settings import unprivileged
from minirun.core.keeping.visible import say
from minirun.core.kernel import files, mounts, namespaces
from minirun.core.rootfs import build, mount_entry, mount_options
from minirun.core.rootfs.build import RootMount
from minirun.core.rootfs.inroot import Root
from minirun.oci import descriptors
from minirun.oci.exec import created
from minirun.oci.namespaces import idmap

_MOUNT = namespaces.FLAGS["mount"]
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PATH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def opened(container: Container) -> Iterator[int]:
    """Yield a descriptor of the container's root filesystem, as its init sees it.

    Raises StateError, OSError.
    """
    if _has_ended(container):
        with _unseen(container):
            fd = _mounted(container, writable=False)
            try:
                yield files.reopen(fd, os.O_RDONLY | os.O_DIRECTORY)
            finally:
                os.close(fd)
        return
    fd = _root_of_init(container)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def seen(container: Container, *, writable: bool) -> Iterator[Root]:
    """Yield the root of the container's files as `cp` sees them. Raises StateError, OSError."""
    with ExitStack() as stack:
        if _has_ended(container):
            stack.enter_context(_unseen(container))
            top = _mounted(container, writable=writable)
        else:
            init = _root_of_init(container)
            stack.callback(os.close, init)
            tree = _cloned(container, init)
            stack.callback(os.close, tree)
            stack.enter_context(_unseen(container))
            place = os.open(container.directory, _PATH)
            mounts.move_mount(tree, place, shown=container.directory)
            os.close(place)
            top = os.open(container.directory, _PATH)
        root = Root(top)
        stack.callback(root.close)
        _lay_over(container, root)
        yield root


@contextmanager
def user_namespace(container: Container) -> Iterator[int]:
    """Yield a descriptor of the user namespace of a container that runs; -1 if it has none.

    Raises StateError, OSError.
    """
    entered = unprivileged() and os.geteuid() == 0
    if "user" not in container.config.namespaces or _has_ended(container) or entered:
        yield -1
        return
    init, fd = container.record.first_process(), _namespace(container, "user")
    try:
        if not state.is_alive(init):
            raise StateError(f"container {container.name} ended just now", "try it again")
        yield fd
    finally:
        os.close(fd)


def _has_ended(container: Container) -> bool:
    """Return True if no process of the container is left. Raises StateError for a half-made one."""
    status = container.record.status
    if status == state.CREATING:
        raise StateError(f"container {container.name} is not complete: it has no files yet")
    return status == state.STOPPED


def become_root(container: Container) -> bool:
    """Be root of the container's user namespace from now on, if the caller has no root.

    There the caller may mount what the container has, and give files its ids; the host's files it
    reaches as before, since it is the same user to them. There is no way back. Return False if
    nothing is to be done. Raises MinirunError, OSError.
    """
    if not unprivileged() or "user" not in container.config.namespaces:
        return False
    if _has_ended(container):
        _with_the_same_maps(container)
    else:
        with user_namespace(container) as fd:
            namespaces.setns(fd, namespaces.CLONE_NEWUSER, why="root there may mount")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    return True


def _with_the_same_maps(container: Container) -> None:
    """Make a user namespace with the maps of the container's. Raises MinirunError, OSError.

    A child that stays outside writes them: from inside only one's own id can be mapped.
    """
    caller, (ready, tell) = os.getpid(), os.pipe2(os.O_CLOEXEC)
    child, pidfd = namespaces.clone3(0, why="it writes the id maps from outside")
    if child == 0:
        os.close(tell)
        try:
            os.read(ready, 1)
            idmap.write(caller, idmap.of_container(container.config))
            os._exit(0)
        except MinirunError as error:
            say(error.line())
        finally:
            os._exit(1)
    os.close(ready)
    os.close(pidfd)
    namespaces.unshare(namespaces.CLONE_NEWUSER, why="the container's ids are known there")
    os.write(tell, b"!")
    os.close(tell)
    if os.waitpid(child, 0)[1]:
        raise StateError(f"the ids of container {container.name} cannot be mapped")


def _root_of_init(container: Container) -> int:
    """Return a descriptor of init's root directory. Raises StateError."""
    init = container.record.first_process()
    try:
        if _is_closed(container):
            fd, found = created.receive(container)
            for each in found.values():
                os.close(each)
            return fd
        fd = os.open(f"/proc/{init['pid']}/root", _READ)
    except (FileNotFoundError, ProcessLookupError):
        raise StateError(f"container {container.name} ended just now", "try it again") from None
    if not state.is_alive(init) or os.path.samestat(os.fstat(fd), os.stat("/")):
        os.close(fd)
        raise StateError(f"container {container.name} has no root filesystem of its own now")
    return fd


def _is_closed(container: Container) -> bool:
    """Return True if init waits for `start`, and no file of its own in /proc is the caller's."""
    return container.unprivileged and container.record.status == state.CREATED


def _namespace(container: Container, kind: str) -> int:
    """Return a descriptor of a namespace of init's. Raises StateError, OSError."""
    if not _is_closed(container):
        pid = container.record.first_process()["pid"]
        name = namespaces.PROC_NAMES.get(kind, kind)
        return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    root, found = created.receive(container)
    wanted = found.pop(kind)
    for each in (root, *found.values()):
        os.close(each)
    return wanted


def _cloned(container: Container, root: int) -> int:
    """Return a copy of the mount that `root` lies on, without those below it. Raises OSError.

    It can be made in the mount namespace that it belongs to, and nowhere else: by a child, which
    sends it. Root of a user namespace could not come back from there.
    """
    init = container.record.first_process()
    theirs = _namespace(container, "mount")
    ours, childs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)

    def clone() -> None:
        namespaces.setns(theirs, _MOUNT, why="a mount is cloned in its own namespace")
        flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
        tree = mounts.open_tree(root, "", flags, shown="/", why="its root mount alone")
        descriptors.send(childs, b"+", [tree])

    code = errno_of(clone, "a mount namespace is entered for good: not by us")
    os.close(theirs)
    childs.close()
    try:
        _, found = descriptors.receive(ours)
    finally:
        ours.close()
    if not state.is_alive(init):
        raise StateError(f"container {container.name} ended just now", "try it again")
    if not found:
        raise os_error(code or errno.EIO, f"/proc/{init['pid']}/ns/mnt")
    return found[0]


@contextmanager
def _home() -> Iterator[None]:
    """Return to the mount namespace and the directory of the caller at the end.

    Root of a user namespace stays: there is no way back, and the program ends.
    """
    if unprivileged():
        yield
        return
    home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    folder = os.open(".", _PATH)
    try:
        yield
    finally:
        namespaces.setns(home, _MOUNT, why="back again")
        os.fchdir(folder)
        os.close(folder)
        os.close(home)


@contextmanager
def _unseen(container: Container) -> Iterator[None]:
    """Be in a mount namespace of one's own: what is mounted in it no other process sees."""
    if unprivileged() and os.geteuid() != 0 and container.config.layers:
        text = f"container {container.name} has ended: without root its files cannot be mounted"
        raise StateError(text, f"ls {container.directory}/{places.UPPER}: what it has written")
    with _home():
        namespaces.unshare(_MOUNT)
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
        yield


class _View(RootMount):
    """The layers, lowest first, and nothing that could be written to."""

    path: str
    layers: tuple[str, ...]
    writable: str
    options: str = ""

    def _options(self, layers: tuple[str, ...]) -> str:
        return f"lowerdir={':'.join(map(_escaped, reversed(layers)))}{self.options}"


def _escaped(path: str) -> str:
    for sign in "\\,:":
        path = path.replace(sign, f"\\{sign}")
    return path


def _mounted(container: Container, *, writable: bool) -> int:
    """Mount the root of a container that has ended, in this mount namespace; return a descriptor.

    Raises StateError, OSError.
    """
    config = container.config
    if (config.raw.get("root") or {}).get("readonly"):
        writable = False
    if not config.layers:
        return _bundle_root(config.rootfs, writable=writable)
    in_userns = "user" in config.namespaces
    if writable and in_userns and not container.unprivileged:
        text = f"container {container.name} has ended, and has a user namespace: nothing is written"
        raise StateError(text, "copy while it runs")
    if writable:
        return build.root_mount(config, config.layers, container.directory).execute().fd
    layers = (*config.layers, f"{container.directory}/{places.UPPER}")
    return _View(config.rootfs, layers, "", ",userxattr" if in_userns else "").execute().fd


def _bundle_root(path: str, *, writable: bool) -> int:
    """Return a descriptor of a bundle's root, bound over itself if it is not to be written to."""
    fd = os.open(path, _PATH | os.O_NOFOLLOW)
    if writable:
        return fd
    try:
        tree = mounts.open_tree(fd, "", mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH, shown=path)
        mounts.mount_setattr(tree, mounts.MOUNT_ATTR_RDONLY, shown=path)
        mounts.move_mount(tree, fd, shown=path)
        return tree
    finally:
        os.close(fd)


def _lay_over(container: Container, root: Root) -> None:
    """Bind what config.json binds, in this mount namespace, where the container has a place for it.

    A source that is gone is left out. Raises OSError.
    """
    config = container.config
    for number, row in enumerate(config.raw.get("mounts") or ()):
        if not mount_entry.is_bind(row):
            continue
        try:
            source = mount_entry.open_source(config, row, f"mounts[{number}]")
        except (ConfigError, OSError):
            continue
        try:
            _bind(root, source, row, locked="user" in config.namespaces)
        finally:
            os.close(source)


def _bind(root: Root, source: int, row: dict[str, object], *, locked: bool) -> None:
    options = mount_options.parse(list(row.get("options") or ()))  # type: ignore[call-overload]
    try:
        place = root.open(str(row["destination"]))
    except OSError:
        return  # the container has removed the place
    try:
        is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
        if is_directory != stat.S_ISDIR(os.fstat(place).st_mode):
            return
        flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
        flags |= mounts.AT_RECURSIVE if options.flags & mounts.MS_REC and is_directory else 0
        tree = mounts.open_tree(source, "", flags, shown=str(row["source"]))
        try:
            mount_entry.set_properties(tree, options, str(row["destination"]), locked=locked)
            mounts.move_mount(tree, place, shown=str(row["destination"]))
        finally:
            os.close(tree)
    finally:
        os.close(place)
