"""Which images a folder or an archive holds, whatever form it has, and what they are called."""

from typing import NamedTuple

from minirun.core.errors import ImageError
from rootfs_tools.archives import docker, layout, legacy
from rootfs_tools.archives.files import ImageFiles
from rootfs_tools.image_spec import Descriptor, Source


class Loadable(NamedTuple):
    """An image on disk."""

    names: tuple[str, ...]
    """As docker writes them; none if the archive has only a tag for it, or nothing."""
    source: Source


def images(files: ImageFiles) -> list[Loadable]:
    """Return all images. Raises ImageError: there is none, or this is no archive of images.

    An archive may have several forms at the same time (docker since 25): OCI's counts, since it has
    digests of all that is in it.
    """
    found: list[Loadable] = []
    if layout.is_layout(files):
        rows = layout.images(files)
        found = [Loadable(_names(row), layout.Layout(files, row)) for row in rows]
    elif docker.is_docker(files):
        entries = docker.images(files)
        found = [Loadable(each.names, docker.source(files, each)) for each in entries]
    elif legacy.is_legacy(files):
        tops = legacy.images(files)
        found = [Loadable((name,), legacy.source(files, top)) for name, top in tops]
    else:
        hint = "minirun import FILE NAME takes a root filesystem"
        raise ImageError(f"{files.name} is no archive of images", hint)
    if not found:
        raise ImageError(f"{files.name} holds no image")
    return found


def one(files: ImageFiles, tag: str) -> Source:
    """Return the image of a tag; without one that of the tag latest, or the only one.

    Raises ImageError: no such image, or several.
    """
    if tag or layout.is_layout(files):
        return layout.tagged(files, tag)
    found = images(files)
    if len(found) > 1:
        raise ImageError(f"{files.name} holds {len(found)} images", "save one of them alone")
    return found[0].source


def _names(row: Descriptor) -> tuple[str, ...]:
    name = row.annotations.get(layout.FULL_NAME) or row.annotations.get(layout.REF_NAME, "")
    return (name,) if "/" in name or ":" in name else ()
