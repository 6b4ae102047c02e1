"""Which images `minirun images` lists (--filter), and what a template sees of each (--format)."""

from __future__ import annotations

import fnmatch
import time

from minirun.cli import words
from minirun.core.errors import UsageError
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
    "Repository": "REPOSITORY", "Tag": "TAG", "Digest": "DIGEST", "ID": "IMAGE ID",
    "CreatedSince": "CREATED", "CreatedAt": "CREATED AT", "Size": "SIZE", "Origin": "ORIGIN",
}  # fmt: skip
"""Fields of --format, and what stands above each as a column. Origin is minirun's."""
_NONE = "<none>"


def fits(image: ImageDetails, wanted: dict[str, list[str]], store: str) -> bool:
    """Return True if all filters let the image through. Raises UsageError, ImageError.

    before and since compare the time at which an image was made. Every image here has a name, so
    dangling=true lets none through.
    """
    created = _created(image)
    for value in wanted.get("dangling", ()):
        if value not in ("true", "false"):
            raise UsageError(f"invalid --filter 'dangling={value}'", "true or false", 1)
        if value == "true":
            return False
    for key, sign in (("before", -1), ("since", 1)):
        for name in wanted.get(key, ()):
            other = _created(catalogue.details(store, name))
            if created is None or other is None or sign * (created - other) <= 0:
                return False
    patterns = wanted.get("reference", ())
    labelled = words.has_labels(image.get("labels", {}), wanted.get("label", ()))
    return labelled and (not patterns or any(_is_like(image, each) for each in patterns))


def _is_like(image: ImageDetails, pattern: str) -> bool:
    """Return True if the pattern is the name's, with a tag or without; * ends at a slash."""
    name = str(split(image["name"]).familiar())
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


def fields(image: ImageDetails, whole: bool) -> Fields:
    """Return what a template sees of an image. Its id is the digest of its configuration, or of its
    files if it was made here; 12 digits of it unless `whole`."""
    digest, created = image.get("digest", ""), _created(image)
    own = image.get("id") or digest
    return Fields({
        "Repository": image["name"], "Tag": image["tag"], "Digest": digest or _NONE,
        "ID": (own if whole else own.removeprefix("sha256:")[:12]) or _NONE,
        "CreatedSince": "N/A" if created is None else f"{moments.age(time.time() - created)} ago",
        "CreatedAt": "N/A" if created is None else moments.shown(image["created"]),
        "Size": human(image.get("size", 0)), "Origin": image.get("origin", "") or _NONE,
    })  # fmt: skip
