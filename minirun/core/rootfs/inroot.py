"""The one way to touch a file below a container's root filesystem.

From the moment it is unpacked, an image is hostile: any directory on the way may be a link to the
host, or become one between a check and its use. So no path of an image is ever opened: every
look-up starts at a descriptor of the container's root and is made by openat2(2) with
RESOLVE_IN_ROOT (an absolute link, or one with "..", stays inside) and RESOLVE_NO_MAGICLINKS
(/proc/PID/fd and the like lead nowhere). What comes back is a descriptor, and the descriptor is
what is mounted on, made in, or read. This is mechanism A of the list in PRINCIPLES.md.
"""

from __future__ import annotations

import errno
import os
import stat

from minirun.core.errors import os_error
from minirun.core.kernel import files

RESOLVE = files.RESOLVE_IN_ROOT | files.RESOLVE_NO_MAGICLINKS
_DIRECTORY = os.O_PATH | os.O_DIRECTORY
MOST_LINKS = 40  # as the kernel has it: path_resolution(7)
_PSEUDO = (0x9FA0, 0x62656572, 0x74726163, 0x64626720)
"""procfs, sysfs, tracefs, debugfs (linux/magic.h): what is read there is not the image's."""


class Root:
    """A container's root filesystem, held by a descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def at(cls, path: str) -> Root:
        """Open the directory `path`, as this process sees it, as a root. Raises OSError."""
        return cls(os.open(path, _DIRECTORY | os.O_CLOEXEC))

    def open(self, path: str, flags: int = os.O_PATH, mode: int = 0) -> int:
        """Open `path` inside the root and return a descriptor. Raises OSError.

        Never blocks on a FIFO and never takes a terminal.
        """
        if not flags & os.O_PATH:
            flags |= os.O_NOCTTY | os.O_NONBLOCK
        # RESOLVE_IN_ROOT takes "/x" for "x"; the relative path is a second safeguard.
        try:
            return files.openat2(self.fd, path.lstrip("/") or ".", flags, RESOLVE, mode)
        except OSError as error:
            error.filename = path
            raise

    def make_dir(self, path: str, mode: int = 0o755, links: int = 0) -> int:
        """Make the directory `path` and its parents, and return a descriptor of it.

        An existing directory is kept as it is; of a link to nothing (/var/run → /run) the target is
        made, inside the root. Raises NotADirectoryError, OSError.
        """
        missing = []
        while True:
            try:
                current = self.open(path, _DIRECTORY)
                break
            except FileNotFoundError:
                missing.append(path)
                path = path.rstrip("/").rpartition("/")[0] or "/"
        for path in reversed(missing):
            name = path.rstrip("/").rpartition("/")[2]
            try:
                following = self._step(current, name, path, mode, links)
            finally:
                os.close(current)
            current = following
        return current

    def _step(self, parent: int, name: str, path: str, mode: int, links: int) -> int:
        """Return the directory `path`, made as `name` in `parent` if nothing is there."""
        if name not in ("..", "."):
            try:
                os.mkdir(name, mode, dir_fd=parent)
            except FileExistsError:
                pass
        try:
            return self.open(path, _DIRECTORY)
        except FileNotFoundError:
            return self.make_dir(_target(parent, name, path, links), mode, links + 1)

    def make_file(self, path: str, mode: int = 0o644, links: int = 0) -> int:
        """Make an empty file `path` if nothing is there; return an O_PATH descriptor of it.

        Of a link to nothing (an image's /etc/resolv.conf) the target is made, inside the root.
        """
        try:
            return self.open(path)
        except FileNotFoundError:
            pass
        parent, name = self.make_parent(path)
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, flags, mode, dir_fd=parent))
            return files.openat2(parent, name, os.O_PATH | os.O_NOFOLLOW, RESOLVE)
        except FileExistsError:
            target = _target(parent, name, path, links)
        finally:
            os.close(parent)
        return self.make_file(target, mode, links + 1)

    def make_parent(self, path: str) -> tuple[int, str]:
        """Make the directory that `path` lies in; return (its descriptor, the last name)."""
        head, _, name = path.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise os_error(errno.EINVAL, path)
        return self.make_dir(head or "/"), name

    def read(self, path: str, limit: int, *, pseudo: bool = False) -> bytes:
        """Return the content of a regular file, at most `limit` bytes of it.

        Raises OSError; a device, a FIFO or a directory is EINVAL (CVE-2022-4318 and others read
        an endless or blocking /etc/passwd), and is not even opened: opening a watchdog starts it.
        So is a file of procfs and the like, such as /proc/kmsg, unless `pseudo`.
        """
        found = self.open(path)
        try:
            is_plain = pseudo or files.filesystem_magic(found) not in _PSEUDO
            if not (is_plain and stat.S_ISREG(os.fstat(found).st_mode)):
                raise OSError(errno.EINVAL, "not a regular file", path)
            fd = files.reopen(found, os.O_RDONLY | os.O_NONBLOCK)
        finally:
            os.close(found)
        with open(fd, "rb") as file:
            return file.read(limit) or b""

    def close(self) -> None:
        """Close the descriptor of the root."""
        os.close(self.fd)


def _target(parent: int, name: str, path: str, links: int) -> str:
    """Return the path that `name` in `parent`, a link at `path`, leads to. Raises OSError."""
    if links == MOST_LINKS:
        raise os_error(errno.ELOOP, path)
    target = os.readlink(name, dir_fd=parent)
    above = "" if target.startswith("/") else path.rstrip("/").rpartition("/")[0]
    return f"{above}/{target}"
