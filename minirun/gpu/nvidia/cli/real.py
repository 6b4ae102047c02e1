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

Of a root without a /proc the kernel's own is taken: the module is the same.
"""

import os
import stat

from minirun.core import events
from minirun.core.errors import GPUError
from minirun.gpu import driverroot
from minirun.gpu.drivers import PROC, proc_root
from minirun.gpu.inventory import ControlNode, Gpu, HostFile, Inventory
from minirun.gpu.nvidia.cli import catalog, ldcache, nvml

LD_SO_CACHE = "/etc/ld.so.cache"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONTAINED = "/run/nvidia/driver"
_LOCAL = "/usr/local/nvidia"
_LOCAL_FOLDERS = (f"{_LOCAL}/lib64", f"{_LOCAL}/lib")
MACHINE = os.uname().machine
_read: "dict[tuple[int, ...], list[ldcache.Entry]]" = {}
"""The loader's cache that was read last, by what tells one file from another."""


def inventory(
    root: str = "",
    cache: str = LD_SO_CACHE,
    *,
    strict: bool = False,
    user: "tuple[int, int]" = (nvml.NOBODY, nvml.NOBODY),
) -> Inventory:
    """Return what the driver below `root` has to give, by the loader's `cache` below it.

    `user` is the uid and gid that NVML is asked as. Raises GPUError, OSError.
    """
    root = driverroot.check(root)
    if strict:
        cuda, gpus = nvml.query(root, _nvml_path(root, cache) if root else "", user)
        driver = kernel_version(root)
    else:
        driver = kernel_version(root)
        cuda, gpus = _gpus(root, cache)
    majors = _majors(root)
    libraries, libraries32 = _libraries(root, cache, driver)
    if not libraries:
        hint = "driver and libraries were installed from different releases, or run ldconfig"
        why = f"no library of driver {driver} in ld.so.cache: {hint}"
        events.emit("note", "driver libraries absent", {"driver": driver}, why=why)
    folder = catalog.firmware_folder(driver)
    return Inventory(
        driver=driver,
        cuda=cuda,
        root=root,
        gpus=gpus,
        libraries=libraries,
        libraries32=libraries32,
        binaries=_binaries(root),
        firmware=tuple(HostFile(f"{folder}/{name}") for name in _firmware(root, folder)),
        sockets=_sockets(root),
        nodes=_nodes(root, majors),
        major=majors.get("nvidia", catalog.NVIDIA),
        caps_major=majors.get("nvidia-caps", 0),
        simulated=False,
        imex_major=majors.get(catalog.IMEX, 0),
    )


def driver_root(cache: str = LD_SO_CACHE) -> str:
    """Return where the driver is installed: "" for the host's own root, and where nobody knows."""
    if not _nvml_path("", cache) and not _local("") and _nvml_path(_CONTAINED, LD_SO_CACHE):
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
        if word.replace(".", "").isdigit() and "." in word:
            return word
    raise GPUError(f"{base}{path}: no driver version in its first line", hint)


def _gpus(root: str, cache: str) -> "tuple[str, tuple[Gpu, ...]]":
    """Return (CUDA version, GPUs): by NVML, or by /proc where that fails. Raises GPUError."""
    library = _nvml_path(root, cache) or _local_library(root, "libnvidia-ml.so.1")
    try:
        return nvml.query(root, library)
    except GPUError as failed:
        error = failed
    gpus = proc_gpus(root)
    if not gpus:
        raise error
    why = "by the kernel module's own list instead; brand and architecture stay unknown"
    events.emit("note", "nvml not used", {"error": str(error), "gpus": len(gpus)}, why=why)
    return "", gpus


def proc_gpus(root: str = "") -> "tuple[Gpu, ...]":
    """Return the GPUs of /proc/driver/nvidia/gpus, in the order of their bus ids."""
    found: "list[Gpu]" = []
    base, folder = proc_root(root), f"{PROC}/gpus"
    for name in driverroot.names(base, folder):
        facts = {}
        text = driverroot.read(base, f"{folder}/{name}/information").decode(errors="replace")
        for line in text.splitlines():
            key, _, value = line.partition(":")
            facts[key.strip()] = value.strip()
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


def _cached(root: str, cache: str) -> "list[ldcache.Entry]":
    """Return the libraries of the loader's cache, read once; none where there is no cache."""
    try:
        status = driverroot.status(root, cache)
        if status is None:
            return []
        key = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
        if key not in _read:
            _read.clear()
            _read[key] = ldcache.parse(driverroot.read(root, cache))
        return _read[key]
    except FileNotFoundError:
        return []


def _nvml_path(root: str, cache: str) -> str:
    """Return where libnvidia-ml lies below `root`; empty where the cache does not know it."""
    wide = ldcache.WIDE[MACHINE]
    for entry in _cached(root, cache):
        if entry.soname == "libnvidia-ml.so.1" and entry.arch in wide:
            return entry.path
    return ""


def _libraries(
    root: str, cache: str, driver: str
) -> "tuple[tuple[HostFile, ...], tuple[HostFile, ...]]":
    """Return the driver's 64-bit and 32-bit libraries in the catalogue's order."""
    entries = _cached(root, cache)
    found: "list[tuple[HostFile, ...]]" = []
    for architectures in (ldcache.WIDE[MACHINE], ldcache.NARROW[MACHINE]):
        fitting = [entry for entry in entries if entry.arch in architectures]
        found.append(tuple(_find(root, driver, fitting)))
    return found[0] or _find_local(root, driver), found[1]


def _find(root: str, driver: str, entries: "list[ldcache.Entry]") -> "list[HostFile]":
    """Return one file for each library of the catalogue that has one of this driver."""
    files = []
    for name, needs in catalog.LIBRARIES:
        for entry in entries:
            if not entry.soname.startswith(name):
                continue
            real = driverroot.real(root, entry.path)
            if real.endswith(f".{driver}"):
                files.append(HostFile(real, needs))
                break
    return files


def _find_local(root: str, driver: str) -> "tuple[HostFile, ...]":
    """Return the driver's libraries in /usr/local/nvidia, which ld.so.cache need not know."""
    return tuple(
        HostFile(path, needs)
        for name, needs in catalog.LIBRARIES
        if (path := _local_library(root, f"{name}.{driver}"))
    )


def _local_library(root: str, name: str) -> str:
    """Return the path of a library in /usr/local/nvidia, below the root; "" where it is not."""
    paths = (f"{folder}/{name}" for folder in _LOCAL_FOLDERS)
    return next((path for path in paths if driverroot.exists(root, path)), "")


def _local(root: str) -> bool:
    return bool(_local_library(root, "libnvidia-ml.so.1"))


def _binaries(root: str) -> "tuple[HostFile, ...]":
    found = []
    for name, needs in catalog.BINARIES:
        for folder in (*os.environ.get("PATH", _PATH).split(":"), f"{_LOCAL}/bin"):
            if folder.startswith("/") and _is_program(root, f"{folder}/{name}"):
                found.append(HostFile(f"{folder}/{name}", needs))
                break
    return tuple(found)


def _is_program(root: str, path: str) -> bool:
    found = driverroot.status(root, path)
    return found is not None and stat.S_ISREG(found.st_mode) and bool(found.st_mode & 0o111)


def _firmware(root: str, folder: str) -> "list[str]":
    return sorted(
        name
        for name in driverroot.names(root, folder)
        if name.startswith("gsp") and name.endswith(".bin")
    )


def _sockets(root: str) -> "tuple[HostFile, ...]":
    pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", catalog.MPS_PIPES)
    wanted = (*catalog.SOCKETS, (pipes, catalog.MPS_NEEDS))
    return tuple(HostFile(path, needs) for path, needs in wanted if driverroot.exists(root, path))


def _nodes(root: str, majors: "dict[str, int]") -> "tuple[ControlNode, ...]":
    """Return the control nodes that are there; the log says which one is missing.

    Their numbers are the kernel's: a node says what it likes. What is no driver's is missing.
    """
    majors = {"nvidia": catalog.NVIDIA, **majors}
    found = []
    for path, driver, minor, needs in catalog.NODES:
        status = driverroot.status(root, path, os.O_NOFOLLOW)
        if status is None or driver not in majors:
            why = "the real nvidia-container-cli passes over this in silence"
            events.emit("note", "node absent", {"path": path}, why=why)
            continue
        if stat.S_ISCHR(status.st_mode):
            found.append(ControlNode(path, majors[driver], minor, needs))
    return tuple(found)


def _majors(root: str) -> "dict[str, int]":
    """Return name → major of the kernel's character devices: /proc/devices."""
    majors: "dict[str, int]" = {}
    path = "/proc/devices"  # the kernel's, whatever the root, where that has no /proc
    text = driverroot.read(root if driverroot.exists(root, path) else "", path).decode()
    for line in text.splitlines():
        number, _, name = line.strip().partition(" ")
        if line.startswith("Block"):
            break
        if number.isdigit():
            majors["nvidia" if name == "nvidia-frontend" else name] = int(number)
    return majors
