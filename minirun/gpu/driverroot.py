"""The driver root: a folder of the host's, and files below it that no link leads out of.

Below it every look-up is made with RESOLVE_IN_ROOT (minirun.core.rootfs.inroot): a driver that is
installed elsewhere has absolute links, and they mean its own root, as with chroot(2). The root ""
is the host's own. Which folder may be one: minirun.gpu.trusted.
"""

from __future__ import annotations

import errno
import os
import stat

from minirun.core.rootfs.inroot import Root

PROC = "/proc/driver/nvidia"
"""Where NVIDIA's kernel module speaks."""
DXG, WSL_LIBRARIES = "/dev/dxg", "/usr/lib/wsl/lib"
"""The one node of WSL2, and where Windows mounts the libraries to it: nvidia.shared.wsl."""
_LIMIT = 64 << 20


def open_file(root: str, path: str, flags: int = os.O_PATH) -> int:
    """Open `path` below the driver root, and return a descriptor. Raises OSError."""
    if not root:
        return os.open(path, flags | os.O_CLOEXEC)
    held = Root.at(root)
    try:
        return held.open(path, flags)
    except OSError as error:
        error.filename = root + path
        raise
    finally:
        held.close()


def open_source(root: str, source: str, flags: int = os.O_PATH) -> int:
    """Open a path of the host, which is below the driver root or the kernel's. Raises OSError."""
    if root and source.startswith(f"{root}/"):
        return open_file(root, source.removeprefix(root), flags)
    return open_file("", source, flags)


def status(root: str, path: str, flags: int = 0) -> os.stat_result | None:
    """Return what `path` is; None where nothing is there. With O_NOFOLLOW a link is itself."""
    try:
        fd = open_file(root, path, os.O_PATH | flags)
    except OSError:
        return None
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def exists(root: str, path: str) -> bool:
    """Whether there is anything."""
    return status(root, path) is not None


def is_dir(root: str, path: str) -> bool:
    """Whether it is a directory."""
    found = status(root, path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def names(root: str, path: str) -> list[str]:
    """Return the names in a folder, sorted; none where it is missing."""
    try:
        fd = open_file(root, path, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


def read(root: str, path: str) -> bytes:
    """Return the content of a regular file. Raises OSError."""
    fd = open_file(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", root + path)
        chunks = bytearray()
        while len(chunks) < _LIMIT and (chunk := os.read(fd, 1 << 16)):
            chunks += chunk
        return bytes(chunks)
    finally:
        os.close(fd)


def facts(root: str, path: str) -> dict[str, str]:
    """Return what the lines `NAME: value` of a file of the driver say. Raises OSError."""
    lines = read(root, path).decode(errors="replace").splitlines()
    rows = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, colon, value in rows if colon}


def word(root: str, path: str) -> str:
    """Return the content of a small file of sysfs; "" where it is missing."""
    try:
        return read(root, path).decode(errors="replace").strip()
    except OSError:
        return ""


def link(root: str, path: str) -> str:
    """Return where the link `path` leads, as it says it; "" for anything else."""
    held = Root.at(root or "/")
    try:
        return link_target(held, path) or ""
    finally:
        held.close()


def link_target(root: Root, path: str) -> str | None:
    """Return where the link `path` leads, "" for anything else; None if nothing is there."""
    try:
        fd = root.open(path, os.O_PATH | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError:
        return ""  # a file on the way: nothing can be made there
    try:
        return os.readlink("", dir_fd=fd)
    except OSError:
        return ""
    finally:
        os.close(fd)


# --- NVIDIA's kernel module ----------------------------------------------------------------------


def proc_root(root: str) -> str:
    """Return below which root the kernel module's PROC is: the driver's, or "" if it has none."""
    return root if root and exists(root, PROC) else ""


def dev_root(root: str) -> str:
    """Return below which root the driver's nodes are: the driver's, or "" if its dev is empty."""
    return root if root and names(root, "/dev") else ""


def is_loaded(root: str = "") -> bool:
    """Tell whether NVIDIA's driver is there: its kernel module, or that of Windows."""
    return exists(proc_root(root), f"{PROC}/version") or (not root and is_wsl())


def hint_without_driver(root: str = "") -> str:
    """Return how to go on without NVIDIA's driver; "" if it is loaded."""
    if is_loaded(root):
        return ""
    return "no NVIDIA driver is loaded; MINIRUN_SIM=count=4 in the environment simulates one"


def is_wsl() -> bool:
    """Tell whether this is WSL2 with NVIDIA's driver on Windows."""
    return os.path.exists(DXG) and os.path.exists(f"{WSL_LIBRARIES}/libnvidia-ml.so.1")
