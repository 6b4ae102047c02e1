"""What the three discoveries share: a driver's devices in sysfs, and their nodes in /dev."""

from __future__ import annotations

import os
import stat

from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.gpu import driverroot
from minirun.gpu.steps import DeviceNode


def pci_addresses(root: str, folder: str) -> list[str]:
    """Return the PCI devices of a driver: the names like 0000:03:00.0 in its folder of sysfs."""
    found = driverroot.names(root, folder)
    return [name for name in found if name.count(":") == 2 and "." in name]


def uid(address: str, device: str) -> str:
    """Return what Intel's resource drivers call a device: 0000-03-00-0-0x56a0."""
    return f"{address.replace(':', '-').replace('.', '-')}-{device}"


def node(root: str, folder: str, path: str) -> DeviceNode:
    """Return a node: its number as `folder` of sysfs has it, its owner and mode as /dev has it.

    Raises GPUError where sysfs does not know the number, or another file has the node's name.
    """
    first, _, second = driverroot.word(root, f"{folder}/dev").partition(":")
    major, minor = whole(first), whole(second)
    if major is None or minor is None:
        hint = "the driver is loaded, sysfs has no number for it"
        raise GPUError(f"{root}{path}: no such device", hint)
    numbers = (major, minor)
    status = driverroot.status(root, path, os.O_NOFOLLOW)
    if status is None:  # udev made none: it can be listed
        return DeviceNode(path, "c", *numbers, 0o660, host_path=root + path)
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != os.makedev(*numbers):
        hint = f"it should be the character device {major}:{minor}"
        raise GPUError(f"{root}{path}: invalid device node", hint)
    mode = status.st_mode & 0o777
    return DeviceNode(
        path, "c", *numbers, mode, status.st_uid, status.st_gid, host_path=root + path
    )


def number(name: str, kind: str) -> int | None:
    """Return N of a device that is called KIND and N, as card0; None for another name."""
    return whole(name.removeprefix(kind)) if name.startswith(kind) else None


def drm_nodes(root: str, device: str) -> tuple[DeviceNode, ...]:
    """Return cardN and renderDN of a device, a folder of sysfs."""
    folder = f"{device}/drm"
    return tuple(
        node(root, f"{folder}/{name}", f"/dev/dri/{name}")
        for name in driverroot.names(root, folder)
        if {number(name, "card"), number(name, "renderD")} != {None}
    )
