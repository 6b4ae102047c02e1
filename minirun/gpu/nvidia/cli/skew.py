"""Whether the driver's libraries fit its kernel module, and ld.so.cache lists them: real drivers.

An update that waits for a reboot, or a forgotten ldconfig, are the two ways in which a host gives a
container no library, or one that the kernel module refuses. Folders are always looked through; the
cache only where a library is missing.
"""

from __future__ import annotations

from minirun.core.kernel.architecture import NATIVE
from minirun.gpu import driverroot
from minirun.gpu.inventory import HostFile, Inventory, Notice
from minirun.gpu.nvidia.shared import catalog, ldcache
from minirun.gpu.nvidia.shared.find import real

_USUAL = ("/usr/lib64", f"/usr/lib/{NATIVE.triplet}")
"""Where the libraries of a driver lie, if they lie anywhere."""


def find_mismatches(found: Inventory, wanted: frozenset[str], cache: str) -> list[Notice]:
    """Return what is wrong with the libraries that bring the capabilities `wanted`."""
    expected = {name for name, needs in catalog.LIBRARIES if wanted & frozenset(needs.split())}
    here = {_stem(file) for file in found.libraries}
    if not here & expected:
        return [_none(found, expected, cache)]
    said = []
    folders = {file.path.rpartition("/")[0] for file in found.libraries}
    unlisted = sorted((_on_disk(found, folders) & expected) - here)
    if unlisted:
        text = f"ld.so.cache is stale: {', '.join(unlisted)} of driver {found.driver} not in it"
        said.append(Notice(text, "make it anew: ldconfig"))
    absent = {"libcuda.so", "libnvidia-ml.so"} & expected - here - set(unlisted)
    if absent:
        others = _others(found, absent, cache)
        said += [_skew(found, version, name) for name, version in others.items()]
    return said


def _none(found: Inventory, expected: set[str], cache: str) -> Notice:
    """Say why no library was found at all."""
    folders = {path.rpartition("/")[0] for path in _cached(found, cache).values()}
    unlisted = _on_disk(found, folders | {*_USUAL}) & expected
    if unlisted:
        text = f"ld.so.cache is stale: no library of driver {found.driver} in it"
        hint = f"{len(unlisted)} are there, such as {min(unlisted)}.{found.driver}: run ldconfig"
        return Notice(text, hint, fatal=True)
    others = _others(found, expected, cache)
    if others:
        name = "libcuda.so" if "libcuda.so" in others else min(others)
        return _skew(found, others[name], name)._replace(fatal=True)
    text = f"no library of driver {found.driver} is installed on this host"
    return Notice(text, "install the driver's libraries, and run ldconfig", fatal=True)


def _skew(found: Inventory, version: str, name: str) -> Notice:
    text = f"driver/library version mismatch: the kernel module is {found.driver}, {name} {version}"
    return Notice(text, "an update? reboot, or load the new module: rmmod nvidia; modprobe nvidia")


def _others(found: Inventory, names: set[str], cache: str) -> dict[str, str]:
    """Return library → version, for those of `names` that are there in another version."""
    others = {}
    for soname, path in _cached(found, cache).items():
        name = f"{soname.partition('.so')[0]}.so"
        version = real(found.root, path).partition(".so.")[2]
        if name in names and "." in version and version != found.driver:
            others[name] = version
    return others


def _cached(found: Inventory, cache: str) -> dict[str, str]:
    """Return SONAME → path of what the loader's cache lists for this machine."""
    return {entry.soname: entry.path for entry in ldcache.load(found.root, cache)}


def _on_disk(found: Inventory, folders: set[str]) -> set[str]:
    """Return the driver's libraries that lie in these folders, without their version."""
    names: set[str] = set()
    for folder in folders:
        names.update(driverroot.names(found.root, folder))
    ending = f".{found.driver}"
    return {name.removesuffix(ending) for name in names if name.endswith(ending)}


def _stem(file: HostFile) -> str:
    """Return libcuda.so for …/libcuda.so.550.163.01."""
    return file.path.rpartition("/")[2].partition(".so.")[0] + ".so"
