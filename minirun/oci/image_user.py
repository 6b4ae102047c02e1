"""A user of an image that is not mounted: each of its two files is that of the topmost layer that
has it, and is missing where a whiteout hides it."""

from __future__ import annotations

import errno
import os
import stat

from minirun.core.errors import os_error
from minirun.core.rootfs.inroot import MOST_LINKS, Root
from minirun.oci.user import User, group_ids, resolve_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def in_layers(spec: str, layers: Sequence[str]) -> User:
    """Return the user that `spec` means in an image of these layers, lowest first.

    Raises MinirunError, OSError.
    """
    return resolve_user(_LayerFiles(layers), spec)


def groups_in_layers(names: list[str], layers: Sequence[str]) -> tuple[int, ...]:
    """Return the ids of groups of such an image. Raises MinirunError, OSError."""
    return group_ids(_LayerFiles(layers), names)


class _LayerFiles:
    """What layers show together, as far as the files of users need it."""

    def __init__(self, layers: Sequence[str]) -> None:
        self._layers = layers

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a file, at most `limit` bytes of it. Raises OSError."""
        for _ in range(MOST_LINKS):
            layer, target = self._topmost(path)
            if not target:
                root = Root.at(layer)
                try:
                    return root.read(path, limit)
                finally:
                    root.close()
            path = os.path.normpath(os.path.join(os.path.dirname(path), target))
        raise os_error(errno.ELOOP, path)

    def _topmost(self, path: str) -> tuple[str, str]:
        """Return the layer whose file is seen at `path`, and where it leads if it is a link.

        Raises FileNotFoundError, OSError.
        """
        for layer in reversed(self._layers):
            root = Root.at(layer)
            try:
                fd = root.open(path, os.O_PATH | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            except NotADirectoryError:  # a whiteout, or a file, in place of its directory
                break
            finally:
                root.close()
            try:
                info = os.fstat(fd)
                if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
                    break  # a whiteout
                return layer, os.readlink("", dir_fd=fd) if stat.S_ISLNK(info.st_mode) else ""
            finally:
                os.close(fd)
        raise os_error(errno.ENOENT, path)
