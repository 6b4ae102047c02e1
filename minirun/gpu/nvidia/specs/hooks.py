"""The hooks of a CDI spec: changes in a container that config.json cannot express.

    create-symlinks                    links beside the libraries, and below /dev/dri/by-path
    update-ldcache                     SONAME links and /etc/ld.so.cache, by the host's ldconfig;
                                       in Alpine the file that musl's loader reads
    enable-cuda-compat                 let ldconfig find the image's newer CUDA libraries
    disable-device-node-modification   tell the driver not to make device nodes in the container
    update-application-profile         tell EGL and Vulkan which GPUs are to be seen
    chmod                              open the folders of nested nodes (off by default)
    show-simulated-driver              /proc/driver of the simulated driver; minirun's own

Engines call them as createContainer hooks: in the container's namespaces, before pivot_root. At
that moment both trees can be seen, and the image is hostile: everything here is resolved below the
container's root, and nothing is made among the host's files there (minirun.core.rootfs.own_root).

ldconfig reads the files of /etc/ld.so.conf.d by their names: 00-compat-*, of enable-cuda-compat,
before 00-nvcr-*, which names the driver's folders, before the image's own, before zz-nvcr-*, which
names the image's standard folders. An ldconfig that the container runs later finds the same.

Simplified: enable-cuda-compat compares driver versions, not the CUDA version in an ELF header;
update-ldcache leaves out only standard folders, not what the image's files name as well.
"""

from __future__ import annotations

import os
import stat
import zlib

from minirun.core.errors import MinirunError
from minirun.core.keeping.numbers import whole
from minirun.core.kernel import files, mounts
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.operations import Bind, attach
from minirun.core.rootfs.own_root import OwnRoot, has
from minirun.gpu import ldconfig
from minirun.gpu.driverroot import PROC, link_target
from minirun.gpu.nvidia.cli import musl
from minirun.gpu.target import Target

_ASKED, _ANSWER = b"ModifyDeviceFiles: 1", b"ModifyDeviceFiles: 0"
_PARAMS_LIMIT = 1 << 16
_ATTRIBUTES = (
    mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV
    | mounts.MOUNT_ATTR_NOEXEC
)  # fmt: skip
_CUDA = "libcuda.so."
_DROP_INS = "/etc/ld.so.conf.d"
_PROFILE = "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"
_RULES = (
    '{"profiles":[{"name":"_container_","settings":["EGLVisibleDGPUDevices",0x%x]}],'
    '"rules":[{"pattern":[],"profile":"_container_"}]}'
)
_MOST_MINORS = 64
"""The profile's mask has so many bits."""


def make_link(root: OwnRoot, target: str, path: str) -> None:
    """Make the link `path`, in place of another link or file of that name. Raises OSError.

    What it leads to is the container's business: it is made, not followed. Of the host's files that
    are mounted there none is replaced; MinirunError if the link would be a new one among them.
    """
    if link_target(root, path) == target or _is_hosts(root, path):
        return
    parent, name = _vacant(root, path)
    try:
        files.symlinkat(target, parent, name, shown=path)
    finally:
        os.close(parent)


def _is_hosts(root: OwnRoot, path: str) -> bool:
    """Return True if a file of the host, or a link, is mounted with its folder at `path`."""
    try:
        fd = root.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return False
    mount = root.of_host(fd)
    os.close(fd)
    return mount is not None


def _vacant(root: Root, path: str) -> tuple[int, str]:
    """Make room for `path`; return (descriptor of its folder, its name). Raises OSError."""
    parent, name = root.make_parent(path)
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError:
        os.close(parent)
        raise
    return parent, name


def update_cache(root: OwnRoot, folders: tuple[str, ...], program: str) -> None:
    """Make SONAME links and /etc/ld.so.cache with the host's ldconfig. Raises GPUError, OSError.

    The folders stand in files of the image, as the real hook writes them since 1.16: those on the
    command line would be read before the files. An image without /etc/ld.so.conf gets one.
    """
    fd = ldconfig.open_host(f"@{program.removeprefix('@')}")
    if fd < 0:
        raise MinirunError(f"nvidia-cdi-hook: there is no {program} on this host", "", 1)
    ldconfig.check(root)
    if not has(root, "/etc/ld.so.conf"):
        write_new(root, "/etc/ld.so.conf", f"include {_DROP_INS}/*.conf\n".encode(), 0o644)
    standard = _standard_folders(root)
    own = tuple(path for path in folders if path not in standard)
    _name_folders(root, "00-nvcr", own)
    _name_folders(root, "zz-nvcr", standard)
    if musl.is_alpine(root):
        _name_to_musl(root, (*own, *standard))
    ldconfig.run(Target(root, "/", fd), f"@{program}", ())


def _standard_folders(root: Root) -> tuple[str, ...]:
    """Return the folders that the image's own loader looks through: ld.so(8)."""
    if has(root, "/etc/debian_version"):
        folder = f"lib/{NATIVE.triplet}"
        return f"/{folder}", f"/usr/{folder}", "/lib", "/usr/lib"
    wide = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
    return (*wide, "/libx32", "/usr/libx32") if NATIVE.machine == "x86_64" else wide


def _name_to_musl(root: Root, folders: tuple[str, ...]) -> None:
    """Name folders to the loader of musl, which reads no cache, each once. Raises OSError.

    Its file replaces the folders that are built in, of which one is not the driver's business:
    /usr/local/lib, where Alpine images of Python and others have their libraries.
    """
    path = f"/etc/ld-musl-{NATIVE.musl}.path"
    try:
        text = root.read(path, _PARAMS_LIMIT).decode(errors="surrogateescape")
    except FileNotFoundError:
        text = ""
        folders = (*folders, "/usr/local/lib")
    there = text.replace(":", "\n").split("\n")
    more = "".join(f"{folder}\n" for folder in folders if folder not in there)
    text += "\n" * (bool(more) and text[-1:] not in ("", "\n")) + more
    write_new(root, path, text.encode(errors="surrogateescape"), 0o644)


def _name_folders(root: Root, name: str, folders: tuple[str, ...]) -> None:
    """Write a file into /etc/ld.so.conf.d; the same folders give the same file. Raises OSError."""
    if folders:
        data = "".join(f"{path}\n" for path in folders).encode()
        write_new(root, f"{_DROP_INS}/{name}-{zlib.crc32(data):08x}.conf", data, 0o644)


def pin_device_nodes(root: Root) -> None:
    """Hide the driver's params behind a copy that says ModifyDeviceFiles: 0. Raises OSError.

    Else the driver's libraries would make nodes in the container by nvidia-modprobe. The copy lies
    on a tmpfs that is hung up only as long as it takes to bind the one file of it.
    """
    path = f"{PROC}/params"
    try:
        data = root.read(path, _PARAMS_LIMIT, pseudo=True)
    except FileNotFoundError:
        return
    lines = data.split(b"\n")
    if _ASKED not in lines:
        return
    tree = _bind_of(root, b"\n".join(_ANSWER if line == _ASKED else line for line in lines))
    try:
        mounts.mount_setattr(tree, _ATTRIBUTES, shown=path)
        attach(root, tree, path)
    finally:
        os.close(tree)


def show_driver(root: Root, source: str) -> None:
    """Bind the simulated driver's /proc/driver, as config.json cannot: runc. Raises OSError."""
    Bind(source, "/proc/driver", _ATTRIBUTES, why="SIMULATED: no kernel module shows it").execute(
        root
    )


def _bind_of(root: Root, data: bytes) -> int:
    """Return a detached mount of a file, on a tmpfs of its own, that holds `data`."""
    below = root.make_dir(PROC)
    try:
        flags = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
        mounts.mount("tmpfs", f"/proc/self/fd/{below}", "tmpfs", flags, "mode=555", shown=PROC)
    finally:
        os.close(below)
    cover = root.open(PROC, os.O_PATH | os.O_DIRECTORY)
    try:
        kind = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open("params", kind, 0o444, dir_fd=cover)
        try:
            os.write(fd, data)
            os.fchmod(fd, stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
            how = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
            return mounts.open_tree(fd, "", how, shown=f"{PROC}/params")
        finally:
            os.close(fd)
    finally:
        mounts.umount2(f"/proc/self/fd/{cover}", mounts.MNT_DETACH)
        os.close(cover)


def enable_compat(root: Root, driver: str, folder: str) -> None:
    """Let ldconfig find the image's CUDA libraries, where they are for a newer driver.

    A folder with several drivers' is left alone. Raises OSError.
    """
    major = whole(driver.partition(".")[0])
    found = [name for name in _regular_files(root, folder) if name.startswith(_CUDA)]
    versions = [name.removeprefix(_CUDA) for name in found]
    numbers = [whole(text.partition(".")[0]) for text in versions if "." in text]
    if len(numbers) != 1 or numbers[0] is None or major is None or numbers[0] <= major:
        return
    write_new(root, f"{_DROP_INS}/00-compat-{os.getpid()}.conf", f"{folder}\n".encode(), 0o644)


def _regular_files(root: Root, folder: str) -> list[str]:
    """Return the names of the regular files in a folder of the image; none where it has none."""
    try:
        fd = root.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return []
    try:
        with os.scandir(fd) as rows:
            return sorted(row.name for row in rows if row.is_file(follow_symlinks=False))
    finally:
        os.close(fd)


def write_new(root: Root, path: str, data: bytes, mode: int) -> None:
    """Write a file of the container anew, in place of another of that name. Raises OSError."""
    parent, name = _vacant(root, path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, mode, dir_fd=parent)
    finally:
        os.close(parent)
    try:
        os.write(fd, data)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def update_profile(root: Root) -> None:
    """Write an application profile that shows EGL and Vulkan the GPUs of /dev. Raises OSError."""
    mask = 0
    for minor in _gpu_minors(root):
        mask |= 1 << minor if minor < _MOST_MINORS else 0
    if mask:
        write_new(root, _PROFILE, (_RULES % mask).encode(), 0o444)


def _gpu_minors(root: Root) -> list[int]:
    """Return the minors of the container's /dev/nvidiaN."""
    try:
        fd = root.open("/dev", os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return []
    try:
        names = [name for name in os.listdir(fd) if whole(name.removeprefix("nvidia")) is not None]
        nodes = [os.stat(name, dir_fd=fd, follow_symlinks=False) for name in names]
    finally:
        os.close(fd)
    return [os.minor(node.st_rdev) for node in nodes if stat.S_ISCHR(node.st_mode)]


def chmod(root: OwnRoot, paths: tuple[str, ...], mode: int) -> None:
    """Give folders of the container a mode; those that it lacks are left out. Raises OSError.

    The host's own, such as its /dev mounted there, keep theirs.
    """
    for path in paths:
        try:
            fd = root.open(path)
        except FileNotFoundError:
            continue
        try:
            if not root.of_host(fd):
                os.chmod(f"/proc/self/fd/{fd}", mode)
        except PermissionError:
            pass  # a file system that knows no modes: as in the real program
        finally:
            os.close(fd)
