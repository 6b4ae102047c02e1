"""`minirun push`: an image of the store to its registry."""

from __future__ import annotations

from minirun.cli.flags import Flags, flag
from minirun.core.errors import ImageError, from_os
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean
from minirun.image import store
from rootfs_tools.cli.pull import shown
from rootfs_tools.grammar import parse
from rootfs_tools.registry import push as registry


class Push(Flags):
    """Send an image to a registry."""

    command = "push"
    quiet: bool = flag("-q")


def main(args: list[str], settings: Settings) -> int:
    """Push an image; print the digest of its manifest; return 0. Raises ImageError."""
    flags = Push(args)
    flags.takes(1, 2)
    name = flags.args[0]
    to = registry.destination(*flags.args)
    if not store.find(settings.store, parse(name)):
        hint = "minirun images lists what is here"
        raise ImageError(f"An image does not exist locally with the tag: {parse(name)}", hint)
    if not flags.quiet:
        print(clean(f"The push refers to repository [{to.domain}/{to.path}]"), flush=True)
    try:
        with shown("", flags.quiet)(str(to)) as notify:
            found = registry.push(settings.store, name, to, notify)
    except OSError as error:
        raise from_os(error, "push") from None
    if flags.quiet:
        print(clean(f"{to.domain}/{to.path}:{to.tag}"))
    else:
        print(clean(f"{to.tag}: digest: {found.digest} size: {found.size}"))
    return 0
