"""CUDA forward compatibility: libcuda and its like that an image brings for a driver that is older.

An image of NVIDIA's has them in /usr/local/cuda/compat. In `mount` mode nvidia-container-cli binds
each whose major version is not the driver's beside the driver's own; in `ldconfig` mode it only
lets ldconfig find the folder, where they are newer; `disabled` (or --no-cntlibs) leaves them alone.

It is the one thing of an image that becomes a mount's source, and what the real one fell to
(CVE-2024-0132, CVE-2025-23359: a path of the image was checked and then opened again). Here each
file is opened once, inside the container's root, with RESOLVE_NO_XDEV: a descriptor can then only
be of the image's own file system, never of /proc, of a volume or of the host; it must be a regular
file; and this descriptor is what is mounted. So the container gets nothing that it did not have.
"""

from __future__ import annotations

import os
import stat

from minirun.core import events
from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import RESOLVE, Root
from minirun.gpu.apply import resolve
from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.steps import CompatLibrary

FOLDER = "/usr/local/cuda/compat"
MODES = ("mount", "ldconfig", "disabled")
_MOST = 64
"""Names in the folder that are looked at: an image may hold a million."""


class CompatFile(Record):
    """A compatibility library of the image: its name, and a descriptor of it."""

    name: str
    fd: int
    source: str

    @property
    def major(self) -> str:
        """Return 560 for libcuda.so.560.35.05."""
        return self.name.partition(".so.")[2].partition(".")[0]


def open_libraries(root: Root, request: NvidiaRequest) -> tuple[CompatFile, ...]:
    """Open the compatibility libraries of the image, each once, in the order of their names.

    There are none if the request has nothing to do with them. Raises GPUError for a link out of
    the root.
    """
    if request.no_cntlibs or request.cuda_compat_mode == "disabled":
        return ()
    try:
        folder = root.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return ()
    try:
        names = sorted(n for n in os.listdir(folder) if n.startswith("lib") and ".so." in n)
    finally:
        os.close(folder)
    found: dict[tuple[int, int], CompatFile] = {}
    for name in names[:_MOST]:
        path = f"{FOLDER}/{name}"
        if resolve(root, path, {})[1]:
            raise GPUError(
                f"container error: path error: {path} resolves outside of {request.rootfs}"
            )
        library = _open(root, path)
        if library is None:
            continue
        status = os.fstat(library.fd)
        if found.setdefault((status.st_dev, status.st_ino), library) is not library:
            os.close(library.fd)
    return tuple(found.values())


def _open(root: Root, path: str) -> CompatFile | None:
    """Open one; None, with a note, for what is no regular file of the image's own file system."""
    try:
        flags = RESOLVE | files.RESOLVE_NO_XDEV
        fd = files.openat2(root.fd, path.lstrip("/"), os.O_PATH, flags)
    except OSError as error:
        events.emit("note", "compat library refused", {"path": path, "error": str(error)})
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        events.emit("note", "compat library refused", {"path": path, "error": "no regular file"})
        return None
    source = os.readlink(f"/proc/self/fd/{fd}")
    return CompatFile(source.rpartition("/")[2], fd, source)


def plan(
    found: tuple[CompatFile, ...], request: NvidiaRequest, driver: str, folder: str
) -> tuple[tuple[CompatLibrary, ...], tuple[str, ...]]:
    """Return (what is mounted into `folder`, folders that ldconfig looks through as well)."""
    majors = driver.partition(".")[0]
    fitting = [library for library in found if library.major != majors and _known(library.name)]
    if request.cuda_compat_mode != "ldconfig":
        steps = [CompatLibrary(lib.fd, lib.source, f"{folder}/{lib.name}") for lib in fitting]
        return tuple(steps), ()
    own = whole(majors)
    newer = own is not None and any((whole(lib.major) or 0) > own for lib in fitting)
    return (), (FOLDER,) if newer else ()


def _known(name: str) -> bool:
    """Tell whether the catalogue has this library among those of the compute capability."""
    return any(
        name.startswith(f"{library}.") and "compute" in needs.split()
        for library, needs in catalog.LIBRARIES
    )
