"""The local store, as `run` sees it: from a reference to the layers of its root filesystem.

    STORE/images/                0700: no setuid program of an image may be run by users of the host
        ubuntu/                  the directory of ubuntu:latest; debian:12 lies in debian@12
            image.json           what it is, where it comes from, how it is started
            layers/0/ …          the layers of an image that was made here, lowest first
    STORE/layers/HEX/fs/         a layer of an image from elsewhere; images share it
    STORE/blobs/                 the archives and documents that it was made of: rootfs_tools/blobs

An image is put here with one rename (rootfs_tools.catalogue, rootfs_tools.take), so whatever has
a name is complete. In image.json a layer is layers/N, or sha256:HEX for one that is shared.
"""

from __future__ import annotations

import errno
import os

from minirun.core.errors import ImageError, from_os, os_error
from minirun.core.keeping import jsonlite, places
from minirun.core.keeping.record import Record
from minirun.image import Reference

RECORD, LAYERS = "image.json", "layers"
DECLARED = ("ports", "volumes", "stop_signal", "labels", "healthcheck")
"""What `run` keeps in the container's record, as image.json has it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from minirun.common.docker_record import Declared

    class ImageDetails(TypedDict, total=False):
        """image.json; `size` and what follows are not read by `run`."""

        name: str
        tag: str
        origin: str
        digest: str
        layers: list[str]
        env: list[str]
        entrypoint: list[str]
        cmd: list[str]
        workdir: str
        user: str
        size: int
        architecture: str
        created: str
        id: str
        """The digest of its configuration."""
        manifest: str
        """Of an image from elsewhere: the digest of its manifest."""
        ports: list[str]
        """What it exposes: 80/tcp."""
        volumes: list[str]
        stop_signal: str
        labels: dict[str, str]
        healthcheck: dict[str, Any]
        recipe: dict[str, Any]
        broken: str
        """In a list of images: why there is no more than its name and tag."""


class DamagedImage(ImageError):
    """An image is not what was stored. An error such as EMFILE says nothing of that."""


class Image(Record):
    """What a container needs to know of its image; the strings are as in the OCI image config."""

    name: str
    layers: tuple[str, ...]
    """Absolute paths of directories, lowest first."""
    env: tuple[str, ...]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    workdir: str
    user: str
    origin: str
    """What it truly is, in words."""
    digest: str
    declared: Declared = {}
    """What it declares beside that, by the names in DECLARED; only what it has."""


class LayerOrigin(Record):
    """One layer of a container, as inspect shows it."""

    path: str
    size: int
    """Bytes of its files; 0 if the layer is gone."""
    created_by: str
    """Empty if it is not known: the image has been removed or replaced."""


def images_dir(store: str) -> str:
    """Return the directory that the images of `store` lie in."""
    return f"{os.path.abspath(store)}/{places.IMAGES}"


def directory_name(reference: Reference) -> str:
    """Return the name of a reference's directory: one name for one reference, and no slash.

    No colon and no comma either, which would need an escape in overlay's options.
    """
    name = reference.familiar().replace(":", "=")
    name = name if reference.tag == "latest" else f"{name}@{reference.tag}"
    return name.replace("/", "+")


def find(store: str, wanted: Reference) -> Image | None:
    """Return the image in `store` that a reference means; None if there is none.

    Raises DamagedImage, ImageError.
    """
    for name in _candidates(store, wanted):
        path = os.path.join(images_dir(store), name)
        try:
            details = read_details(path)
        except FileNotFoundError:
            continue
        if wanted.digest in ("", details["digest"]):
            return _image(path, details)
    return None


def read_details(path: str) -> ImageDetails:
    """Return image.json of the image in directory `path`.

    Raises FileNotFoundError if there is none, DamagedImage, ImageError if it cannot be read.
    """
    try:
        with open(os.path.join(path, RECORD), encoding="utf-8") as file:
            details = jsonlite.loads(file.read())
        checked: ImageDetails = details
        wrong = _wrong(details)
        jsonlite.dumps(details, indent=1).encode()  # half a surrogate pair has no bytes
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # nothing was ever stored under that name
            raise os_error(errno.ENOENT, path) from None
        raise failure(error, "reading the image") from None
    except (ValueError, KeyError, TypeError) as error:
        raise _broken(path, f"image.json: {error}") from None
    if wrong:
        raise _broken(path, f"image.json: {wrong} is of the wrong type")
    return checked


def list_images(store: str) -> list[ImageDetails]:
    """Return image.json of every image, by name; a broken one has only `name`, `tag`, `broken`."""
    found: list[ImageDetails] = []
    try:
        names = os.listdir(images_dir(store))
    except FileNotFoundError:
        return found
    for name in sorted(name for name in names if not name.startswith(".")):
        try:
            found.append(read_details(os.path.join(images_dir(store), name)))
        except (ImageError, FileNotFoundError) as error:
            stem, _, tag = name.partition("@")
            found.append({"name": stem, "tag": tag or "latest", "broken": str(error)})
    return found


_KEYS = {
    "name": str, "tag": str, "origin": str, "digest": str, "layers": list, "env": list,
    "entrypoint": list, "cmd": list, "workdir": str, "user": str,
}  # fmt: skip
_MORE = {
    "ports": list, "volumes": list, "stop_signal": str, "labels": dict, "healthcheck": dict,
    "size": int, "architecture": str, "created": str, "manifest": str, "id": str,
}  # fmt: skip
"""Keys that an image need not have."""
_TEXTS = ("env", "entrypoint", "cmd", "ports", "volumes")
_INT64 = 1 << 63


def _wrong(details: dict[str, Any]) -> str:
    """Return the key of image.json whose value is of the wrong type; "" if none is.

    Older versions stored an image's configuration unchecked, so any type may be found here. Raises
    KeyError if a key is missing that each image has.
    """
    for key, kind in (_KEYS | _MORE).items():
        value = details[key] if key in _KEYS else details.get(key, kind())
        if not isinstance(value, kind):
            return key
    labels = list(details.get("labels", {}).values())
    for key, texts in (("labels", labels), *((key, details.get(key, ())) for key in _TEXTS)):
        if not all(isinstance(text, str) for text in texts):
            return key
    health = dict(details.get("healthcheck", {}))
    test = health.pop("Test", [])
    are_texts = isinstance(test, list) and all(isinstance(text, str) for text in test)
    are_numbers = all(type(each) is int and abs(each) < _INT64 for each in health.values())
    return "" if are_texts and are_numbers else "healthcheck"


def _candidates(store: str, wanted: Reference) -> list[str]:
    """The directories to look into: one for a tag, all of the name's for a digest alone."""
    if wanted.tag or not wanted.digest:
        return [directory_name(wanted)]
    stem = directory_name(wanted._replace(tag="latest"))
    try:
        names = os.listdir(images_dir(store))
    except FileNotFoundError:
        return []
    return [name for name in names if name.partition("@")[0] == stem]


def _image(path: str, details: ImageDetails) -> Image:
    """Return the record of an image from its image.json."""
    layers = tuple(_layer(path, number, name) for number, name in enumerate(details["layers"]))
    declared: Any = {key: value for key in DECLARED if (value := details.get(key))}
    return Image(
        f"{details['name']}:{details['tag']}", layers, tuple(details["env"]),
        tuple(details["entrypoint"]), tuple(details["cmd"]), details["workdir"], details["user"],
        details["origin"], details["digest"],
        declared,
    )  # fmt: skip


def _layer(path: str, number: int, name: str) -> str:
    """Return where a layer lies: in the image's own directory, or among the shared ones."""
    text = name.removeprefix("sha256:") if isinstance(name, str) else ""
    if name == f"layers/{number}":
        found = f"{path}/{name}"
    elif len(text) == 64 and not text.strip("0123456789abcdef") and text != name:
        found = f"{path[: path.rindex('/images/')]}/{LAYERS}/{text}/fs"
    else:
        raise _broken(path, f"image.json: layers[{number}] is {name!r}, not layers/{number}")
    if not os.path.isdir(found) or os.path.islink(found):
        raise _broken(path, f"{name} is missing")
    return found


def failure(error: OSError, doing: str) -> ImageError:
    """Return an OSError that came up while `doing` something with an image as one line."""
    general = from_os(error, doing)
    return ImageError(str(general), general.hint)


def _broken(path: str, text: str) -> DamagedImage:
    name = os.path.basename(path)
    return DamagedImage(f"image {name}: {text}", f"rm -r {path}, then build or import it again")
