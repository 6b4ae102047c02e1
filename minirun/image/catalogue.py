"""The store's other side: putting images in, listing, checking and removing them.

An image is drafted in a hidden directory and put in place with one rename, so a reader sees all of
it or nothing. The draft's directory is locked (flock(2)) as long as its maker lives; a draft whose
lock is free has no maker, and the next command sweeps it away. So a maker may be killed at
any moment (design: crash-only).
"""

import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from minirun.core import state_file as record
from minirun.core.errors import ImageError, StateError
from minirun.core.rootfs.tree import remove_tree
from minirun.image import Reference, tree
from minirun.image import store as shelf
from minirun.image.draft import DRAFT, abandoned, hold, locked
from minirun.image.grammar import parse
from minirun.image.layers import Layers

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_REMOVED = "removed"
_IMAGE = frozenset((shelf.RECORD, "layers"))
_PARTS = _IMAGE | {_REMOVED}
"""All that lies in the directory of an image, and of a draft."""

RECIPES = ("busybox", "debian", "ubuntu")
"""The images that minirun can build by itself (minirun.image.build)."""


class Draft:
    """An image in the making: ``with Draft(store, "busybox") as draft: …; draft.commit(…)``.

    Leaving the block without a commit removes all of it.
    """

    def __init__(self, store: str, reference: str) -> None:
        self.reference = parse(reference)
        self.images = make_store(store)
        self.target = os.path.join(self.images, shelf.directory_name(self.reference))
        self.layers: list[str] = []

    def __enter__(self) -> "Draft":
        if os.path.exists(self.target):
            raise _taken(str(self.reference))
        with locked(self.images, fcntl.LOCK_SH):
            self.path = tempfile.mkdtemp(prefix=DRAFT, dir=self.images)
            self._fd = hold(self.path)
        return self

    def layer(self) -> str:
        """Make the next layer, above those made before, and return the path of its root."""
        name = f"layers/{len(self.layers)}"
        path = os.path.join(self.path, name)
        os.makedirs(path)
        os.chmod(path, 0o755)
        self.layers.append(name)
        return path

    def commit(self, origin: str, **details: Any) -> shelf.Image:
        """Compute the digest, write image.json, and put the image in place.

        `origin` says what it truly is; `details` are the other entries of image.json. Raises
        ImageError if the name was taken meanwhile, OSError.
        """
        summary = tree.summarize([os.path.join(self.path, layer) for layer in self.layers])
        record = {
            "name": self.reference.familiar(),
            "tag": self.reference.tag,
            "origin": origin,
            "digest": summary.digest,
            "size": summary.size,
            "architecture": _ARCHITECTURES.get(os.uname().machine, os.uname().machine),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "layers": self.layers,
            "env": [], "entrypoint": [], "cmd": [], "workdir": "/", "user": "",
        } | details  # fmt: skip
        with open(os.path.join(self.path, shelf.RECORD), "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
        try:
            os.rename(self.path, self.target)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise _taken(str(self.reference)) from None
            raise
        return resolve(os.path.dirname(self.images), str(self.reference))

    def __exit__(self, *failure: object) -> None:
        remove_tree(self.path)
        os.close(self._fd)


def resolve(store: str, reference: str) -> shelf.Image:
    """Return the image that `reference` names in `store`.

    Raises ImageError if there is none, it is broken, or the reference is.
    """
    wanted = parse(reference)
    if image := shelf.find(store, wanted):
        return image
    raise ImageError(f"No such image: {wanted}", _next_step(wanted))


def has_recipe(reference: Reference) -> bool:
    """Return True if minirun can build the image of that name."""
    return str(reference) in [f"{name}:latest" for name in RECIPES]


def _next_step(reference: Reference) -> str:
    """Return advice on how to get an image of that name."""
    if has_recipe(reference):
        return f"minirun images build {reference.familiar()}"
    return f"minirun pull {reference} fetches it, minirun images lists what is here"


def list_images(store: str) -> "list[shelf.ImageDetails]":
    """Return image.json of every image, by name; a broken one has only `name`, `tag`, `broken`."""
    found: list[shelf.ImageDetails] = []
    try:
        names = os.listdir(shelf.images_dir(store))
    except FileNotFoundError:
        return found
    for name in sorted(name for name in names if not name.startswith(".")):
        try:
            found.append(shelf.read_details(os.path.join(shelf.images_dir(store), name)))
        except (ImageError, FileNotFoundError) as error:
            stem, _, tag = name.partition("@")
            found.append({"name": stem, "tag": tag or "latest", "broken": str(error)})
    return found


def details(store: str, reference: str) -> "shelf.ImageDetails":
    """Return all of image.json of one image. Raises ImageError."""
    image = resolve(store, reference)
    return shelf.read_details(_path(store, image.name))


def verify(store: str, reference: str) -> str:
    """Compute an image's digest again; return what is wrong, empty if nothing is.

    Raises ImageError if there is no such image.
    """
    image = resolve(store, reference)
    if chains := shelf.chain_ids(image):
        faults = map(Layers(store).fault, chains)
        return next((fault for fault in faults if fault), "")
    try:
        found = tree.summarize(list(image.layers)).digest
    except OSError as error:
        return f"{error.strerror}: {os.fsdecode(error.filename or '')}"
    return "" if found == image.digest else f"is {found}, was stored as {image.digest}"


def remove_image(store: str, reference: str) -> str:
    """Remove an image, also a broken one, and return its name.

    Whether a container still uses it is for the caller to find out. Raises ImageError, OSError.
    """
    wanted = parse(reference)
    if wanted.digest:
        wanted = parse(resolve(store, reference).name)
    path = _path(store, str(wanted))
    if os.path.lexists(path) and not _holds(path, _IMAGE):
        text = f"{path} is no image of minirun's: it is left as it is"
        raise ImageError(text, "remove it by hand, if it is to go", status=1)
    with locked(make_store(store), fcntl.LOCK_SH):
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
    with locked(path):
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


def _taken(name: str) -> ImageError:
    return ImageError(f"image {name} is already there", f"minirun images rm {name} removes it")
