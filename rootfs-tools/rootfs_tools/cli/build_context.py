"""What `minirun build` is given: a folder, or on standard input a Dockerfile or an archive.

A folder and an archive may be a stranger's: no link of theirs leads out of them.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from minirun.core.errors import ImageError, from_os, reason
from minirun.core.rootfs.inroot import Root
from rootfs_tools import recipe
from rootfs_tools.compression import DAMAGED, decompressed
from rootfs_tools.dockerfile import parse
from rootfs_tools.dockerfile.cache import scratch
from rootfs_tools.tar.fields import BLOCK, at_most
from rootfs_tools.unpack import unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

NAMES = ("Dockerfile", "Containerfile")
"""The second is podman's name for it."""
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
"""How gzip, bzip2, xz and zstd begin: no Dockerfile does."""
_CONTEXT = "context"


class Context(NamedTuple):
    """What a build begins with."""

    dockerfile: str
    """The text."""
    folder: str
    """What COPY takes files from."""
    ignored: str
    """The rules of what of it is left out."""


@contextmanager
def opened(place: str, file: str, store: str) -> Iterator[Context]:
    """Yield what a command line names; `file` is -f's. Raises ImageError."""
    if place == "-":
        with scratch(store) as above:
            folder = f"{above}/{_CONTEXT}"
            os.mkdir(folder, 0o700)
            text = _from_input(folder, file)
            yield Context(text, folder, _ignored("", folder))
        return
    if not os.path.isdir(place):
        hint = "a folder; - reads a Dockerfile or an archive from standard input"
        if place in recipe.names():
            hint = f"minirun images build {place} makes it by its recipe"
        raise ImageError(f"unable to prepare context: path {place!r} not found", hint, status=1)
    text = _read(file) if file else _in_folder(place, place, *NAMES)
    yield Context(text, place, _ignored(file, place))


def _from_input(folder: str, file: str) -> str:
    """Return the Dockerfile on standard input, of an archive what is in it, put into `folder`.

    Raises ImageError.
    """
    source = io.BufferedReader(io.FileIO(0, closefd=False))
    head = at_most(source, BLOCK)
    stream = io.BufferedReader(_Joined(head, source))
    if not (head.startswith(_PACKED) or head[257:262] == b"ustar"):
        with _failures("standard input"):
            if file not in ("", "-"):
                text = "-f: there is no file beside a Dockerfile on standard input"
                raise ImageError(text, "an archive, or a folder", status=1)
            return stream.read(parse.LIMIT + 1).decode()
    if file == "-":
        raise ImageError("-f -: standard input is the context", "-f NAME, in it", status=1)
    try:
        unpack(decompressed(stream), folder)
    except DAMAGED as error:
        raise ImageError(f"standard input is damaged: {error}", status=1) from None
    return _in_folder(folder, "standard input", *([file] if file else NAMES))


class _Joined(io.RawIOBase):
    """A stream of which the begin has been read."""

    def __init__(self, head: bytes, rest: io.BufferedReader[io.FileIO]) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = self._head[: view.nbytes] or self._rest.read1(view.nbytes)
        self._head = self._head[len(data) :]
        view[: len(data)] = data
        return len(data)


def _in_folder(folder: str, called: str, *names: str) -> str:
    text = _read_in(folder, *names)
    if text is None:
        what = "there is no Dockerfile" if names == NAMES else f"there is no {names[0]}"
        text = f"failed to read dockerfile: {called}: {what}"
        raise ImageError(text, "-f FILE", status=1)
    return text


def _read(path: str) -> str:
    """Return the text of the Dockerfile that the user names. Raises ImageError."""
    with _failures(path):
        if path == "-":
            data = sys.stdin.buffer.read(parse.LIMIT + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(parse.LIMIT + 1)
        return data.decode()


def _read_in(folder: str, *names: str) -> str | None:
    """Return the text of the first of these files that is there; None if none is.

    The folder may be a stranger's: no link leads out of it. Raises ImageError.
    """
    for name in names:
        with _failures(f"{folder}/{name}"), closing(Root.at(folder)) as root:
            try:
                return root.read(name, parse.LIMIT + 1).decode()
            except FileNotFoundError:
                continue
    return None


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """Make an ImageError of what fails while `path` is read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: byte {error.start} is not UTF-8", status=1) from None
    except OSError as error:
        text = f"failed to read dockerfile: {path}: {reason(error)}"
        raise ImageError(text, from_os(error).hint, status=1) from None


def _ignored(named: str, folder: str) -> str:
    """Return the rules of what is left out: those beside -f's file before the folder's own."""
    found = None
    if named not in ("", "-"):
        beside, name = os.path.split(named)
        found = _read_in(beside or ".", f"{name}.dockerignore")
    if found is not None:
        return found
    return _read_in(folder, ".dockerignore", ".containerignore") or ""
