"""WSL2: NVIDIA's driver is that of Windows, behind one device node, /dev/dxg.

There is no kernel module of NVIDIA's, no /proc/driver/nvidia and no node for each GPU: a process
that may open /dev/dxg has them all. Windows mounts libraries at /usr/lib/wsl/lib, and its driver
store at /usr/lib/wsl/drivers. Which folder of the store holds this GPU's files only Microsoft's
library libdxcore tells. A container gets the libraries as usual, and the store at the same place,
where the libraries look for it. The same is in libnvidia-container (dxcore.c) and nvidia-ctk
(driver-wsl.go).

Simplified: the first adapter with files of NVIDIA's counts for all, as there.
"""

from __future__ import annotations

import os
from ctypes import (
    CDLL,
    Structure,
    addressof,
    byref,
    c_int,
    c_uint32,
    c_uint64,
    c_void_p,
    c_wchar,
    create_string_buffer,
    sizeof,
)

from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import GPUError
from minirun.core.kernel.architecture import NARROW, NATIVE, Architecture
from minirun.gpu import driverroot
from minirun.gpu.driverroot import DXG
from minirun.gpu.inventory import ControlNode, HostFile, Inventory
from minirun.gpu.nvidia.shared import catalog, nvml
from minirun.gpu.nvidia.shared.find import Finder, real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STORE_FILES = (
    "libcuda.so.1.1", "libcuda_loader.so", "libnvidia-ptxjitcompiler.so.1", "libnvidia-ml.so.1",
    "libnvidia-ml_loader.so", "libnvdxgdmal.so.1", "nvcubins.bin", "nvidia-smi",
)  # fmt: skip
"""What a container needs of the driver store."""
_OLDEST = 2700
"""The first version of the Windows display driver model that serves Linux."""
_VERSION, _REGISTRY, _STORE_PATH, _LONGEST = 13, 48, 2, 260 * 4


class _Adapter(Structure):
    """D3DKMT_ADAPTERINFO."""

    _fields_ = (
        ("handle", c_uint32), ("luid", c_uint32 * 2), ("sources", c_uint32), ("flag", c_uint32),
    )  # fmt: skip


class _Adapters(Structure):
    """D3DKMT_ENUMADAPTERS2."""

    _fields_ = (("count", c_uint32), ("rows", c_void_p))


class _Query(Structure):
    """D3DKMT_QUERYADAPTERINFO."""

    _fields_ = (("adapter", c_uint32), ("kind", c_int), ("data", c_void_p), ("size", c_uint32))


class _Registry(Structure):
    """D3DDDI_QUERYREGISTRY_INFO; a character of Windows' has four bytes here."""

    _fields_ = (
        ("kind", c_uint32), ("flags", c_uint32), ("name", c_wchar * 260), ("value", c_uint32),
        ("adapter", c_uint32), ("size", c_uint32), ("status", c_uint32), ("output", c_uint64),
    )  # fmt: skip


def stores() -> list[str]:
    """Return the folders of the driver store, one for each adapter. Raises GPUError."""
    return list(nvml.ask(lambda: CDLL("libdxcore.so"), _stores)["stores"])


def store(found: list[str]) -> str:
    """Return the folder of NVIDIA's driver; "" if none is. The others are of other makers."""
    has = (path for path in found if driverroot.exists("", f"{path}/{STORE_FILES[0]}"))
    return next(has, "")


def inventory(cache: str, user: tuple[int, int]) -> Inventory:
    """Return what the driver has to give, by the loader's `cache`. Raises GPUError, OSError."""
    folder = store(stores())
    if not folder:
        hint = "nvidia-smi.exe on Windows says whether its driver works; wsl --update"
        raise GPUError("initialization error: no NVIDIA adapter behind /dev/dxg", hint)
    cuda, gpus, driver = nvml.query("", f"{folder}/{STORE_FILES[3]}", user, is_wsl=True)
    finder = Finder(cache=cache)
    device = os.stat(DXG).st_rdev
    there = [path for name in STORE_FILES if os.path.exists(path := f"{folder}/{name}")]
    needs = dict(catalog.BINARIES)
    folders = (folder, *os.environ.get("PATH", DEFAULT_PATH).split(":"))
    programs = finder.files(tuple(needs), folders, first=True)
    binaries = [HostFile(real("", path), needs[path.rpartition("/")[2]]) for path in programs]
    return Inventory(
        driver=driver, cuda=cuda, root="", gpus=gpus,
        libraries=_libraries(finder, NATIVE), libraries32=_libraries(finder, NARROW),
        binaries=tuple(binaries), firmware=(), sockets=(),
        nodes=(ControlNode(DXG, os.major(device), os.minor(device)),), major=0, caps_major=0,
        simulated=False, store=tuple(map(HostFile, there)),
    )  # fmt: skip


def _libraries(finder: Finder, made_for: Architecture | None) -> tuple[HostFile, ...]:
    """Return a file for each library, whatever its version; those of Windows count first."""
    entries, files = finder.cached(made_for), []
    for name, needs in (*catalog.LIBRARIES, ("libdxcore.so", "")):
        chosen = ""
        for entry in entries:
            if entry.soname.startswith(name) and "/wsl/lib/" not in chosen:
                chosen = real("", entry.path)
        files += [HostFile(chosen, needs)] if chosen else []
    return tuple(files)


# --- libdxcore, in a child ---------------------------------------------------------------------


def _stores(library: Any) -> dict[str, Any]:
    """Return the driver store's folder of each adapter: D3DKMTEnumAdapters2."""
    asked = _Adapters()
    if library.D3DKMTEnumAdapters2(byref(asked)):
        return {"stores": []}
    rows = (_Adapter * asked.count)()
    asked.rows = addressof(rows)
    if library.D3DKMTEnumAdapters2(byref(asked)):
        return {"stores": []}
    return {"stores": [path for row in rows if (path := _store_of(library, row.handle))]}


def _store_of(library: Any, adapter: int) -> str:
    """Return the folder of one adapter; "" for one that does not serve Linux."""
    version, head = c_uint32(), _Registry(kind=_STORE_PATH)
    if _fails(library, adapter, _VERSION, version) or version.value < _OLDEST:
        return ""
    if _fails(library, adapter, _REGISTRY, head) or head.size > _LONGEST:
        return ""
    buffer = create_string_buffer(sizeof(_Registry) + head.size)
    whole = _Registry.from_buffer(buffer)
    whole.kind, whole.size = _STORE_PATH, head.size
    if _fails(library, adapter, _REGISTRY, buffer):
        return ""
    start = _Registry.output.offset
    path = buffer.raw[start : start + head.size].decode("utf-32-le").partition("\0")[0]
    return path if os.path.isdir(path) else ""


def _fails(library: Any, adapter: int, kind: int, data: Any) -> bool:
    """Call D3DKMTQueryAdapterInfo, which fills `data`."""
    return bool(
        library.D3DKMTQueryAdapterInfo(byref(_Query(adapter, kind, addressof(data), sizeof(data))))
    )
