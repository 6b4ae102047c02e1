"""`minirun images`: what the store holds and what it truly is; build, import, check, remove."""

from __future__ import annotations

import json
import os
import sys

from minirun.cli import as_runc, words
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.cli.several import each
from minirun.common import docker_record, table
from minirun.core.errors import ImageError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean, say
from minirun.faces.show.template import formats
from minirun.image import store as shelf
from minirun.image.store import DamagedImage
from rootfs_tools import catalogue, recipe
from rootfs_tools.cli import image_rows
from rootfs_tools.cli.pull import steps
from rootfs_tools.importer import import_tar
from rootfs_tools.recipe import build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import ImageDetails


OF_IMAGE = (
    "diff", "gc", "history", "inspect", "list", "load", "ls", "prune", "pull", "push", "save",
    "tag", "unpack",
)  # fmt: skip
"""Commands of `image` that `images` has not: a user may take one for the other."""


_COLUMNS = ("Repository", "Tag", "Digest", "ID", "CreatedSince", "Size", "Origin")
"""Of the table, in order. Digest is for --digests."""


class Images(Flags):
    """Images of the store."""

    command = "images"
    all: bool = flag("-a")
    digests: bool
    filter: list[str] = flag("-f")
    format: str = flag(default="table")
    no_trunc: bool
    quiet: bool = flag("-q")
    json: bool
    verify: bool


class ImportOf(Flags):
    """Bring a root filesystem in."""

    command = "import"


def main(args: list[str], settings: Settings) -> int:
    """List, build, import, verify or remove images; return the exit status."""
    flags = Images(args)
    if flags.args and flags.args[0] in ACTIONS:
        return ACTIONS[flags.args[0]](flags.args[1:], settings)
    flags.takes(0, 1)
    found = shelf.list_images(settings.store)
    if flags.args:
        found = _of_name(found, flags.args[0], settings)
    wanted = words.filters(flags.filter, image_rows.FILTERS)
    found = [image for image in found if image_rows.fits(image, wanted, settings.store)]
    found.sort(key=image_rows.place)
    if flags.verify:
        return _verify(found, settings)
    if flags.json:
        print(json.dumps(found, indent=2))
        return 0
    shown = [image_rows.fields(image, flags.no_trunc) for image in found]
    if flags.quiet:
        return show(row["ID"] for row in shown)
    if flags.format != "table":
        return write(formats.lines(flags.format, shown, image_rows.FIELDS))
    columns = [each for each in _COLUMNS if each != "Digest" or flags.digests]
    heads = tuple(image_rows.FIELDS[each] for each in columns)
    cells = [tuple(clean(row[each]) for each in columns) for row in shown]
    return write(table.text([heads, *cells], 3))


def _of_name(found: list[ImageDetails], name: str, settings: Settings) -> list[ImageDetails]:
    """Return the images of a repository, or the one of a tag, a digest or an id.

    A name may be a pattern. As with docker it is no error if none has it, unless it is a command's.
    Raises UsageError, DamagedImage.
    """
    if rows := [row for row in found if image_rows.is_like(row, name)]:
        return rows
    try:
        return [catalogue.details(settings.store, name)]
    except DamagedImage:
        raise
    except ImageError:
        if name in OF_IMAGE:
            text = f"images has no command {name}"
            raise UsageError(text, f"minirun image {name} is the command") from None
        return []


def _name(image: ImageDetails) -> str:
    return f"{image['name']}:{image['tag']}"


def _verify(found: list[ImageDetails], settings: Settings) -> int:
    failed = 0
    for image in found:
        fault = image.get("broken") or _fault(image, settings)
        print(clean(f"{_name(image)}: {f'{fault} ({_remedy(image)})' if fault else 'intact'}"))
        failed += bool(fault)
    return 1 if failed else 0


def _fault(image: ImageDetails, settings: Settings) -> str:
    try:
        return catalogue.verify(settings.store, _name(image))
    except DamagedImage as error:
        return str(error)


def _remedy(image: ImageDetails) -> str:
    """Return what brings a damaged image in again: its damaged layers are unpacked anew then."""
    name, origin = _name(image), image.get("origin", "")
    if name in [f"{one}:latest" for one in recipe.names()]:
        return f"minirun images build {image['name']}"
    if origin == catalogue.BUILT:
        return f"minirun build --no-cache -t {name} FOLDER"
    if origin.startswith("imported from "):
        return f"minirun import FILE {name}"
    return f"minirun pull {name}, or load it again"


def _build(names: list[str], settings: Settings) -> int:
    if not names:
        raise UsageError("images build needs a name", f"one of {', '.join(recipe.names())}")
    for name in names:
        image = build.build(settings.store, name, say, steps(False))
        print(clean(f"{image.name}  {image.digest[:19]}  {image.origin}"))
    return 0


def _import(args: list[str], settings: Settings) -> int:
    if len(args) != 2:
        raise UsageError("images import needs a name and a file", "images import NAME FILE.tar")
    name, path = args
    if path == "-":
        image = import_tar(settings.store, name, sys.stdin.buffer, "standard input")
    else:
        with open(path, "rb") as file:
            image = import_tar(settings.store, name, file, os.path.basename(path))
    print(clean(f"{image.name}  {image.digest[:19]}  {image.origin}"))
    return 0


def main_import(args: list[str], settings: Settings) -> int:
    """Bring a root filesystem in, as docker's `import FILE NAME`; return 0."""
    flags = ImportOf(args)
    flags.takes(2)
    return as_runc(lambda: _import(flags.args[::-1], settings))


def remove(names: list[str], settings: Settings, done: str = "removed", force: bool = False) -> int:
    """Remove images that no container uses, and print one line for each, which begins with `done`.

    `force`: that one is not there is no failure. Returns the exit status. Raises UsageError.
    """
    if not names:
        raise UsageError("images rm needs a name", "minirun images lists them")

    def remove_one(name: str) -> str:
        try:
            return f"{done} {_remove(name, settings)}"
        except ImageError as error:
            if force and error.args[0].startswith("No such image"):
                error.status = 0
            raise

    return each(names, remove_one)


def _remove(name: str, settings: Settings) -> str:
    wanted = catalogue.name_of(settings.store, name)
    if users := _users(wanted, settings):
        text = f'conflict: unable to remove "{name}": container {users[0]} is using it'
        raise ImageError(text, f"minirun delete {users[0]}", status=1)
    return catalogue.remove_image(settings.store, wanted)


def remove_unused(settings: Settings, wanted: dict[str, list[str]], latest: float) -> list[str]:
    """Remove all images that no container was made of; return their names. Raises MinirunError.

    `wanted`: values of the filters label and label!; `latest`: none made later, in seconds since
    the epoch.
    """
    names = [
        _name(image) for image in shelf.list_images(settings.store)
        if image_rows.is_older(image, latest) and image_rows.has_labels(image, wanted)
    ]  # fmt: skip
    unused = [name for name in names if not _users(name, settings)]
    return [catalogue.remove_image(settings.store, name) for name in unused]


def _users(image: str, settings: Settings) -> list[str]:
    """The containers that were made of an image; also those that have ended and are kept."""
    users = []
    for container_id in state.names(settings.root):
        try:
            record = state.load(settings.root, container_id)
        except StateError:
            continue
        if docker_record.of(record).image == image:
            users.append(state.name_of(record.directory))
    return users


ACTIONS = {"build": _build, "import": _import, "rm": remove}
