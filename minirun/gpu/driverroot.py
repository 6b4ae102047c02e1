"""The driver root: a folder of the host's, and files below it that no link leads out of.

From a driver root come libraries that root loads, nodes and mounts' sources. So it has to be as
trustworthy as "/" itself: root's (or the caller's own, who has no more rights than that), with no
folder above it in which another user could exchange it, and not below a place in which containers
or images lie, since those choose their own files. In a folder with the sticky bit, as /tmp, no
user can exchange what is another's: unlink(2), EPERM.

Below it every look-up is made with RESOLVE_IN_ROOT (minirun.core.rootfs.inroot): a driver that is
installed elsewhere has absolute links, and they mean its own root, as with chroot(2). The root ""
is the host's own.
"""

import os
import stat

from minirun.core import places
from minirun.core.errors import GPUError
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import unprivileged

STORES = (
    "/var/lib/containers", "/run/containers", "/run/libpod", "/run/crio",
    "/var/lib/docker", "/run/docker", "/var/lib/containerd", "/run/containerd",
    "/var/lib/buildkit", "/run/buildkit", "/var/lib/kubelet", "/var/lib/rancher", "/run/k3s",
    "/var/lib/lxc", "/var/lib/machines", f"{places.STORE}/{places.IMAGES}", places.ROOT,
)  # fmt: skip
"""Where engines keep images and containers, unless they are told another place."""
MARKS = (
    "storage.lock", "io.containerd.metadata.v1.bolt", "engine-id", "image/overlay2",
    "buildkitd.lock", "image.json", places.NEW,
)  # fmt: skip
"""What lies in such a place: of podman and CRI-O, containerd, docker, buildkit; in the directory of
an image of minirun's; in a state root of minirun's."""
PROC = "/proc/driver/nvidia"
"""Where NVIDIA's kernel module speaks."""
_OVERFLOW = 65534
"""Whom a file belongs to that is of no user of this user namespace: user_namespaces(7)."""
_LIMIT = 64 << 20
_HINT = "a folder of root's, such as /run/nvidia/driver, that no other user may write to"


def check(root: str) -> str:
    """Return where the driver root really is: "" for the host's own. Raises GPUError.

    Refused is one that another user than root and the caller could change, and one among the files
    of a container or an image.
    """
    path = os.path.realpath(root) if root.strip("/") else "/"
    if path == "/":
        return ""
    if not os.path.isdir(path):
        raise GPUError(f"driver root {root}: no such directory", _HINT)
    owners = {0, os.geteuid()}
    if os.geteuid() == 0 and unprivileged():
        owners.add(_OVERFLOW)  # the host's root cannot be told from others in here
    above = ["/"]
    for name in path[1:].split("/"):
        above.append(f"{above[-1].rstrip('/')}/{name}")
    for place in above:
        if fault := _fault(place, owners, last=place == path):
            raise GPUError(f"driver root {root}: {fault}", _HINT)
    return path


def _fault(place: str, owners: "set[int]", *, last: bool) -> str:
    """Say what is wrong with a folder on the way to the driver root; "" for nothing."""
    status = os.lstat(place)
    if status.st_uid not in owners:
        return f"{place} belongs to user {status.st_uid}"
    if status.st_mode & 0o022 and (last or not status.st_mode & stat.S_ISVTX):
        return f"{place} may be changed by others, its mode is {stat.S_IMODE(status.st_mode):o}"
    store = place in map(os.path.realpath, STORES)
    mark = next((name for name in MARKS if os.path.lexists(f"{place}/{name}")), "")
    return f"{place} holds containers or images" if store or mark else ""


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


def status(root: str, path: str, flags: int = 0) -> "os.stat_result | None":
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


def names(root: str, path: str) -> "list[str]":
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
            raise OSError(22, "not a regular file", root + path)
        chunks = bytearray()
        while len(chunks) < _LIMIT and (chunk := os.read(fd, 1 << 16)):
            chunks += chunk
        return bytes(chunks)
    finally:
        os.close(fd)


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
        return held.link_target(path)
    finally:
        held.close()


def real(root: str, path: str) -> str:
    """Return the path below the root at which `path` ends when all links are followed.

    `path` itself where nothing is there.
    """
    if not root:
        return os.path.realpath(path)
    try:
        fd = open_file(root, path)
    except OSError:
        return path
    try:
        return os.readlink(f"/proc/self/fd/{fd}").removeprefix(os.path.realpath(root))
    finally:
        os.close(fd)


# --- NVIDIA's kernel module ----------------------------------------------------------------------


def proc_root(root: str) -> str:
    """Return below which root the kernel module's PROC is: the driver's, or "" if it has none."""
    return root if root and exists(root, PROC) else ""


def character_majors(root: str = "", proc: str = "/proc") -> "dict[str, int]":
    """Return name → major of the kernel's character devices: /proc/devices. Raises OSError.

    That is the kernel's, whatever the driver root, if that has no /proc. Drivers of today and of
    old are both called nvidia.
    """
    majors: "dict[str, int]" = {}
    path = f"{proc}/devices"
    text = read(root if exists(root, path) else "", path).decode()
    for line in text.partition("Block devices:")[0].splitlines():
        number, _, name = line.strip().partition(" ")
        if number.isdigit():
            majors["nvidia" if name == "nvidia-frontend" else name] = int(number)
    return majors


def is_loaded(root: str = "") -> bool:
    """Tell whether NVIDIA's kernel module is loaded."""
    return exists(proc_root(root), f"{PROC}/version")
