"""`minirun images import`: a root filesystem out of a tar archive, as docker import takes it.

The archive is read once, from a file or a pipe: what is unpacked is what is hashed, so it cannot
be changed in between. Compression is recognized by its first bytes.
"""

import io
import os
from typing import BinaryIO

from minirun.core.errors import ImageError
from minirun.image.catalogue import Draft, sweep
from minirun.image.compression import DAMAGED, Hashed, decompressed, drain
from minirun.image.store import Image, failure
from minirun.image.unpack import unpack

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def import_tar(store: str, reference: str, stream: BinaryIO, source: str) -> Image:
    """Make the image `reference` of the archive `stream`; `source` is what its origin calls it.

    The archive is plain, or compressed by gzip, bzip2, xz or zstd. Raises ImageError; then the
    store is as it was.
    """
    sweep(store)
    try:
        with Draft(store, reference) as draft:
            hashed = Hashed(stream)
            archive = io.BufferedReader(hashed)
            tree = draft.layer()
            plain = decompressed(archive)
            if not unpack(plain, tree):
                raise ImageError(f"{source} is an empty archive")
            _refuse_image_archive(tree, source)
            drain(plain, archive)
            return draft.commit(
                f"imported from {source}",
                recipe={"name": "import", "source": source, "archive": hashed.digest()},
                env=[DEFAULT_PATH],
            )
    except DAMAGED as error:
        raise ImageError(f"{source} is damaged: {error}") from None
    except OSError as error:
        raise failure(error, f"importing {source}") from None


def _refuse_image_archive(tree: str, source: str) -> None:
    if any(os.path.lexists(os.path.join(tree, name)) for name in ("oci-layout", "manifest.json")):
        text = f"{source} holds an image (docker save), not a root filesystem"
        raise ImageError(text, "use docker export")
