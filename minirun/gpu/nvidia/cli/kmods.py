"""--load-kmods: the host's own part, kernel modules and the nodes that udev does not make.

NVIDIA's driver makes no device nodes by itself and udev makes none for it. nvidia-modprobe does,
and nvidia-container-cli has its code built in: it loads nvidia, nvidia-uvm and nvidia-modeset and
makes nvidiactl, a node for each GPU on the PCI bus, the MIG keys that exist, the IMEX channels
asked for, and for each a link /dev/char/MAJOR:MINOR. Owner and mode are what the driver says in
/proc/driver/nvidia/params; with ModifyDeviceFiles: 0 there someone else takes care of nodes.

Never in a user namespace: there the driver's files would be read with the wrong eyes, and mknod is
refused anyway. Whatever fails is told in the debug log and passed over, as there; in-line (stage 5)
the log is the container's, and a module that cannot be loaded is one warning more.
"""

from __future__ import annotations

import errno
import os
import stat

from minirun.core import events
from minirun.core.config import DEFAULT_PATH
from minirun.core.keeping.record import Record
from minirun.core.kernel import files, mounts, namespaces, process
from minirun.gpu import driverroot
from minirun.gpu.driverroot import PROC
from minirun.gpu.nvidia.cli import imex, mig
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.nvidia.shared.real import character_majors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NVIDIA_VENDOR, _DISPLAY = "0x10de", ("0x03",)
_PCI = "/sys/bus/pci/devices"
_WHOLE_MAP = ["0", "0", "4294967295"]
_MODULES = {
    "nvidia": ("/dev/nvidiactl",),
    "nvidia-uvm": ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
    "nvidia-modeset": ("/dev/nvidia-modeset",),
}
"""Module → its nodes out of the catalogue's."""
_AT_FDCWD = -100


class NodePermissions(Record):
    """Who may open a node: as the driver wants it."""

    uid: int = 0
    gid: int = 0
    mode: int = 0o666
    modify: bool = True


def load(root: str, channels: tuple[str, ...], tell: Callable[[str], None]) -> tuple[str, ...]:
    """Load the modules and make the nodes below the driver root, "" for the host's own.

    A child does it, in the root. Returns the modules that could not be loaded. Raises GPUError.
    """
    wanted = imex.numbers(channels)
    if in_user_namespace():
        tell("skipping kernel modules load due to user namespace")
        return ()
    gpus = count_gpus()
    if not gpus:
        tell("failed to detect NVIDIA devices")

    def work() -> int:
        try:
            if root:
                mounts.chroot(root, why="modprobe and its modules are the driver root's")
                os.chdir("/")
            os.umask(0)
            return _modules(gpus, wanted, tell)
        except OSError as error:
            tell(f"skipping kernel modules load due to failure: {error}")
            return 0

    missing = _in_child(work, "it goes into the driver root, and ends there")
    return tuple(name for at, name in enumerate(_MODULES) if missing & 1 << at)


def _in_child(work: Callable[[], int | None], why: str) -> int:
    """Let a child do `work`, and return its exit status: what that returned; 127 if it failed."""
    pid, pidfd = namespaces.clone3(0, why=why)
    if pid == 0:
        status = 127
        try:
            events.become("cli", int(os.readlink("/proc/self")))
            status = work() or 0
        finally:
            os._exit(status)
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_user_namespace() -> bool:
    """Tell whether this is another user namespace than the host's: user_namespaces(7)."""
    for name in ("uid_map", "gid_map"):
        try:
            with open(f"/proc/self/{name}", encoding="ascii") as file:
                if file.readline().split() != _WHOLE_MAP:
                    return True
        except FileNotFoundError:
            return False
    return False


def count_gpus(root: str = "", classes: tuple[str, ...] = _DISPLAY) -> int:
    """Return how many NVIDIA controllers of these `classes` are on the PCI bus, as /sys has it."""
    found = 0
    for device in (f"{_PCI}/{name}" for name in driverroot.names(root, _PCI)):
        if driverroot.word(root, f"{device}/vendor") == _NVIDIA_VENDOR:
            found += driverroot.word(root, f"{device}/class").startswith(classes)
    return found


def _modules(gpus: int, channels: list[int], tell: Callable[[str], None]) -> int:
    """Load them, each followed by its nodes; return a bit for each that could not be loaded."""
    missing = 0
    for at, module in enumerate(_MODULES):
        if not _module(module, tell):
            missing |= 1 << at
            continue
        for path, driver, minor, access in _nodes(module, gpus, channels, tell):
            _node(path, driver, minor, _access(access), tell)
    return missing


def _nodes(
    module: str, gpus: int, channels: list[int], tell: Callable[[str], None]
) -> Iterator[tuple[str, str, int, str]]:
    """Yield (path, driver, minor, the driver's file that says who may open it) of a module."""
    params = f"{PROC}/params"
    for path, driver, minor, _ in catalog.NODES:
        if path in _MODULES[module]:
            yield path, driver, minor, params
    if module != "nvidia":
        return
    for number in range(gpus):
        yield f"/dev/nvidia{number}", "nvidia", number, params
    tell(f"running mknod for all nvcaps in {catalog.CAPS_FOLDER}")
    for key, minor in _capabilities(gpus):
        if os.path.exists(key):
            yield f"{catalog.CAPS_FOLDER}/nvidia-cap{minor}", "nvidia-caps", minor, key
    for channel in channels:
        yield imex.path(channel), catalog.IMEX, channel, params


def _capabilities(gpus: int) -> Iterator[tuple[str, int]]:
    """Yield (file of the driver, minor) of each MIG key that there could be."""
    try:
        minors = mig.minors()
    except FileNotFoundError:
        return
    for name, minor in minors.items():
        gpu, _, rest = name.partition("/")
        if not gpu.startswith("gpu"):
            yield f"{mig.CAPABILITIES}/mig/{name}", minor
        elif int(gpu[3:]) < gpus:
            yield f"{mig.CAPABILITIES}/{gpu}/mig/{rest}", minor


def _module(name: str, tell: Callable[[str], None]) -> bool:
    """Load a module, unless it is loaded: by the program that the kernel itself would call."""
    tell(f"loading kernel module {name.replace('-', '_')}")
    if os.path.isdir(f"/sys/module/{name.replace('-', '_')}"):
        return True
    program = driverroot.word("", "/proc/sys/kernel/modprobe") or "/sbin/modprobe"
    env = {"PATH": DEFAULT_PATH}
    if (
        _in_child(
            lambda: process.execve(program, [program, "-q", "--", name], env), "for a kernel module"
        )
        == 0
    ):
        return True
    tell(f"could not load kernel module {name.replace('-', '_')}")
    return False


def _access(path: str) -> NodePermissions:
    """Read DeviceFileUID, -GID, -Mode and (Modify)DeviceFile(s) of the driver's file `path`."""
    try:
        rows = driverroot.facts("", path)
    except OSError:
        rows = {}
    return NodePermissions(
        uid=int(rows.get("DeviceFileUID", "0")),
        gid=int(rows.get("DeviceFileGID", "0")),
        mode=int(rows.get("DeviceFileMode", str(0o666))),
        modify=rows.get("ModifyDeviceFiles", rows.get("DeviceFileModify", "1")) != "0",
    )


def _node(
    path: str, driver: str, minor: int, access: NodePermissions, tell: Callable[[str], None]
) -> None:
    """Make a node and its link in /dev/char; leave it alone where it is right already."""
    if not access.modify:
        return
    tell(f"running mknod for {path}")
    try:
        major = {**character_majors(), "nvidia": catalog.NVIDIA}.get(driver)
        if major is None:
            raise FileNotFoundError(errno.ENOENT, "no such driver in /proc/devices", path)
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        _make(path, os.makedev(major, minor), access)
        link = f"/dev/char/{major}:{minor}"
        os.makedirs("/dev/char", 0o755, exist_ok=True)
        if not os.path.lexists(link):
            files.symlinkat(f"../{path.removeprefix('/dev/')}", _AT_FDCWD, link)
    except OSError as error:
        tell(f"could not create kernel module device node: {error}")


def _make(path: str, device: int, access: NodePermissions) -> None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        pass
    else:
        there = (status.st_mode, status.st_rdev, status.st_uid, status.st_gid)
        if there == (stat.S_IFCHR | access.mode, device, access.uid, access.gid):
            return
        os.unlink(path)
    files.mknodat(_AT_FDCWD, path, stat.S_IFCHR | access.mode, device)
    os.chmod(path, access.mode)
    os.chown(path, access.uid, access.gid)
