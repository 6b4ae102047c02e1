"""The host's files as a sandbox shows them: an overlay over each file system, on a tmpfs.

Nothing that the sandbox mounts, unmounts, remounts or removes is the host's: a read-only mount can
be made writable again by root (mount(2), MS_REMOUNT), but an overlay's lower layer is never written
to. What a program has changed lies in the upper layers afterwards, and is said.

overlayfs.rst of the kernel's documentation: "Upper and Lower", "whiteouts and opaque directories".
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from minirun.core.errors import MinirunError, reason
from minirun.core.kernel import mountinfo, mounts

SOURCE = "sandbox"
"""The source of each mount of a sandbox."""
_OWN = ("/proc", "/sys", "/dev", "/run")
"""What a sandbox mounts itself."""
_TMP = "/tmp"
_LARGEST_FILE = 1 << 20
_OPAQUE = "trusted.overlay.opaque"


class HostFiles:
    """A copy of the host's tree in `base`, a directory on a tmpfs, that can be written to."""

    def __init__(self, base: Path) -> None:
        self.base, self.root = base, base / "root"
        self._uppers: list[tuple[str, Path]] = []
        """(where it lies on the host, what was written there), the outermost first."""
        self._tried = 0
        self._copied: dict[str, tuple[int, ...]] = {}
        """Files that were copied into an upper layer, and what they were like then."""

    @property
    def written_to_tmp(self) -> Path:
        """The directory that holds what was written to /tmp. Raises MinirunError if it has none."""
        for where, upper in self._uppers:
            if where == _TMP:
                return upper
        text = f"{_TMP}: the sandbox cannot show the file system that it lies on"
        raise MinirunError(text, "mount a tmpfs there")

    def build(self) -> None:
        """Mount all. Raises MinirunError if the root lies on too many overlays, OSError."""
        self.root.mkdir()
        try:
            self._cover("/")
        except OSError as error:
            text = f"mount: an overlay over /: {reason(error)}"
            hint = "the check needs a root file system that is no overlay of overlays"
            raise MinirunError(text, hint) from None
        where = _visible()
        for path in [*where, *([] if _TMP in where else [_TMP])]:
            if os.path.isdir(path):
                try:
                    self._cover(path)
                except OSError:  # no overlay can lie on it: vfat, some of FUSE
                    continue
            elif os.path.isfile(path) and os.path.getsize(path) <= _LARGEST_FILE:
                # a file that is a mount, as docker has /etc/hostname and resolv.conf
                copy = shutil.copyfile(path, f"{self.root}{path}")
                self._copied[path] = _looks(os.stat(copy))

    def _cover(self, path: str) -> None:
        """Mount an overlay over a directory of the host, at the same path below `root`."""
        layer = self.base / "layers" / str(self._tried)  # of one that fails, a folder is left
        self._tried += 1
        upper, work = layer / "upper", layer / "work"
        for folder in (upper, work):
            folder.mkdir(parents=True)
        status = os.stat(path)
        os.chown(upper, status.st_uid, status.st_gid)
        upper.chmod(stat.S_IMODE(status.st_mode))
        data = f"lowerdir={_escaped(path)},upperdir={upper},workdir={work},volatile"
        mounts.mount(SOURCE, f"{self.root}{path}", "overlay", 0, data)
        self._uppers.append((path, upper))

    def missing(self, paths: Iterable[str]) -> str:
        """Return the first path of the host among these that the copy does not show; else ""."""
        real = [(path, os.path.realpath(path)) for path in paths if os.path.exists(path)]
        return next((path for path, at in real if not os.path.lexists(f"{self.root}{at}")), "")

    def changes(self) -> Iterator[str]:
        """Yield what a program has done to the host's files. /tmp does not count.

        As in "/etc/passwd is gone", "/etc/new is new", "/etc/hosts was written to".
        """
        for where, upper in self._uppers:
            if where != _TMP:
                for path, what, looks in _changes(upper, where.rstrip("/")):
                    if self._copied.get(path) != looks:
                        yield f"{path} {what}"


def _visible() -> list[str]:
    """Return where file systems with files of the host are mounted, and not hidden by another."""
    found = []
    for mount in mountinfo.read():
        path = mount.mount_point
        if path == "/" or path in found or f"{path}/".startswith(tuple(f"{p}/" for p in _OWN)):
            continue
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if mountinfo.mount_id(fd) == mount.mount_id:
            found.append(path)
        os.close(fd)
    return sorted(found)


def _looks(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes with each write to a file."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _changes(upper: Path, where: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield (path on the host, what became of it, how it looks) for all that an upper layer has."""
    with os.scandir(upper) as entries:
        rows = sorted(entries, key=lambda entry: entry.name)
    for entry in rows:
        path, status = f"{where}/{entry.name}", entry.stat(follow_symlinks=False)
        if path in (*_OWN, _TMP) or entry.name == "__pycache__":  # Python makes the latter
            continue
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            yield path, "is gone", ()
        elif not os.path.lexists(path):
            yield path, "is new", ()
        elif not entry.is_dir(follow_symlinks=False):
            yield path, "was written to", _looks(status)
        elif _is_opaque(entry.path):
            yield path, "was removed, and made again", ()
        else:
            yield from _changes(Path(entry.path), path)


def _is_opaque(path: str) -> bool:
    """Return True if a directory hides the lower one: it was removed before it was made."""
    try:
        return os.getxattr(path, _OPAQUE) == b"y"
    except OSError:
        return False


def _escaped(path: str) -> str:
    """Return a path as lowerdir takes it: "," ends an option, ":" a path, a backslash escapes."""
    return "".join(f"\\{sign}" if sign in "\\,:" else sign for sign in path)
