"""The driver's own files in a CDI spec: libraries, sockets, firmware, programs, and their links.

Capabilities are not asked for in this mode: whatever lies beside libcuda and has the driver's
version in its name comes along. Links and ld.so.cache are beyond config.json, so createContainer
hooks make them (`--link target::link`, `--folder DIR`).

Simplified: the real tool opens each library for its SONAME; here the links of the host that are
called like one (libNAME.so.N) tell it.
"""

from __future__ import annotations

import os

from minirun.core.keeping.numbers import whole
from minirun.gpu import driverroot
from minirun.gpu.nvidia.cli.planner import LINKS
from minirun.gpu.nvidia.shared.catalog import MPS_PIPES
from minirun.gpu.nvidia.shared.find import Finder, glob, real

FILE: tuple[str, ...] = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET: tuple[str, ...] = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
"""Options of mounts."""
PROGRAMS = (
    "nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server", "nvidia-imex", "nvidia-imex-ctl",
)  # fmt: skip
_SOCKETS = ("/nvidia-persistenced/socket", "/nvidia-fabricmanager/socket")
_OPTIONAL = "libnvidia-nvvm70.so.*"
"""A library of newer drivers, with a version of its own."""
_FIRMWARE = "/sys/module/firmware_class/parameters/path"


def libraries(finder: Finder, driver: str, folders: list[str]) -> list[str]:
    """Return the driver's libraries in these folders, and in a folder vdpau of each."""
    places = (*folders, *(f"{folder.rstrip('/')}/vdpau" for folder in folders))
    found = finder.files((f"*.so.{driver}",), places)
    more = optional(finder, folders)
    for path in more:
        finder.selected(finder.root + path, path)
    return found + more


def optional(finder: Finder, folders: list[str]) -> list[str]:
    """Return the libraries that only newer drivers have; say it where there is none."""
    paths = [path for folder in folders for path in glob(finder.root, f"{folder}/{_OPTIONAL}")]
    found = [path for path in paths if not driverroot.link(finder.root, path)]
    if not found and finder.log:
        finder.log.warning(f"Missing {_OPTIONAL}")
    return found


def others(finder: Finder, driver: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (path, options) of what is no library: sockets, firmware, programs."""
    rows = [(path, SOCKET) for path in finder.files(_SOCKETS, ("/run", "/var/run"), first=True)]
    rows += [(path, SOCKET) for path in finder.files((MPS_PIPES,), ("/",), first=True)]
    firmware = finder.files((f"nvidia/{driver}/gsp*.bin",), _firmware_folders())
    return rows + [(path, FILE) for path in (*firmware, *finder.programs(*PROGRAMS))]


def _firmware_folders() -> tuple[str, ...]:
    """Return where the kernel looks for firmware: its documentation, "Firmware search paths"."""
    release = os.uname().release
    try:
        with open(_FIRMWARE, encoding="utf-8") as file:
            own = file.read().strip()
    except FileNotFoundError:
        own = ""
    bases = ("/lib/firmware/updates", "/lib/firmware")
    usual = (path for base in bases for path in (f"{base}/{release}", base))
    return tuple(path for path in (own, *usual) if path)


def folders(paths: list[str]) -> list[str]:
    """Return the folders of libraries, sorted."""
    return sorted({path.rpartition("/")[0] for path in paths})


def links(root: str, paths: list[str]) -> list[str]:
    """Return the links beside the libraries, as `target::link`, library by library.

    Those that programs wrongly rely on (minirun.gpu.nvidia.cli.planner.LINKS) come first; then
    libNAME.so.N, the SONAME, and libNAME.so, where the host has such links.
    """
    here = {folder: _links_in(root, folder) for folder in folders(paths)}
    found = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        found += [f"{to}::{folder}/{link}" for to, link in _links_of(name, here[folder])]
    return list(dict.fromkeys(found))


def _links_in(root: str, folder: str) -> dict[str, str]:
    """Return name → name of the file that it leads to, for each link of a folder."""
    found = {}
    for name in driverroot.names(root, folder):
        if driverroot.link(root, f"{folder}/{name}"):
            found[name] = real(root, f"{folder}/{name}").rpartition("/")[2]
    return found


def _links_of(library: str, names: dict[str, str]) -> list[tuple[str, str]]:
    """Return (target, link) of each link that a library has."""
    plain = library.partition(".so.")[0] + ".so"
    found = [(to or library, link) for name, link, to in LINKS if name == plain]
    sonames = [
        name
        for name, target in names.items()
        if target == library
        and name.startswith(f"{plain}.")
        and whole(name[len(plain) + 1 :]) is not None
    ]
    found += [(library, soname) for soname in sonames]
    if names.get(plain) == library:
        found.append((sonames[0] if sonames else library, plain))
    return list(dict.fromkeys(found))
