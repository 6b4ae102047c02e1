"""`minirun commit`: an image of what a container has written: rootfs_tools.commit."""

from __future__ import annotations

from minirun.cli import as_runc
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show
from minirun.core.errors import from_os
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.running import lookup
from rootfs_tools.commit import CommitOptions, changes_of, commit
from rootfs_tools.grammar import new_name


class Commit(Flags):
    """Make an image of a container's files."""

    command = "commit"
    message: str = flag("-m")
    author: str = flag("-a")
    change: list[str] = flag("-c")
    pause: bool = flag("-p")


def main(args: list[str], settings: Settings) -> int:
    """Make the image, and print its digest; return 0. Raises MinirunError, with status 1."""
    flags = Commit(args)
    flags.takes(1, 2)
    return as_runc(lambda: _commit(flags, settings))


def _commit(flags: Commit, settings: Settings) -> int:
    name = flags.args[1] if len(flags.args) == 2 else ""
    if name:
        new_name(name)
    container = lookup.load(*roots.locate(settings, flags.args[0]))
    pause = flags.pause or "pause" not in flags.given
    changes = changes_of(flags.change)
    options = CommitOptions(name, flags.message, flags.author, changes, pause)
    try:
        image = commit(container, options)
    except OSError as error:
        raise from_os(error, "commit") from None
    return show([image.digest])
