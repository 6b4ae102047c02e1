"""Which images `minirun images` lists (--filter), and what a template sees of each (--format)."""

from __future__ import annotations

import fnmatch
import time

from minirun.cli import words
from minirun.faces.inspect.sizes import human
from minirun.faces.show.template.values import Fields
from minirun.image import split
from minirun.running import moments
from rootfs_tools import catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import ImageDetails

FILTERS = ("before", "dangling", "label", "reference", "since")
FIELDS = {
    "Containers": "CONTAINERS", "CreatedAt": "CREATED AT", "CreatedSince": "CREATED",
    "Digest": "DIGEST", "ID": "IMAGE ID", "Origin": "ORIGIN", "Repository": "REPOSITORY",
    "SharedSize": "SHARED SIZE", "Size": "SIZE", "Tag": "TAG", "UniqueSize": "UNIQUE SIZE",
}  # fmt: skip
"""Fields of --format, and what stands above each as a column. Origin is minirun's."""
_NONE = "<none>"


def fits(image: ImageDetails, wanted: dict[str, list[str]], store: str) -> bool:
    """Return True if all filters let the image through. Raises UsageError, ImageError.

    before and since compare the time at which an image was made. Every image here has a name, so
    dangling=true lets none through.
    """
    created = _created(image)
    if True in words.dangling(wanted):
        return False
    for key, sign in (("before", -1), ("since", 1)):
        for name in wanted.get(key, ()):
            other = _created(catalogue.details(store, name))
            if created is None or other is None or sign * (created - other) <= 0:
                return False
    patterns = wanted.get("reference", ())
    named = not patterns or any(is_like(image, each) for each in patterns)
    return named and has_labels(image, wanted)


def has_labels(image: ImageDetails, wanted: dict[str, list[str]]) -> bool:
    """Return True for an image that has all labels of `label`, and none of `label!`."""
    own = image.get("labels", {})
    denied = any(words.has_labels(own, [each]) for each in wanted.get("label!", ()))
    return not denied and words.has_labels(own, wanted.get("label", ()))


def is_older(image: ImageDetails, latest: float) -> bool:
    """Return True if an image was made before, or nothing says when and every age will do."""
    created = _created(image)
    return latest == float("inf") if created is None else created <= latest


def is_like(image: ImageDetails, pattern: str) -> bool:
    """Return True if the pattern is the name's, with a tag or without; * ends at a slash."""
    name = str(split(image["name"]).familiar())
    pattern = pattern.removeprefix("docker.io/").removeprefix("library/")
    return any(
        len(parts := text.split("/")) == len(shapes := pattern.split("/"))
        and all(map(fnmatch.fnmatchcase, parts, shapes))
        for text in (name, f"{name}:{image['tag']}")
    )


def _created(image: ImageDetails) -> float | None:
    """Return when an image was made, in seconds since the epoch; None if nothing says it."""
    try:
        return moments.moment(image.get("created", ""))
    except ValueError:
        return None


def place(image: ImageDetails) -> tuple[float, str, str]:
    """Return what sorts images as docker does: the newest first, those without a time last."""
    return -(_created(image) or 0.0), image["name"], image["tag"]


def fields(image: ImageDetails, whole: bool) -> Fields:
    """Return what a template sees of an image. Its id is the digest of its configuration, or of its
    files if it was made here; 12 digits of it unless `whole`."""
    digest, created = image.get("digest", ""), _created(image)
    own, broken = image.get("id") or digest, image.get("broken", "")
    return Fields({
        "Containers": "N/A",
        "CreatedAt": "N/A" if created is None else moments.shown(image["created"]),
        "CreatedSince": "N/A" if created is None else f"{moments.age(time.time() - created)} ago",
        "Digest": digest or _NONE,
        "ID": (own if whole else own.removeprefix("sha256:")[:12]) or _NONE,
        "Origin": f"BROKEN: {broken}" if broken else image.get("origin", "") or _NONE,
        "Repository": image["name"], "SharedSize": "N/A",
        "Size": "N/A" if broken else human(image["size"]), "Tag": image["tag"],
        "UniqueSize": "N/A",
    })  # fmt: skip
