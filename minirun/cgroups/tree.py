"""Directories of cgroup file systems: making, writing, reading, walking and removing them.

cgroups(7): a cgroup is a directory; mkdir makes one, rmdir ends it, and everything in between is
reading and writing small files. A directory can be removed when no process and no other cgroup is
in it; processes that have just ended may still be counted for a moment, hence the retries.

A cgroup is held by a descriptor, so that it stays the same directory in whatever mount namespace
the process is by then (stage 5 works inside of the container's).
"""

from __future__ import annotations

import errno
import os
import time

from minirun.core import events
from minirun.core.errors import StateError
from minirun.core.kernel import log_failure, logged_python, name_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OWN_PARENT = "minirun"
"""The one parent that is minirun's own, at the top of a hierarchy: removed when it is empty."""

_RACES = 100  # how often another process may remove a parent before we are done
_LONGEST_PAUSE = 0.05  # seconds
_PATH_MAX = 4096
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Dir:
    """One cgroup directory, held by a descriptor from its first use until :meth:`close`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def fd(self) -> int:
        """Return the descriptor; it belongs to this object. Raises OSError."""
        if self._fd < 0:
            self._fd = os.open(self.path, _DIRECTORY)
        return self._fd

    def close(self) -> None:
        """Close the descriptor; the next use opens the directory again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def open(self, name: str, flags: int) -> int:
        """Open a file of this cgroup. Raises OSError."""
        try:
            return os.open(name, flags | os.O_CLOEXEC, dir_fd=self.fd())
        except OSError as error:
            error.filename = f"{self.path}/{name}"
            raise

    def read(self, name: str) -> str:
        """Return the content of a file. Raises OSError."""
        fd = self.open(name, os.O_RDONLY)
        try:
            content = b""
            while chunk := os.read(fd, 65536):
                content += chunk
            return content.decode()
        finally:
            os.close(fd)

    def write(self, name: str, data: str, why: str = "") -> None:
        """Write `data` to a file. Raises OSError."""
        self.write_each(name, (data,), why)

    def write_each(self, name: str, lines: Iterable[str], why: str = "") -> None:
        """Write each of `lines` to a file with a write(2) of its own. Raises OSError."""
        fd = self.open(name, os.O_WRONLY)
        try:
            for line in lines:
                write(fd, line, f"{self.path}/{name}", why)
        finally:
            os.close(fd)


def write(fd: int, data: str, path: str, why: str = "") -> None:
    """Write to an open file of a cgroup, and log it. Raises OSError with `path`."""
    shown = {"path": path, "data": data}
    logged_python("write", lambda: os.write(fd, data.encode()), shown, path, why)


def make(mount: str, path: str, why: str = "") -> bool:
    """Make the cgroup `path` ("/a/b") and its parents; return True if it is new. Raises OSError.

    A parent that another container's end removes in the meantime is made again.
    """
    whole = mount + path
    for _ in range(_RACES):
        start = events.now()
        try:
            os.mkdir(whole, 0o755)
        except FileExistsError:
            return False
        except FileNotFoundError:
            parent = path.rpartition("/")[0]
            if not parent:
                raise
            make(mount, parent, "the parent of the container's cgroup")
        except OSError as error:
            shown = {"path": whole}
            log_failure(name_call(error, "mkdir", whole), shown, start, why)
            raise
        else:
            events.emit("syscall", "mkdir", {"path": whole}, start=start, why=why)
            return True
    raise OSError(errno.EAGAIN, "another process keeps removing the parent", whole)


def set_owner(path: str, uid: int) -> None:
    """Make a user the owner of a cgroup of version 2: its directory, and the files that go with it.

    runtime-spec, config-linux.md, "Cgroup ownership"; cgroup-v2.rst, "Delegation". So systemd or
    docker runs in a container whose root is no root outside. Raises OSError.
    """
    try:
        with open("/sys/kernel/cgroup/delegate") as file:
            names = file.read().split()
    except FileNotFoundError:
        names = ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"]
    directory, shown = os.open(path, _DIRECTORY), {"path": path, "uid": uid}
    try:
        why = "the container's user makes cgroups of its own below it"
        logged_python("chown", lambda: os.chown(directory, uid, -1), shown, path, why)
        for name in names:
            try:
                os.chown(name, uid, -1, dir_fd=directory)
            except FileNotFoundError:
                pass  # of a controller that is not handed down to it
    finally:
        os.close(directory)


def is_frozen(path: str) -> bool | None:
    """Return True if the cgroup directory `path` is frozen; None if there is none. Raises OSError.

    So is one below a frozen one: freezer-subsystem.rst, cgroup-v2.rst.
    """
    for name in ("freezer.state", "cgroup.events"):
        try:
            with open(f"{path}/{name}") as file:
                text = file.read()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # removed since the open
                raise
            continue
        return text.startswith("FR") or "frozen 1" in text  # FROZEN, FREEZING
    return None


def processes(path: str) -> list[int]:
    """Return the processes in the cgroup directory `path` and below, as far as it is there."""
    found = _processes_in(None, path)
    for fd, name, _ in below(path):
        found |= _processes_in(fd, name)
    return sorted(found - {0})  # 0: a process of a pid namespace outside of ours


def _processes_in(fd: int | None, name: str) -> set[int]:
    try:
        procs = os.open(f"{name}/cgroup.procs", os.O_RDONLY | os.O_CLOEXEC, dir_fd=fd)
        with open(procs) as file:
            return set(map(int, file))
    except OSError:
        return set()  # removed since, or threaded: its processes are counted further up


def below(path: str) -> Iterator[tuple[int, str, str]]:
    """Yield all directories below `path`, as far as they are there, the deepest first.

    Each is (a descriptor of its parent, its name, its path, or "" if that is too long). However
    deeply a container has nested its cgroups, one descriptor is open: ".." leads back, since a
    cgroup does not move. No link is followed.
    """
    names: list[str] = []
    fd = -1
    try:
        fd = os.open(path, _DIRECTORY)
        left = [_folders(fd)]
        while left[-1] or names:
            if left[-1]:
                names.append(left[-1].pop())
                try:
                    fd = _moved(fd, names[-1])
                except OSError:  # just removed
                    names.pop()
                else:
                    left.append(_folders(fd))
            else:
                left.pop()
                fd = _moved(fd, "..")
                whole = "/".join((path, *names)) if len(names) < _PATH_MAX // 2 else ""
                yield fd, names.pop(), whole if len(whole) < _PATH_MAX else ""
    except OSError:
        pass  # the whole tree is gone
    finally:
        if fd >= 0:
            os.close(fd)


def _moved(fd: int, name: str) -> int:
    """Open a directory in `fd`, and close `fd`. Raises OSError."""
    following = os.open(name, _DIRECTORY, dir_fd=fd)
    os.close(fd)
    return following


def _folders(fd: int) -> list[str]:
    try:
        with os.scandir(fd) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def remove(paths: Iterable[str], seconds: float) -> None:
    """Remove the cgroup directories `paths` with all below them; one that is gone is fine.

    Tries for `seconds` while processes are in there, then raises StateError. Raises OSError.
    """
    left = list(paths)
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while left:
        # mostly nothing is below one: then there is nothing to look for
        busy = [p for p in left if not _rmdir(p) and not _remove_with_all_below(p)]
        if busy and time.monotonic() > deadline:
            pids = processes(busy[0])
            who = f"{len(pids)} processes are in it, such as {pids[0]}" if pids else "it is in use"
            raise StateError(
                f"cgroup {busy[0]}: cannot be removed: {who}",
                "kill them first: minirun delete --force",
            )
        if busy:
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        left = busy


def _remove_with_all_below(path: str) -> bool:
    """Remove a directory and all below it; False if something is in use. Raises OSError."""
    for fd, name, whole in below(path):
        if not (_rmdir(whole) if whole else _rmdir(name, fd)):
            return False
    return _rmdir(path)


def _rmdir(path: str, fd: int | None = None) -> bool:
    """Remove a directory (in `fd`); False if it is in use. Raises OSError for another reason."""
    start = events.now()
    try:
        os.rmdir(path, dir_fd=fd)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        name_call(error, "rmdir", path)
        raise
    events.emit("syscall", "rmdir", {"path": path}, start=start)
    return True


def remove_own_parent(mount: str, path: str) -> None:
    """Remove /minirun if the cgroup `path` was the last in it."""
    if path.split("/")[1] == OWN_PARENT and path.count("/") > 1:
        try:
            _rmdir(f"{mount}/{OWN_PARENT}")
        except OSError:
            pass  # not worth an error: it is empty, and the next container uses it
