"""Unpacked layers, each once, shared by all images that have it on top of the same ones.

    STORE/layers/HEX/fs/           the layer as OverlayFS wants it
    STORE/layers/HEX/layer.json    {"diff_id", "parent", "size" in bytes, "digest" of the tree}

HEX is the layer's ChainID (image-spec config.md): it names the layer and all below it, since a
folder that an archive leaves out is taken from below. A layer is made in a hidden directory, which
is locked while its maker lives, and gets its name by one rename, once it is on the disk: what has a
name is complete. What was damaged since is found when the image is brought in again, and keeps the
name until the new one takes it.
"""

import io
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from minirun.core.errors import ImageError, reason
from minirun.core.keeping.directories import listed
from minirun.core.rootfs.tree import remove_tree
from minirun.image.store import LAYERS, Image, failure
from rootfs_tools import durable, tree
from rootfs_tools.compression import DAMAGED, Hashed, decompressed, drain
from rootfs_tools.draft import DRAFT, abandoned, hold, locked
from rootfs_tools.unpack_layer import apply_overlay

FS, RECORD = "fs", "layer.json"
_LOCK, _HIDDEN = ".lock-", ".hidden-"


class Layer(NamedTuple):
    """An unpacked layer."""

    chain_id: str
    path: str
    """Its files."""
    size: int
    """Bytes of its files."""


def chain_ids(image: Image) -> list[str]:
    """Return the names of an image's shared layers, lowest first."""
    parts = [layer.split("/") for layer in image.layers]
    return [f"sha256:{each[-2]}" for each in parts if each[-1] == "fs" and each[-3] == "layers"]


class Layers:
    """The layers of one store."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._top = f"{store}/{LAYERS}"

    def find(self, chain_id: str) -> Layer | None:
        """Return a layer; None if it is not unpacked. Raises ImageError if it is broken."""
        path = self._path(chain_id)
        try:
            with open(f"{path}/{RECORD}", encoding="utf-8") as file:
                return Layer(chain_id, f"{path}/{FS}", json.load(file)["size"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise ImageError(f"{path}/{RECORD} is damaged", f"rm -r {path}, pull again") from None

    def ensure(
        self,
        chain_id: str,
        diff_id: str,
        blob: str,
        below: Sequence[Layer],
        begins: Callable[[], None] | None = None,
        *,
        mend: bool = False,
    ) -> Layer:
        """Return a layer; unpack the archive `blob` over those `below`, if it is not here.

        `begins` is called before it is unpacked; `mend`: one that is here, and is not what was
        stored, is unpacked again. Raises ImageError: the archive is damaged or
        forbidden, or is not what `diff_id` says.
        """
        try:
            os.makedirs(self._top, 0o700, exist_ok=True)
            by = f"another command that unpacks {diff_id[:19]}"
            with locked(f"{self._top}/{_LOCK}{_hex(chain_id)}", by=by):
                if found := self._usable(chain_id, mend=mend):
                    return found
                if begins:
                    begins()
                return self._unpack(chain_id, diff_id, blob, below)
        except OSError as error:
            raise failure(error, f"unpacking layer {diff_id[:19]}") from None

    def _usable(self, chain_id: str, *, mend: bool) -> Layer | None:
        """Return a layer that is here, with a whole record; None too for one that is to be mended.

        The caller has its lock. Raises OSError.
        """
        found = None
        with suppress(ImageError):
            found = self.find(chain_id)
        return None if found and mend and self.fault(chain_id) else found

    def _unpack(self, chain_id: str, diff_id: str, blob: str, below: Sequence[Layer]) -> Layer:
        draft = tempfile.mkdtemp(prefix=DRAFT, dir=self._top)
        held = hold(draft)
        try:
            files = f"{draft}/{FS}"
            os.mkdir(files, 0o755)
            with open(blob, "rb") as file:
                found = _apply(file, files, [layer.path for layer in below])
            if found != diff_id:
                raise ImageError(f"layer {diff_id}: wrong content: unpacked, it is {found}")
            summary = tree.summarize([files])
            parent = below[-1].chain_id if below else ""
            record = {"diff_id": diff_id, "parent": parent, **summary._asdict()}
            with open(f"{draft}/{RECORD}", "w", encoding="utf-8") as file:
                json.dump(record, file)
            durable.replace(draft, self._path(chain_id))
            return Layer(chain_id, f"{self._path(chain_id)}/{FS}", summary.size)
        finally:
            remove_tree(draft)
            os.close(held)

    def fault(self, chain_id: str) -> str:
        """Compute a layer's digest again; return what is wrong, empty if nothing is.

        Raises OSError if it cannot be read just now.
        """
        path = self._path(chain_id)
        try:
            with open(f"{path}/{RECORD}", encoding="utf-8") as file:
                stored = json.load(file)["digest"]
            found = tree.summarize([f"{path}/{FS}"]).digest
        except (FileNotFoundError, NotADirectoryError) as error:
            return f"{reason(error)}: {os.fsdecode(error.filename or '')}"
        except (ValueError, KeyError, TypeError):
            return f"{path}/{RECORD} is damaged"
        return (
            "" if found == stored else f"layer {chain_id[:19]} is {found}, was stored as {stored}"
        )

    def remove_all_but(self, kept: set[str], in_use: Callable[[], set[str]]) -> list[str]:
        """Remove the layers that are not in `kept`, and what dead makers left; return the paths.

        `in_use` returns those that containers have. It is asked again when the layers are hidden: a
        container that has just begun gets its own back, a later one finds none. The caller
        must see to it that no layer is being made at the same time.
        """
        removed = []
        kept = kept | in_use()
        for path in listed(self._top):
            name = os.path.basename(path)
            if name.startswith(_LOCK):
                os.unlink(path)
            elif name.startswith(DRAFT) and abandoned(path):
                remove_tree(path)
                removed.append(path)
            elif not name.startswith(".") and f"sha256:{name}" not in kept:
                os.rename(path, f"{self._top}/{_HIDDEN}{name}")
        used = in_use()
        for hidden in listed(self._top):
            name = os.path.basename(hidden)
            if name.startswith(_HIDDEN):  # also by one that was killed
                removed += self._decide(hidden, name.removeprefix(_HIDDEN), used)
        return removed

    def _decide(self, hidden: str, name: str, used: set[str]) -> list[str]:
        """Bring a hidden layer back if it is used, or remove it; return what was removed."""
        path, draft = f"{self._top}/{name}", f"{self._top}/{DRAFT}{name}"
        if f"sha256:{name}" in used and not os.path.lexists(path):
            os.rename(hidden, path)
            return []
        os.rename(hidden, draft)  # half-removed, it is never brought back
        remove_tree(draft)
        return [path]

    def _path(self, chain_id: str) -> str:
        return f"{self._top}/{_hex(chain_id)}"


def _apply(file: io.BufferedReader, files: str, below: list[str]) -> str:
    """Unpack a blob, and return the digest of the plain archive."""
    plain = io.BufferedReader(Hashed(decompressed(file)), 1 << 18)
    try:
        apply_overlay(plain, files, below)
        drain(plain)
    except DAMAGED as error:
        raise ImageError(f"a layer is damaged: {error}") from None
    return plain.raw.digest()


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
