"""The files of an image on disk: in a folder, or in a tar archive (rootfs_tools.archives.archive).

Both are hostile. In a folder a name is opened below its descriptor, and no link is followed; a
FIFO or a device is not even opened.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

from minirun.core.errors import ImageError
from minirun.core.kernel import files
from minirun.image.store import failure
from rootfs_tools.archives.archive import Archive

_STAY = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_NO_MAGICLINKS


class ImageFiles(Protocol):
    """What an image on disk is read from. All raise ImageError."""

    name: str
    """What errors call it: the path that the user gave."""

    def has(self, name: str) -> bool:
        """Return True if there is a file of that name."""

    def open(self, name: str, offset: int = 0) -> BinaryIO:
        """Open a file for reading, from this byte on."""

    def size(self, name: str) -> int:
        """Return the bytes of a file."""

    def close(self) -> None:
        """Let go of the folder or archive."""


def read(source: ImageFiles, name: str, limit: int) -> bytes:
    """Return a whole file of at most `limit` bytes. Raises ImageError."""
    with source.open(name) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ImageError(f"{source.name}: {name} has more than {limit} bytes")
    return data


@contextmanager
def opened(path: str) -> Iterator[ImageFiles]:
    """Open a folder or an archive; - is standard input. Raises ImageError."""
    try:
        if path == "-":
            found: ImageFiles = Archive("standard input", 0)
        elif os.path.isdir(path):
            found = Folder(path)
        else:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
            try:
                found = Archive(path, fd)
            finally:
                os.close(fd)
    except OSError as error:
        raise failure(error, "opening the image") from None
    try:
        yield found
    finally:
        found.close()


class Folder:
    """A folder, held by a descriptor."""

    def __init__(self, path: str) -> None:
        """Open it. Raises OSError."""
        self.name = path
        self._fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def has(self, name: str) -> bool:
        """Return True if there is something of that name, even if it cannot be read."""
        try:
            os.close(files.openat2(self._fd, name, os.O_PATH, _STAY))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    def open(self, name: str, offset: int = 0) -> BinaryIO:
        """Open a plain file; a link is refused wherever it leads."""
        try:
            path = files.openat2(self._fd, name, os.O_PATH, _STAY)
            try:
                if not stat.S_ISREG(os.fstat(path).st_mode):
                    raise ImageError(f"{self.name}: {name} is not a plain file")
                fd = files.reopen(path, os.O_RDONLY)
            finally:
                os.close(path)
            file = os.fdopen(fd, "rb")
            file.seek(offset)
            return file
        except OSError as error:
            error.filename = name
            if error.errno == errno.ELOOP:  # RESOLVE_NO_SYMLINKS met a link
                text = f"{self.name}: {name} is a link, or lies behind one"
                raise ImageError(text, "copy the image with cp -rL") from None
            raise failure(error, self.name) from None

    def size(self, name: str) -> int:
        """Return the bytes of a file."""
        with self.open(name) as file:
            return os.fstat(file.fileno()).st_size

    def close(self) -> None:
        """Close the folder."""
        os.close(self._fd)
