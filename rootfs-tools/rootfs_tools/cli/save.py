"""`minirun save`, `tag`, `rmi`: images as an archive, under another name, and without one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from minirun.cli.flags import ANY, Flags, flag
from minirun.core.errors import UsageError, from_os
from minirun.core.keeping.settings import Settings
from rootfs_tools import catalogue
from rootfs_tools.archives import saving
from rootfs_tools.cli import images
from rootfs_tools.draft import beside
from rootfs_tools.take import take


class Save(Flags):
    """Save images to an archive."""

    command = "save"
    output: str = flag("-o")
    format: str = flag(default="docker-archive")


class Tag(Flags):
    """Give an image another name."""

    command = "tag"


class Rmi(Flags):
    """Remove names of images."""

    command = "rmi"
    force: bool = flag("-f")


def main_tag(args: list[str], settings: Settings) -> int:
    """Give an image another name; return 0. Raises ImageError."""
    flags = Tag(args)
    flags.takes(2)
    name, new = flags.args
    origin = catalogue.resolve(settings.store, name).origin
    try:
        with saving.collected(settings.store, [name]) as (image,):
            take(settings.store, new, saving.SavedSource(image, origin))
    except OSError as error:
        raise from_os(error, "tag") from None
    return 0


def main_rmi(args: list[str], settings: Settings) -> int:
    """Remove the names of images, and the images, as far as no container uses them; return 0."""
    flags = Rmi(args)
    flags.takes(1, ANY)
    return images.remove(flags.args, settings, "Untagged:", flags.force)


def main_save(args: list[str], settings: Settings) -> int:
    """Write images to an archive; return 0. Raises MinirunError, BrokenPipeError."""
    flags = Save(args)
    flags.check("format", *saving.FORMATS)
    flags.takes(1, ANY)
    if not flags.output and (sys.stdout.isatty() or flags.format == "oci-dir"):
        text = "cowardly refusing to save to a terminal"
        raise UsageError(text, "use the -o flag or redirect", 1)
    try:
        with saving.collected(settings.store, flags.args) as saved:
            _write(saved, flags.format, flags.output)
    except BrokenPipeError:  # the reader has gone: as with any command
        raise
    except OSError as error:
        raise from_os(error, "saving") from None
    return 0


def _write(saved: list[saving.SavedImage], form: str, output: str) -> None:
    """Write to a file or folder that gets its name when it is complete; or to a pipe."""
    if form != "oci-dir":
        with output_file(output) as stream:
            target = saving.TarTarget(stream)
            saving.write(saved, form, target)
            target.writer.finish()
        return
    with _draft(output) as made:
        os.mkdir(made)
        saving.write(saved, form, saving.FolderTarget(made))


@contextmanager
def output_file(path: str) -> Iterator[BinaryIO]:
    """Yield a file that gets its name when it is complete; a pipe, or for "" standard output.

    Raises OSError.
    """
    if not path or (os.path.lexists(path) and not os.path.isfile(path)):
        with open(path or sys.stdout.fileno(), "wb", closefd=bool(path)) as stream:
            yield stream
        return
    with _draft(path) as made, open(made, "wb") as stream:
        yield stream


@contextmanager
def _draft(path: str) -> Iterator[str]:
    """Yield a path beside `path`; what is there at the end gets that name."""
    with beside(os.path.dirname(os.path.abspath(path))) as folder:
        yield f"{folder}/made"
        os.rename(f"{folder}/made", path)
