"""What NVIDIA's stack passes over in silence, said: one line each, on stderr and in the log.

The real nvidia-container-cli ends with status 0 and an unusable container where kernel module and
libraries are of different versions, where ld.so.cache does not list the libraries, where
/dev/nvidia-uvm is missing, and where the host has no GPU (facts sheet, "fails silently"). Here each
of these is a Notice. The program under NVIDIA's own name prints them and ends as the real one
does; in-line, a fatal one is an error: `minirun run --gpus` gives what was asked for, or nothing.

What costs nothing is looked at always (the inventory knows it); folders and ld.so.cache only where
a real driver is, and the cache only where a library is missing.
"""

import os

from minirun import events
from minirun.errors import GPUError
from minirun.gpu import catalog
from minirun.gpu.inventory import HostFile, Inventory
from minirun.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.request import Request

LD_SO_CACHE = "/etc/ld.so.cache"
MODPROBE = "nvidia-modprobe -u -c 0 makes it"
_USUAL = ("/usr/lib64", f"/usr/lib/{os.uname().machine}-linux-gnu")
"""Where the libraries of a driver lie, if they lie anywhere."""


class Notice(Record):
    """Something that is wrong with the host: what, where, and what to do."""

    text: str
    hint: str
    fatal: bool = False
    """The container would have nothing of what was asked for."""

    def __str__(self) -> str:
        """It as one line."""
        return f"{self.text} ({self.hint})"


def check(found: Inventory, request: "Request", cache: str = LD_SO_CACHE) -> "list[Notice]":
    """Return what is wrong with a host for a request; `cache` is its ld.so.cache.

    Raises GPUError where that is damaged.
    """
    said: "list[Notice]" = []
    if any(request.devices) and not found.gpus:
        text = f"this host has no gpu: driver {found.driver} is loaded and sees none"
        hint = "nvidia-smi -L; dmesg | grep NVRM says why; --gpus none gives its files alone"
        if found.simulated:
            text, hint = "the SIMULATED driver has no gpu", "MINIRUN_SIM=count=4 gives it four"
        said.append(Notice(text, hint, fatal=True))
    wanted = frozenset(request.capabilities)
    if not found.simulated and wanted:
        said += _libraries(found, wanted, cache)
    there = [node.path for node in found.nodes]
    for path, _, _, needs in catalog.NODES:
        if path not in there and wanted & frozenset(needs.split()):
            said.append(Notice(f"{path} does not exist on this host", MODPROBE))
    if request.ldconfig and not request.ldconfig.startswith("@"):
        text = f"{request.ldconfig} is code of the image and is not run"
        said.append(Notice(text, f"@{request.ldconfig} is the host's"))
    return said


def tell(said: "list[Notice]") -> None:
    """Print warnings for the user, and write them into the log. Raises GPUError for a fatal one."""
    for one in bearable(said):
        events.emit("note", "warning", {"text": one.text}, why=one.hint)
        os.write(2, f"minirun: warning: {one}\n".encode(errors="replace"))


def bearable(said: "list[Notice]") -> "list[Notice]":
    """Return `said` where none is fatal. Raises GPUError with the first that is."""
    for one in said:
        if one.fatal:
            raise GPUError(one.text, one.hint)
    return said


def _libraries(found: Inventory, wanted: "frozenset[str]", cache: str) -> "list[Notice]":
    """Say which libraries of the driver there are, but not where they are looked for."""
    expected = {name for name, needs in catalog.LIBRARIES if wanted & frozenset(needs.split())}
    here = {_stem(file) for file in found.libraries}
    if not here & expected:
        return [_none(found, expected, cache)]
    said = []
    unlisted = sorted((_on_disk(found, _folders(found)) & expected) - here)
    if unlisted:
        text = f"ld.so.cache is stale: {', '.join(unlisted)} of driver {found.driver} not in it"
        said.append(Notice(text, "make it anew: ldconfig"))
    absent = {"libcuda.so", "libnvidia-ml.so"} & expected - here - set(unlisted)
    if absent:
        others = _others(found, absent, cache)
        said += [_skew(found, version, name) for name, version in others.items()]
    return said


def _none(found: Inventory, expected: "set[str]", cache: str) -> Notice:
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


def _others(found: Inventory, names: "set[str]", cache: str) -> "dict[str, str]":
    """Return library → version, for those of `names` that are there in another version."""
    others = {}
    for soname, path in _cached(found, cache).items():
        name = f"{soname.partition('.so')[0]}.so"
        version = os.path.realpath(found.root + path).partition(".so.")[2]
        if name in names and "." in version and version != found.driver:
            others[name] = version
    return others


def _cached(found: Inventory, cache: str) -> "dict[str, str]":
    """Return SONAME → path of what the loader's cache lists for this machine."""
    from minirun.gpu import ldcache

    try:
        with open(found.root + cache, "rb") as file:
            entries = ldcache.parse(file.read())
    except FileNotFoundError:
        return {}
    wide = ldcache.WIDE[os.uname().machine]
    return {entry.soname: entry.path for entry in entries if entry.arch in wide}


def _folders(found: Inventory) -> "set[str]":
    return {file.path.rpartition("/")[0] for file in found.libraries}


def _on_disk(found: Inventory, folders: "set[str]") -> "set[str]":
    """Return the driver's libraries that lie in these folders, without their version."""
    names: "set[str]" = set()
    for folder in folders:
        if os.path.isdir(found.root + folder):
            names.update(os.listdir(found.root + folder))
    ending = f".{found.driver}"
    return {name.removesuffix(ending) for name in names if name.endswith(ending)}


def _stem(file: HostFile) -> str:
    """Return libcuda.so for …/libcuda.so.550.163.01."""
    return file.path.rpartition("/")[2].partition(".so.")[0] + ".so"
