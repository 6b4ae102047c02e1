"""Content-addressed files: manifests, configurations and layer archives, named by their digest.

    STORE/blobs/sha256/HEX     complete; what it holds has this digest
    STORE/blobs/partial/HEX    on its way; locked (flock(2)) by the process that fetches it;
                               .draft-… is one that is made here, and whose digest is not known

A blob gets its name by one rename, after its digest and size were found right, so SIGKILL leaves
a part of it at most: the next one who wants it goes on from there. It is on the disk before a layer
or an image that needs it gets a name (rootfs_tools.durable). One that a loss of power has cut
before is found out: a layer's archive when it is unpacked, a document whenever it is read.
(containerd's content store is of the same form; it syncs each blob.)
"""

import fcntl
import hashlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from minirun.core.errors import ImageError
from minirun.core.keeping.directories import listed
from minirun.image.store import failure
from rootfs_tools.draft import DRAFT, lock
from rootfs_tools.image_spec import DOCUMENT_LIMIT, Descriptor, Source, digest_of

BLOBS, PARTIAL = "blobs/sha256", "blobs/partial"
_CHUNK = 1 << 20
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

Progress = Callable[[int], None]
"""Takes the number of bytes of a blob that are here."""


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class Blobs:
    """The blobs of one store."""

    def __init__(self, store: str) -> None:
        self._store = store

    def path(self, digest: str) -> str:
        """Return where a blob is, or will be."""
        return f"{self._store}/{BLOBS}/{digest.removeprefix('sha256:')}"

    def has(self, digest: str) -> bool:
        """Return True if a blob is complete."""
        return os.path.isfile(self.path(digest))

    def document(self, digest: str) -> bytes:
        """Return a manifest or a configuration. Raises ImageError if it is missing or damaged."""
        try:
            with open(self.path(digest), "rb") as file:
                data = file.read(DOCUMENT_LIMIT + 1)
        except FileNotFoundError:
            hint = "pull the image again"
            raise ImageError(f"{digest} is not in the store", hint) from None
        if digest_of(data) != digest:
            raise ImageError(f"{digest} is damaged in the store", "pull the image again")
        return data

    def put(self, data: bytes) -> str:
        """Store a document, and return its digest. Raises OSError."""
        digest = digest_of(data)
        with self._partial(digest) as fd:
            if fd >= 0:
                os.ftruncate(fd, 0)
                _write(fd, data)
                self._complete(digest)
        return digest

    def fetch(self, source: Source, wanted: Descriptor, progress: Progress | None = None) -> str:
        """Return the path of a blob; fetch it if it is not here, or go on where it was left.

        Another process that fetches it already is waited for. Raises ImageError: it is not what
        the descriptor says, or the source failed; what arrived until then is kept in that case.
        """
        try:
            with self._partial(wanted.digest) as fd:
                if fd >= 0:
                    self._fetch(source, wanted, fd, progress or (lambda _: None))
        except OSError as error:
            raise failure(error, f"fetching {wanted.digest[:19]} of {source.name}") from None
        return self.path(wanted.digest)

    def _fetch(self, source: Source, wanted: Descriptor, fd: int, progress: Progress) -> None:
        sha256: _Hash = hashlib.sha256()
        have = _hash_file(fd, sha256)
        if have > wanted.size:
            sha256, have = self._again(fd)
        progress(have)
        if have < wanted.size or not have:
            with source.blob(wanted, have) as stream:
                while have <= wanted.size and (chunk := stream.read(_CHUNK)):
                    _write(fd, chunk)
                    sha256.update(chunk)
                    have += len(chunk)
                    progress(have)
        if have < wanted.size:
            text = f"{source.name}: {wanted.digest[:19]} ends after {have} of {wanted.size} bytes"
            raise ImageError(text, "try again: what arrived is kept")
        found = f"sha256:{sha256.hexdigest()}"
        if have > wanted.size or found != wanted.digest:
            os.ftruncate(fd, 0)
            what = f"more than {wanted.size} bytes" if have > wanted.size else f"is {found}"
            raise ImageError(f"{source.name}: {wanted.digest}: wrong content: {what}")
        self._complete(wanted.digest)

    @staticmethod
    def _again(fd: int) -> tuple[_Hash, int]:
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        return hashlib.sha256(), 0

    @contextmanager
    def _partial(self, digest: str) -> Iterator[int]:
        """Hold the right to write a blob: yields a descriptor of what is here of it.

        Yields -1 if the blob is complete, perhaps since another process has just fetched it.
        """
        self._make_folders()
        while not self.has(digest):
            fd = os.open(self._partial_path(digest), _OPEN, 0o600)
            try:
                lock(fd, fcntl.LOCK_EX, f"another command that fetches {digest[:19]}")
                if not _is_at(fd, self._partial_path(digest)):
                    continue  # just renamed or swept away
                if not self.has(digest):
                    yield fd
                    return
                os.unlink(self._partial_path(digest))  # made just after the blob was complete
            finally:
                os.close(fd)
        yield -1

    @contextmanager
    def draft(self) -> Iterator[io.BufferedRandom]:
        """Yield a file for a blob that is made here, and whose digest is not yet known.

        What :meth:`adopt` has not taken is removed. Raises OSError.
        """
        self._make_folders()
        fd, path = tempfile.mkstemp(prefix=DRAFT, dir=f"{self._store}/{PARTIAL}")
        fcntl.flock(fd, fcntl.LOCK_EX)
        with open(fd, "w+b") as file:
            try:
                yield file
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def adopt(self, draft: io.BufferedRandom) -> tuple[str, int]:
        """Give a draft its name; return digest and size. Raises OSError."""
        draft.flush()
        draft.seek(0)
        digest = f"sha256:{hashlib.file_digest(draft, 'sha256').hexdigest()}"
        os.rename(os.readlink(f"/proc/self/fd/{draft.fileno()}"), self.path(digest))
        return digest, draft.tell()

    def _make_folders(self) -> None:
        for folder in (BLOBS, PARTIAL):
            os.makedirs(f"{self._store}/{folder}", 0o700, exist_ok=True)
        os.chmod(f"{self._store}/blobs", 0o700)

    def _partial_path(self, digest: str) -> str:
        return f"{self._store}/{PARTIAL}/{digest.removeprefix('sha256:')}"

    def _complete(self, digest: str) -> None:
        os.rename(self._partial_path(digest), self.path(digest))

    def discard(self, digest: str) -> None:
        """Remove a blob that may be damaged, if it is there. Raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(self.path(digest))

    def discard_damaged(self, wanted: Descriptor, *, thorough: bool = True) -> bool:
        """Remove a blob that is not what its name says; return True if it was removed.

        If not `thorough`, one of the right size is believed. Raises OSError.
        """
        try:
            with open(self.path(wanted.digest), "rb") as file:
                if not thorough and os.fstat(file.fileno()).st_size == wanted.size:
                    return False
                found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        except FileNotFoundError:
            return False
        if found != wanted.digest:
            self.discard(wanted.digest)
        return found != wanted.digest

    def remove_all_but(self, kept: set[str]) -> list[str]:
        """Remove what is not in `kept`, and parts that no process fetches; return the paths."""
        removed = []
        for folder in (BLOBS, PARTIAL):
            for path in listed(f"{self._store}/{folder}"):
                is_kept = folder == BLOBS and f"sha256:{os.path.basename(path)}" in kept
                if not is_kept and _unlink_unused(path):
                    removed.append(path)
        return removed


def _is_at(fd: int, path: str) -> bool:
    """Return True if a path still leads to the file that was opened by it."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _unlink_unused(path: str) -> bool:
    """Remove a file unless another process has it locked."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def _hash_file(fd: int, sha256: _Hash) -> int:
    """Hash what a file holds, and return how much that is."""
    size = 0
    while chunk := os.read(fd, _CHUNK):
        sha256.update(chunk)
        size += len(chunk)
    return size


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
