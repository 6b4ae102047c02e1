"""What layers show together, without mounting them: OverlayFS's rules, by lstat.

Of a path the highest layer that has it decides. A whiteout (the character device 0:0) hides what
lies below; a file or a link hides a directory; directories are merged. Layers of minirun's have no
opaque directories: each file that one would hide has its own whiteout (rootfs_tools.unpack_layer).
Source: the kernel's Documentation/filesystems/overlayfs.rst.
"""

import os
import stat
from collections.abc import Callable, Sequence

from minirun.core.errors import ImageError
from minirun.core.rootfs.inroot import MOST_LINKS

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_whiteout(info: os.stat_result) -> bool:
    """Return True for the mark of a file that a layer removes."""
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


class Lower:
    """The merged view of some layers, lowest first. They are complete and do not change."""

    def __init__(self, layers: Sequence[str]) -> None:
        """Open them. Raises OSError."""
        self._fds: list[int] = []
        self._merged: dict[str, tuple[int, ...]] = {}
        """Directory → descriptors of the layers that it is merged from, highest first."""
        try:
            for path in layers:
                self._fds.append(os.open(path, _DIRECTORY))
        except OSError:
            self.close()
            raise
        self._merged[""] = tuple(reversed(self._fds))

    def close(self) -> None:
        """Let go of the layers."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def find(self, path: str) -> tuple[int, os.stat_result] | None:
        """Return (descriptor of the layer, lstat) of what is seen at `path`; None for nothing.

        `path` is relative, and no part of it a link: see :func:`resolve`.
        """
        if not path:
            return next(((fd, os.stat(".", dir_fd=fd)) for fd in self._merged[""]), None)
        found = self._in_layers(path)
        return found[0] if found else None

    def _in_layers(self, path: str) -> list[tuple[int, os.stat_result]]:
        """Return where `path` is seen: one row, or, for a directory, a row for each layer."""
        found: list[tuple[int, os.stat_result]] = []
        for fd in self._directory(path.rpartition("/")[0]):
            try:
                info = os.lstat(path, dir_fd=fd)
            except FileNotFoundError:
                continue
            if is_whiteout(info):
                break
            if not stat.S_ISDIR(info.st_mode):
                return found or [(fd, info)]
            found.append((fd, info))
        return found

    def _directory(self, path: str) -> tuple[int, ...]:
        """Return the layers that the directory `path` is merged from; none for a file."""
        if path not in self._merged:
            rows = self._in_layers(path)
            self._merged[path] = tuple(fd for fd, info in rows if stat.S_ISDIR(info.st_mode))
        return self._merged[path]

    def names(self, path: str) -> list[str]:
        """Return the names that are seen in the directory `path`, sorted."""
        seen: set[str] = set()
        for fd in self._directory(path):
            below = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            try:
                seen.update(os.listdir(below))
            finally:
                os.close(below)
        return sorted(name for name in seen if self.find(f"{path}/{name}" if path else name))


def resolve(path: str, link: Callable[[str], str | None]) -> str:
    """Return `path` without symbolic links; `link` tells where one leads, None for no link.

    Raises ImageError: links go in a circle.
    """
    done, links = 0, 0
    while True:
        parts = path.split("/") if path else []
        if done >= len(parts):
            return path
        prefix = "/".join(parts[: done + 1])
        target = link(prefix)
        if target is None:
            done += 1
        else:
            links += 1
            path, done = follow(path, prefix, target, links), 0


def follow(path: str, link: str, target: str, links: int) -> str:
    """Return `path` with its part `link`, a symbolic link to `target`, replaced; never above "/".

    Raises ImageError after as many links as the kernel follows.
    """
    if links > MOST_LINKS:
        raise ImageError(f"archive: {path!r}: too many levels of symbolic links")
    rest = path[len(link) :].lstrip("/")
    base = [] if target.startswith("/") else link.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            base = base[:-1]
        elif part not in ("", "."):
            base.append(part)
    return "/".join([*base, *([rest] if rest else [])])
