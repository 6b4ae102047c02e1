"""The inventory of a host with a real NVIDIA driver.

The real stack (nvidia-container-cli, nvc_info.c) looks in the same places: the kernel module's
version in /proc/driver/nvidia/version; libraries through ld.so.cache, taking those whose file name
ends in exactly that version; binaries through PATH; GSP firmware below /lib/firmware; sockets and
control nodes at their fixed places; GPUs through NVML. Where NVML does not answer, it gives up, and
so does `strict`; else minirun goes on with what the kernel module says in /proc/driver/nvidia/gpus
and says so in the log.

`root` is a prefix before every path, for a driver that is installed elsewhere than in "/": the real
one is told so (--root, nvidia-container-cli.root in config.toml), and here it is found, too, where
the host's own cache has no library of the driver:

    /run/nvidia/driver       where NVIDIA's driver container mounts its root filesystem
    /usr/local/nvidia        lib64 and bin: how some hosts install it, unknown to ld.so.cache
    /run/opengl-driver/lib   NixOS; and, without an ld.so.cache, the usual folders of libraries

Of a root without a /proc the kernel's own is taken: the module is the same. Of one without nodes
(COS keeps the files alone in /home/kubernetes/bin/nvidia) the host's nodes are.
"""

from __future__ import annotations

import os
import stat

from minirun.core import events
from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.core.kernel.architecture import NARROW, NATIVE, Architecture
from minirun.gpu import driverroot, trusted
from minirun.gpu.driverroot import PROC, proc_root
from minirun.gpu.inventory import ControlNode, Gpu, HostFile, Inventory
from minirun.gpu.nvidia.shared import catalog, nvml, wsl
from minirun.gpu.nvidia.shared.find import LIBRARY_FOLDERS, Finder, chain, real

_CONTAINED = "/run/nvidia/driver"
_LOCAL = "/usr/local/nvidia"
_LOCAL_FOLDERS = (f"{_LOCAL}/lib64", f"{_LOCAL}/lib")
_USUAL_FOLDERS = (*LIBRARY_FOLDERS, "/lib", "/run/opengl-driver/lib")
"""Where libraries are looked for if there is no ld.so.cache; NixOS has them in the last."""


def inventory(
    root: str = "",
    cache: str = "",
    *,
    strict: bool = False,
    user: tuple[int, int] = (nvml.NOBODY, nvml.NOBODY),
    dev_root: str | None = None,
) -> Inventory:
    """Return what the driver below `root` has to give, by the loader's `cache` below it.

    `cache` is "" for its usual place; `user` is the uid and gid that NVML is asked as; `dev_root`
    is where the nodes are, None for the root that has any. `strict`: as the real program.
    Raises GPUError, OSError.
    """
    root = trusted.check(root)
    if not root and driverroot.is_wsl():
        return wsl.inventory(cache, user)
    if dev_root is None:
        dev_root = root if strict else driverroot.dev_root(root)
    finder = Finder(root, dev_root, cache=cache)
    if strict:
        cuda, gpus, _ = nvml.query(root, _nvml_path(finder) if root else "", user)
        driver = kernel_version(root)
        _refuse_stale(finder, cache or catalog.LD_SO_CACHE)
    else:
        driver = kernel_version(root)
        cuda, gpus = _gpus(finder, user)
    return _inventory(finder, driver, cuda, gpus)


def seen_by(finder: Finder) -> Inventory:
    """Return the same as the toolkit's programs see it: libraries where `finder` looks for them.

    They take NVML from there, and need no ld.so.cache. Raises GPUError, OSError.
    """
    trusted.check(finder.root)
    if not finder.root and driverroot.is_wsl():
        return wsl.inventory("", (nvml.NOBODY, nvml.NOBODY))
    library = next(iter(finder.locate_library("libnvidia-ml.so.1")), "")
    cuda, gpus = ask_nvml(finder, library)
    silent = Finder(finder.root, finder.dev_root)
    return _inventory(silent, kernel_version(finder.root), cuda, gpus)


def ask_nvml(
    finder: Finder, library: str, user: tuple[int, int] = (nvml.NOBODY, nvml.NOBODY)
) -> tuple[str, tuple[Gpu, ...]]:
    """Return (CUDA version, GPUs) by NVML, whose `library` is below the root. Raises GPUError.

    NVML opens the nodes in /dev: it is asked in the driver root if they are there, as in that of a
    driver container; else, as with a folder of libraries alone, in the host's own root.
    """
    root = finder.root
    if root and (finder.dev_root != root or not driverroot.dev_root(root)):
        return nvml.query("", library and root + real(root, library), user)[:2]
    return nvml.query(root, library, user)[:2]


def _inventory(finder: Finder, driver: str, cuda: str, gpus: tuple[Gpu, ...]) -> Inventory:
    root = finder.root
    majors = character_majors(root)
    return Inventory(
        driver=driver,
        cuda=cuda,
        root=root,
        gpus=gpus,
        libraries=_all_libraries(finder, driver),
        libraries32=_libraries(finder, driver, NARROW),
        binaries=_binaries(finder),
        firmware=_firmware(finder, driver),
        sockets=_sockets(root),
        nodes=_nodes(finder.dev_root, majors),
        major=majors.get("nvidia", catalog.NVIDIA),
        caps_major=majors.get("nvidia-caps", 0),
        simulated=False,
        imex_major=majors.get(catalog.IMEX, 0),
        dev_root=finder.dev_root,
    )


def _firmware(finder: Finder, driver: str) -> tuple[HostFile, ...]:
    return tuple(map(HostFile, finder.files(("gsp*.bin",), (catalog.firmware_folder(driver),))))


def driver_root(cache: str = "") -> str:
    """Return where the driver is installed: "" for the host's own root, or if it is unknown."""
    listed = _nvml_path(Finder(cache=cache)) or _local_library(
        Finder(cache=cache), "libnvidia-ml.so.1"
    )
    if not listed and _nvml_path(Finder(_CONTAINED)):
        why = "the host's own ld.so.cache has no libnvidia-ml, the driver container's has one"
        events.emit("note", "driver root", {"path": _CONTAINED}, why=why)
        return _CONTAINED
    return ""


def kernel_version(root: str = "") -> str:
    """Return the version of the loaded kernel module. Raises GPUError."""
    base, path = proc_root(root), f"{PROC}/version"
    hint = "load it: modprobe nvidia; or choose --gpu-driver=simulated"
    try:
        text = driverroot.read(base, path).decode(errors="replace")
    except FileNotFoundError:
        raise GPUError(f"no nvidia driver is loaded: there is no {base}{path}", hint) from None
    for word in text.partition("\n")[0].split():
        if "." in word and None not in map(whole, word.split(".")):
            return word
    raise GPUError(f"{base}{path}: no driver version in its first line", hint)


def character_majors(root: str = "") -> dict[str, int]:
    """Return name → major of the kernel's character devices: /proc/devices. Raises OSError.

    That is the kernel's, whatever the driver root, if that has no /proc. Drivers of today and of
    old are both called nvidia.
    """
    majors: dict[str, int] = {}
    path = "/proc/devices"
    text = driverroot.read(root if driverroot.exists(root, path) else "", path).decode()
    for line in text.partition("Block devices:")[0].splitlines():
        number, _, name = line.strip().partition(" ")
        if (major := whole(number)) is not None:
            majors["nvidia" if name == "nvidia-frontend" else name] = major
    return majors


def _gpus(finder: Finder, user: tuple[int, int]) -> tuple[str, tuple[Gpu, ...]]:
    """Return (CUDA version, GPUs): by NVML, or by /proc without its library. Raises GPUError."""
    root = finder.root
    library = _nvml_path(finder) or _local_library(finder, "libnvidia-ml.so.1")
    try:
        return ask_nvml(finder, library, user)
    except GPUError as failed:
        error = failed
    gpus = proc_gpus(root)
    if not gpus or str(error) != nvml.NO_LIBRARY:
        raise error
    why = "by the kernel module's own list instead; brand and architecture stay unknown"
    events.emit("note", "nvml not used", {"error": str(error), "gpus": len(gpus)}, why=why)
    return "", gpus


def proc_gpus(root: str = "") -> tuple[Gpu, ...]:
    """Return the GPUs of /proc/driver/nvidia/gpus, in the order of their bus ids."""
    found: list[Gpu] = []
    base, folder = proc_root(root), f"{PROC}/gpus"
    for name in driverroot.names(base, folder):
        facts = driverroot.facts(base, f"{folder}/{name}/information")
        domain, rest = facts.get("Bus Location", name).lower().split(":", 1)
        found.append(
            Gpu(
                number=len(found),
                minor=int(facts["Device Minor"]),
                uuid=facts.get("GPU UUID", ""),
                bus_id=f"{int(domain, 16):08x}:{rest}",
                model=facts.get("Model", ""),
            )
        )
    return tuple(found)


def _nvml_path(finder: Finder) -> str:
    """Return where libnvidia-ml lies below the root; "" if the loader's cache does not list it."""
    found = (entry.path for entry in finder.cached() if entry.soname == "libnvidia-ml.so.1")
    return next(found, "")


def _libraries(finder: Finder, driver: str, made_for: Architecture | None) -> tuple[HostFile, ...]:
    """Return one file for each library of the catalogue: this driver's that is listed last."""
    entries, files = finder.cached(made_for), []
    for name, needs in catalog.LIBRARIES:
        paths = (real(finder.root, row.path) for row in entries if row.soname.startswith(name))
        fitting = [path for path in paths if path.endswith(f".{driver}")]
        files += [HostFile(path, needs) for path in fitting[-1:]]
    return tuple(files)


def _all_libraries(finder: Finder, driver: str) -> tuple[HostFile, ...]:
    """Return the driver's libraries, cached or not; the log says if there is none."""
    found = _libraries(finder, driver, NATIVE) or _find_local(finder, driver)
    if not found:
        hint = "driver and libraries were installed from different releases, or run ldconfig"
        why = f"no library of driver {driver} in ld.so.cache: {hint}"
        events.emit("note", "driver libraries absent", {"driver": driver}, why=why)
    return found


def _find_local(finder: Finder, driver: str) -> tuple[HostFile, ...]:
    """Return the driver's libraries where ld.so.cache need not, or cannot, know them."""
    return tuple(
        HostFile(real(finder.root, path), needs)
        for name, needs in catalog.LIBRARIES
        if (path := _local_library(finder, f"{name}.{driver}"))
    )


def _local_library(finder: Finder, name: str) -> str:
    """Return the path of a library below the root where no cache has it; "" where it is not."""
    places = _LOCAL_FOLDERS + (() if finder.has_cache() else _USUAL_FOLDERS)
    paths = (f"{folder.rstrip('/')}/{name}" for folder in places)
    return next((path for path in paths if driverroot.exists(finder.root, path)), "")


def _binaries(finder: Finder) -> tuple[HostFile, ...]:
    needs = dict(catalog.BINARIES)
    found = finder.programs(*needs, beside=(f"{_LOCAL}/bin",))
    rows = ((real(finder.root, path), path.rpartition("/")[2]) for path in found)
    return tuple(HostFile(path, needs[name]) for path, name in rows)


def _sockets(root: str) -> tuple[HostFile, ...]:
    pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", catalog.MPS_PIPES)
    wanted = (*catalog.SOCKETS, (pipes, catalog.MPS_NEEDS))
    there = [(path, needs) for path, needs in wanted if driverroot.exists(root, path)]
    return tuple(HostFile(real(root, path), needs) for path, needs in there)


def _refuse_stale(finder: Finder, cache: str) -> None:
    """Raise GPUError, in the real one's words, without ld.so.cache or a library that is in it."""
    names = tuple(f"{name}." for name, _ in catalog.LIBRARIES)
    libraries = (entry.path for entry in finder.cached() if entry.soname.startswith(names))
    for listed in (cache, *libraries):
        path = chain(finder.root, listed)[-1]
        if not driverroot.exists(finder.root, path):
            text = f"detection error: open failed: {finder.root}{path}: no such file or directory"
            raise GPUError(text, "run ldconfig")


def _nodes(root: str, majors: dict[str, int]) -> tuple[ControlNode, ...]:
    """Return the control nodes that are there; the log says which one is missing.

    Their numbers are the kernel's: a node says what it likes. What is no driver's is missing.
    Nothing goes without nvidiactl: it is listed, and where it is missing, its mount fails.
    """
    majors = {"nvidia": catalog.NVIDIA, **majors}
    found = []
    for path, driver, minor, needs in catalog.NODES:
        status = driverroot.status(root, path, os.O_NOFOLLOW)
        if not needs and status is None:
            found.append(ControlNode(path, majors[driver], minor, needs))
            continue
        if status is None or driver not in majors:
            why = "the real nvidia-container-cli passes over this in silence"
            events.emit("note", "node absent", {"path": path}, why=why)
            continue
        if stat.S_ISCHR(status.st_mode):
            found.append(ControlNode(path, majors[driver], minor, needs))
    return tuple(found)
