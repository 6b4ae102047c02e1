"""Whether a container's programs find the driver's libraries: links, the loader's cache, paths.

A program asks the loader for libcuda.so.1, a link that ldconfig makes beside the driver's file. The
loader looks in LD_LIBRARY_PATH, in /etc/ld.so.cache, then in its own folders: ld.so(8).
"""

import os
from collections.abc import Iterator

from minirun.core.errors import GPUError
from minirun.core.keeping.record import Record
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import has
from minirun.gpu.edits import Edits
from minirun.gpu.nvidia.shared import catalog, ldcache

_ASKED_FOR = ("/libcuda", "/libnvidia-ml")
_DEBIAN, _TRIPLET = "/etc/debian_version", NATIVE.triplet
_OWN_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")


class ObservedLoading(Record):
    """What keeps programs from the libraries that a container was given."""

    unlinked: tuple[str, ...] = ()
    """Names that programs load, and that lead to no file."""
    unlisted: tuple[str, ...] = ()
    """Names that are there, in no folder of the loader's own, and not in its cache."""
    first: tuple[str, ...] = ()
    """Files of LD_LIBRARY_PATH that are found before the driver's."""


def observe(root: Root, pid: int, edits: Edits, library_path: str) -> ObservedLoading:
    """Look below a container's root; `library_path` is its LD_LIBRARY_PATH."""
    given = {path.rpartition("/")[2]: path for path in _names(edits)}
    there = {name: path for name, path in given.items() if has(root, path)}
    unlinked = tuple(path for name, path in given.items() if name not in there)
    listed = _listed(root, pid)
    unlisted = tuple(path for name, path in there.items() if listed and name not in listed
                     and not _is_own(root, path.rpartition("/")[0]))  # fmt: skip
    return ObservedLoading(unlinked, unlisted, tuple(_first(root, there, library_path)))


def _names(edits: Edits) -> Iterator[str]:
    """Yield the paths of the links that programs load, for the libraries that were given."""
    for mount in edits.mounts:
        name, is_library, _ = mount.path.partition(".so.")
        if is_library and name.endswith(_ASKED_FOR):
            yield f"{name}.so.1"


def _is_own(root: Root, folder: str) -> bool:
    """Return True if the loader looks in a folder without its cache: Debian's has two more."""
    own = folder in _OWN_FOLDERS
    return own or (folder in (f"/lib/{_TRIPLET}", f"/usr/lib/{_TRIPLET}") and has(root, _DEBIAN))


def _listed(root: Root, pid: int) -> frozenset[str]:
    """Return the names in the container's ld.so.cache; none if it has none, or a damaged one."""
    if not has(root, catalog.LD_SO_CACHE):
        return frozenset()
    try:
        entries = ldcache.load(f"/proc/{pid}/root", catalog.LD_SO_CACHE)
    except (GPUError, OSError):
        return frozenset()
    return frozenset(entry.soname for entry in entries)


def _first(root: Root, given: dict[str, str], library_path: str) -> Iterator[str]:
    """Yield the files that LD_LIBRARY_PATH has in place of the driver's."""
    for name, own in given.items():
        for folder in filter(None, library_path.split(":")):
            path = f"{folder.rstrip('/')}/{name}"
            found = _file(root, path)
            if found and found != _file(root, own):
                yield path
            if found:
                break


def _file(root: Root, path: str) -> tuple[int, int] | None:
    """Return which file a path leads to, by device and inode; None if it leads to none."""
    try:
        fd = root.open(path, os.O_PATH)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    return status.st_dev, status.st_ino
