"""`minirun images`: what the store holds and what it truly is; build, import, check, remove."""

from __future__ import annotations

import json
import os
import sys

from minirun.cli import words
from minirun.cli.flags import Flags, flag
from minirun.cli.output import write
from minirun.common import docker_record, table
from minirun.core.errors import ImageError, MinirunError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean, say
from minirun.faces.inspect.sizes import human
from minirun.faces.show.template import formats
from minirun.image import split
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
    if flags.args:
        found = [row for name in flags.args for row in _of_name(settings.store, name)]
    else:
        found = shelf.list_images(settings.store)
    wanted = words.filters(flags.filter, image_rows.FILTERS)
    found = [image for image in found if image_rows.fits(image, wanted, settings.store)]
    if flags.verify:
        return _verify(found, settings)
    if flags.json:
        print(json.dumps(found, indent=2))
    elif flags.quiet:
        sys.stdout.writelines(f"{clean(_name(image))}\n" for image in found)
    elif flags.format != "table":
        shown = [image_rows.fields(image, flags.no_trunc) for image in found]
        return write(formats.lines(flags.format, shown, image_rows.FIELDS))
    else:
        whole = flags.no_trunc or flags.digests
        rows = [("REPOSITORY", "TAG", "DIGEST", "SIZE", "ORIGIN")]
        rows += [_row(image, whole) for image in found]
        print(table.text(rows, 3), end="")
    return 0


def _of_name(store: str, name: str) -> list[ImageDetails]:
    """Return all images of a repository, or the one of a tag, a digest or an id."""
    rows = []
    if not {":", "@"} & set(name.rpartition("/")[2]):
        path = split(name).familiar()
        rows = [row for row in shelf.list_images(store) if row["name"] == path]
    try:
        return rows or [catalogue.details(store, name)]
    except ImageError as error:
        if name in OF_IMAGE:
            error.hint = f"minirun image {name} is the command"
        raise


def _name(image: ImageDetails) -> str:
    return f"{image['name']}:{image['tag']}"


def _row(image: ImageDetails, whole: bool) -> tuple[str, str, str, str, str]:
    if "broken" in image:
        return image["name"], image["tag"], "-", "-", f"BROKEN: {image['broken']}"
    digest = image["digest"] if whole else image["digest"].removeprefix("sha256:")[:12]
    size = human(image["size"])
    return image["name"], image["tag"], digest, size, image["origin"]


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
    if name in [f"{each}:latest" for each in recipe.names()]:
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
    exactly(flags, 2, "minirun import FILE|- NAME")
    return _import(flags.args[::-1], settings)


def exactly(flags: Flags, count: int, form: str) -> None:
    """Raise UsageError in docker's words unless there are `count` arguments; `form` is the hint."""
    if len(flags.args) != count:
        wanted = f"{count} argument" + "s" * (count != 1)
        text = f'"{flags.command}" requires exactly {wanted}, got {len(flags.args)}'
        raise UsageError(text, form, 1)


def remove(names: list[str], settings: Settings, done: str = "removed", force: bool = False) -> int:
    """Remove images that no container uses, and print one line for each, which begins with `done`.

    Returns 0. Raises MinirunError for the last that could not be removed; those before have a line.
    `force`: one that is not there has a line, and is no error.
    """
    if not names:
        raise UsageError("images rm needs a name", "minirun images lists them")
    failed: list[MinirunError] = []
    for name in names:
        try:
            print(f"{done} {_remove(name, settings)}")
        except MinirunError as error:
            if force and error.args[0].startswith("No such image"):
                say(error.line())
            else:
                failed.append(error)
    for each in failed[:-1]:
        say(each.line())
    if failed:
        raise failed[-1]
    return 0


def _remove(name: str, settings: Settings) -> str:
    wanted = catalogue.name_of(settings.store, name)
    if users := _users(wanted, settings):
        text = f'conflict: unable to remove "{name}": container {users[0]} is using it'
        raise ImageError(text, f"minirun delete {users[0]}", status=1)
    return catalogue.remove_image(settings.store, wanted)


def remove_unused(settings: Settings) -> list[str]:
    """Remove all images that no container was made of; return their names. Raises MinirunError."""
    names = [_name(image) for image in shelf.list_images(settings.store)]
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
            users.append(container_id)
    return users


ACTIONS = {"build": _build, "import": _import, "rm": remove}
