"""What builds before have made: steps that need not be done again, and folders of RUN's caches.

    STORE/builds/steps/HEX     {"chain", "diff_id", "created"}: the layer that a step has made
    STORE/builds/mounts/HEX/   a folder for RUN --mount=type=cache, named after its id

A step's key is a digest of all that its layer follows from: the layers below, the instruction, and
for COPY the content of the files. A step whose layer `image gc` has removed counts for nothing.
"""

import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.core.keeping.directories import listed
from minirun.core.rootfs.tree import remove_tree
from rootfs_tools.blobs import Blobs
from rootfs_tools.draft import DRAFT, MEMORY, abandoned, hold, locked, sweep
from rootfs_tools.image_spec import digest_of
from rootfs_tools.layers import Layers

BUILDS = "builds"
STEPS, MOUNTS = f"{BUILDS}/steps", f"{BUILDS}/mounts"


class CachedStep(NamedTuple):
    """The layer that a step has made."""

    diff_id: str
    created: str
    """When, as the history has it."""


class StepCache:
    """The cache of one store."""

    def __init__(self, store: str) -> None:
        self._store = store

    def find(self, key: str, chain: str) -> CachedStep | None:
        """Return the layer that a step has made over `chain`; None if it is not here (any more)."""
        found = self._read(self._path(key))
        if not found or found["chain"] != over(chain, found["diff_id"]):
            return None
        return CachedStep(found["diff_id"], found["created"]) if self._is_here(found) else None

    def keep(self, key: str, chain: str, made: CachedStep) -> None:
        """Note that a step has made this layer over `chain`. Raises OSError."""
        _folder(self._store, STEPS)
        with tempfile.TemporaryDirectory(prefix=DRAFT, dir=f"{self._store}/{BUILDS}") as draft:
            with open(f"{draft}/step", "w", encoding="utf-8") as file:
                json.dump({"chain": over(chain, made.diff_id), **made._asdict()}, file)
            os.rename(file.name, self._path(key))

    @contextmanager
    def mount(
        self, name: str, *, alone: bool, fill: Callable[[str], object] | None = None
    ) -> Iterator[str]:
        """Yield the folder of a cache; `alone`: while no other step has it. Raises OSError.

        `fill` puts something into a new one.
        """
        folder = f"{_folder(self._store, MOUNTS)}/{digest_of(name.encode())[7:]}"
        while True:
            if fill and not os.path.isdir(folder):
                self._make(folder, fill)
            os.makedirs(folder, exist_ok=True)
            by = f"a step of another build that has the cache {name}"
            with locked(folder, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, by):
                if os.path.isdir(folder):  # else `image gc` has just removed it
                    yield folder
                    return

    def _make(self, folder: str, fill: Callable[[str], object]) -> None:
        """Make the folder of a cache, whole or not at all; another build may be faster."""
        with scratch(self._store) as draft:
            os.mkdir(f"{draft}/new")
            fill(f"{draft}/new")
            try:
                os.rename(f"{draft}/new", folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def has(self, path: str) -> bool:
        """Return True if the layer that the step `path` has made is still here."""
        found = self._read(path)
        return bool(found and self._is_here(found))

    def _is_here(self, found: dict[str, str]) -> bool:
        """Return True if the layer is in the store, packed and unpacked."""
        try:
            unpacked = Layers(self._store).find(found["chain"])
        except ImageError:
            return False
        return unpacked is not None and Blobs(self._store).has(found["diff_id"])

    @staticmethod
    def _read(path: str) -> dict[str, str] | None:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            return {key: str(found[key]) for key in ("chain", "diff_id", "created")}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _path(self, key: str) -> str:
        return f"{self._store}/{STEPS}/{key.removeprefix('sha256:')}"


def prune(store: str) -> list[str]:
    """Remove steps whose layers are gone, and folders that no build uses; return the paths.

    The caller must see to it that no image is being built. Raises OSError.
    """
    sweep(MEMORY)  # secrets of builds that were killed
    steps, removed = StepCache(store), []
    for path in listed(f"{store}/{STEPS}"):
        if not steps.has(path):
            os.unlink(path)
            removed.append(path)
    scratch = [path for path in listed(f"{store}/{BUILDS}") if f"/{DRAFT}" in path]
    for path in [*listed(f"{store}/{MOUNTS}"), *scratch]:
        if abandoned(path):
            remove_tree(path)
            removed.append(path)
    return removed


@contextmanager
def scratch(store: str) -> Iterator[str]:
    """Yield a directory that is gone afterwards; `image gc` removes those of dead builds."""
    folder = tempfile.mkdtemp(prefix=DRAFT, dir=_folder(store, BUILDS))
    held = hold(folder)
    try:
        yield folder
    finally:
        remove_tree(folder)
        os.close(held)


def over(chain: str, diff_id: str) -> str:
    """Return the chain id of a layer on top of others; "" stands for none."""
    return digest_of(f"{chain} {diff_id}".encode()) if chain else diff_id


def _folder(store: str, name: str) -> str:
    path = f"{store}/{name}"
    os.makedirs(f"{store}/{BUILDS}", 0o700, exist_ok=True)
    os.makedirs(path, 0o700, exist_ok=True)
    return path
