"""Two root filesystems side by side: what is added (A), changed (C), deleted (D), as docker says.

    changed       what a container has done to its image: OverlayFS's upper directory
    compared      two stacks of layers: two images, or an image up to one layer and up to another

Source: docker's documentation of `docker container diff`; the kernel's overlayfs.rst.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.core.keeping.numbers import whole
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import Root
from rootfs_tools import catalogue, tree
from rootfs_tools.lower import Lower, is_whiteout
from rootfs_tools.walk import walk

_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


class FileChange(NamedTuple):
    """One file: `kind` is A, C or D."""

    kind: str
    path: str
    """From "/" on."""


def changed(upper: str, layers: Sequence[str]) -> Iterator[FileChange]:
    """Yield what OverlayFS's upper directory does to the layers below, lowest first.

    A directory counts as changed if anything in it is, as docker has it. Raises OSError.
    """
    with closing(Lower(layers)) as lower, closing(Root.at(upper)) as root:
        for path, info in walk(upper):
            below = lower.find(path)
            if is_whiteout(info):
                if below:  # the mark may outlast what it hid: made and removed again
                    yield FileChange("D", f"/{path}")
                continue
            yield FileChange("C" if below else "A", f"/{path}")
            if below and stat.S_ISDIR(info.st_mode):
                for name in _hidden(root, path, lower):
                    yield FileChange("D", f"/{path}/{name}")


def _hidden(root: Root, path: str, lower: Lower) -> list[str]:
    """Return the names that an opaque directory hides and does not have; none for another one."""
    try:
        fd = root.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return []  # it has just gone
    try:
        known = files.attributes(fd)
        if not any(os.getxattr(fd, name) == b"y" for name in _OPAQUE if name in known):
            return []
        own = set(os.listdir(fd))
        return [name for name in lower.names(path) if name not in own]
    finally:
        os.close(fd)


def stack(store: str, name: str) -> tuple[str, ...]:
    """Return the layers of an image, lowest first; of IMAGE#N those up to number N.

    Raises ImageError.
    """
    stem, mark, number = name.partition("#")
    layers = catalogue.resolve(store, stem).layers
    if not mark:
        return layers
    last = whole(number, 0, len(layers) - 1)
    if last is None:
        hint = f"{stem} has 0 to {len(layers) - 1}" if len(layers) > 1 else f"{stem} has 0"
        raise ImageError(f"{name}: no such layer", hint)
    return layers[: last + 1]


def compared(old: Sequence[str], new: Sequence[str]) -> Iterator[FileChange]:
    """Yield what to do to the first stack of layers for the second; times do not count.

    Raises OSError.
    """
    with closing(Lower(old)) as before, closing(Lower(new)) as after:
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            both = {*before.names(folder), *after.names(folder)}
            for name in sorted(both):
                path = f"{folder}/{name}" if folder else name
                change, enter = _compare(path, before, after)
                if change:
                    yield FileChange(change, f"/{path}")
                if enter:
                    waiting.append(path)


def _compare(path: str, before: Lower, after: Lower) -> tuple[str, bool]:
    """Return the change of one path, "" for none, and whether to look into it."""
    old, new = before.find(path), after.find(path)
    if not new:
        return "D", False
    is_folder = stat.S_ISDIR(new[1].st_mode)
    if not old:
        return "A", is_folder
    if os.path.samestat(old[1], new[1]):
        return "", is_folder
    same = _entry(path, *old) == _entry(path, *new)
    return "" if same else "C", is_folder


def _entry(path: str, fd: int, info: os.stat_result) -> list[object]:
    name = os.fsencode(path)
    return tree.entry(name, os.fsencode(f"/proc/self/fd/{fd}/") + name, info)
