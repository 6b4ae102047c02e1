"""The store's other side: putting images in, listing, checking and removing them.

An image is drafted in a hidden directory and put in place with one rename, so a reader sees all of
it or nothing. The draft's directory is locked (flock(2)) as long as its maker lives; a draft whose
lock is free has no maker, and the next command sweeps it away. So a maker may be killed at
any moment.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from minirun.core.errors import ImageError, StateError, reason
from minirun.core.keeping import state_file as record
from minirun.core.rootfs.tree import remove_tree
from minirun.image import Reference
from minirun.image import store as shelf
from rootfs_tools import recipe, tree
from rootfs_tools.draft import DRAFT, abandoned, locked
from rootfs_tools.grammar import parse
from rootfs_tools.layers import Layers, chain_ids

BUILT = "built by minirun"
"""The origin of an image of a Dockerfile."""
_REMOVED = "removed"
_ID = re.compile("sha256:[0-9a-f]{4,64}")
"""An id, of which four digits are enough."""
_IMAGE = frozenset((shelf.RECORD, "layers"))
WORK = "work"
"""The folder of a draft in which an image is made (rootfs_tools.made)."""
_PARTS = _IMAGE | {_REMOVED, WORK}
"""All that lies in the directory of an image, and of a draft."""


def resolve(store: str, reference: str) -> shelf.Image:
    """Return the image that `reference` names in `store`, or whose id begins so.

    Raises ImageError if there is none, it is broken, or the reference is.
    """
    names = _of_id(store, reference)
    wanted = parse(names[0] if names else reference)
    if image := shelf.find(store, wanted):
        return image
    raise ImageError(f"No such image: {wanted}", _next_step(wanted))


def _of_id(store: str, text: str) -> list[str]:
    """Return the names of the image with an id that begins so; none if `text` is a name.

    An id is a digest of the image: of its configuration, its manifest, or its index. Raises
    ImageError: two images have it.
    """
    begin = f"sha256:{text.removeprefix('sha256:')}"
    if not _ID.fullmatch(begin) or (len(text) < 64 and shelf.find(store, parse(text))):
        return []
    found: dict[str, str] = {}
    for row in shelf.list_images(store):
        ids = (row.get("id", ""), row.get("manifest", ""), row.get("digest", ""))
        if any(each.startswith(begin) for each in ids):
            found[f"{row['name']}:{row['tag']}"] = row.get("manifest", "") or row["digest"]
    if len(set(found.values())) > 1:
        raise ImageError(f"{text} is the id of several images", f"one of {', '.join(found)}")
    return list(found)


def _next_step(reference: Reference) -> str:
    """Return advice on how to get an image of that name."""
    if recipe.has_recipe(reference):
        return f"minirun images build {reference.familiar()}"
    return f"minirun pull {reference} fetches it, minirun images lists what is here"


def details(store: str, reference: str) -> shelf.ImageDetails:
    """Return all of image.json of one image. Raises ImageError."""
    image = resolve(store, reference)
    return shelf.read_details(_path(store, image.name))


def verify(store: str, reference: str) -> str:
    """Compute an image's digest again; return what is wrong, empty if nothing is.

    Raises ImageError if there is no such image; OSError if it cannot be read just now.
    """
    image = resolve(store, reference)
    if chains := chain_ids(image):
        faults = map(Layers(store).fault, chains)
        return next((fault for fault in faults if fault), "")
    try:
        found = tree.summarize(list(image.layers)).digest
    except (FileNotFoundError, NotADirectoryError) as error:
        return f"{reason(error)}: {os.fsdecode(error.filename or '')}"
    return "" if found == image.digest else f"is {found}, was stored as {image.digest}"


def name_of(store: str, reference: str) -> str:
    """Return the one name, with its tag, that a name, a digest or an id leads to.

    Raises ImageError: an id leads to several, or nothing has the digest.
    """
    names = _of_id(store, reference)
    if len(names) > 1:
        text = f"conflict: unable to delete {reference}: the image has several names"
        raise ImageError(text, f"name one of {', '.join(names)}", status=1)
    wanted = parse(names[0] if names else reference)
    return resolve(store, reference).name if wanted.digest else str(wanted)


def remove_image(store: str, reference: str) -> str:
    """Remove an image, also a broken one, and return its name.

    Whether a container still uses it is for the caller to find out. Raises ImageError, OSError.
    """
    wanted = parse(name_of(store, reference))
    path = _path(store, str(wanted))
    if os.path.lexists(path) and not _holds(path, _IMAGE):
        text = f"{path} is no image of minirun's: it is left as it is"
        raise ImageError(text, "remove it by hand, if it is to go", status=1)
    with locked(make_store(store), fcntl.LOCK_EX):  # not while the name is given to another image
        hidden = tempfile.mkdtemp(prefix=DRAFT, dir=os.path.dirname(path))
        try:
            os.rename(path, os.path.join(hidden, _REMOVED))
        except FileNotFoundError:
            hint = "minirun images lists them"
            raise ImageError(f"No such image: {wanted}", hint, status=1) from None
        finally:
            remove_tree(hidden)
    return str(wanted)


def sweep(store: str) -> list[str]:
    """Remove what makers that died left in `store`; return the paths. Raises OSError."""
    images = shelf.images_dir(store)
    if not os.path.isdir(images):
        return []
    swept = []
    with locked(images, fcntl.LOCK_EX):
        for name in os.listdir(images):
            path = os.path.join(images, name)
            if name.startswith(DRAFT) and _holds(path, _PARTS) and abandoned(path):
                remove_tree(path)
                swept.append(path)
    return swept


def _holds(path: str, names: frozenset[str]) -> bool:
    """Return True if this is a directory of the caller's own with nothing but `names` in it.

    An image has one of them at least; a draft may be empty.
    """
    try:
        fd = record.open_directory(path)
    except (StateError, FileNotFoundError):
        return False
    try:
        found = set(os.listdir(fd))
    finally:
        os.close(fd)
    return found <= names and (bool(found) or names is _PARTS)


@contextmanager
def making(store: str, reference: str) -> Iterator[None]:
    """Hold the right to make the image `reference`: of two makers the second waits."""
    name = f".lock-{shelf.directory_name(parse(reference))}"
    path = os.path.join(make_store(store), name)
    with locked(path, by=f"another command that makes {reference}"):
        yield


def make_store(store: str) -> str:
    """Make the store if it is missing; only root may look into its images."""
    images = shelf.images_dir(store)
    if not os.path.isdir(images):
        os.makedirs(os.path.dirname(images), 0o711, exist_ok=True)
        os.makedirs(images, 0o700, exist_ok=True)
        os.chmod(images, 0o700)
    return images


def _path(store: str, reference: str) -> str:
    return os.path.join(shelf.images_dir(store), shelf.directory_name(parse(reference)))
