"""`minirun image unpack`: all layers of an image in one tree, the root filesystem of a bundle.

Each layer is read once: while it is unpacked, its bytes are counted and hashed, compressed and
plain. What turns out to be wrong leaves nothing: the tree gets its name when all is right.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from minirun.core.errors import ImageError
from minirun.core.rootfs.tree import remove_tree
from minirun.image.store import failure
from rootfs_tools.choose import Chosen
from rootfs_tools.compression import DAMAGED, Hashed, decompressed, drain
from rootfs_tools.draft import beside
from rootfs_tools.image_spec import Descriptor, Source
from rootfs_tools.unpack_layer import apply_flat

ROOTFS, CONFIG = "rootfs", "config.json"
_BUFFER = 1 << 18


@contextmanager
def new_bundle(path: str) -> Iterator[str]:
    """Make a bundle: yield an empty directory that becomes `path`/rootfs if all goes well.

    `path` may be there, without a root filesystem. Raises ImageError, OSError.
    """
    for name in (ROOTFS, CONFIG):
        if os.path.lexists(f"{path}/{name}"):
            raise ImageError(f"{path}/{name} is already there", "unpack into a new directory")
    is_new = not os.path.lexists(path)
    if is_new:
        os.mkdir(path, 0o700)  # a set-user-id program of an image is no business of the host
    try:
        with beside(path) as draft:
            os.chmod(draft, 0o755)
            os.utime(draft, ns=(0, 0))  # where no layer says it: the same image, the same tree
            yield draft
            os.rename(draft, f"{path}/{ROOTFS}")
    except BaseException:
        remove_tree(path if is_new else f"{path}/{CONFIG}")
        raise


def unpack_image(source: Source, image: Chosen, tree: str) -> dict[str, int]:
    """Put all layers of an image into the empty directory `tree`.

    Returns what is left to do when nothing in it is read any more: the directories that without
    root still need their modes, for unpack.close_directories. Raises ImageError, OSError.
    """
    strict: dict[str, int] = {}
    for layer, diff_id in zip(image.manifest.layers, image.config.diff_ids, strict=True):
        _unpack_layer(source, layer, diff_id, tree, strict)
    return strict


def _unpack_layer(
    source: Source, layer: Descriptor, diff_id: str, tree: str, strict: dict[str, int]
) -> None:
    with source.blob(layer) as stream:
        packed = io.BufferedReader(Hashed(cast(BinaryIO, _Limited(stream, layer.size))), _BUFFER)
        try:
            plain = io.BufferedReader(Hashed(decompressed(packed)), _BUFFER)
            apply_flat(plain, tree, strict)
            drain(plain, packed)
        except DAMAGED as error:
            raise ImageError(f"layer {layer.digest} is damaged: {error}") from None
        except OSError as error:
            raise failure(error, f"unpacking layer {layer.digest[:19]}") from None
    if packed.raw.digest() != layer.digest:
        wrong = f"it is {packed.raw.digest()}"
    elif plain.raw.digest() != diff_id:
        wrong = f"unpacked, it is {plain.raw.digest()}, not {diff_id}"
    else:
        return
    raise ImageError(f"{source.name}: layer {layer.digest}: wrong content: {wrong}")


class _Limited(io.RawIOBase):
    """A stream that has exactly so many bytes. Reading raises ImageError where it has not."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(min(size, self._left + 1))
        if len(data) > self._left or (self._left and size and not data):
            raise ImageError("a layer is not as large as the manifest says")
        self._left -= len(data)
        return data
