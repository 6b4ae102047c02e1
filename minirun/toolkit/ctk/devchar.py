"""nvidia-ctk system create-dev-char-symlinks: /dev/char/MAJOR:MINOR → /dev/nvidia…; and the nodes.

runc and systemd, told to allow `c 195:0`, look for /dev/char/195:0 to learn what to write into a
unit's DeviceAllow. NVIDIA's nodes are not made by udev, so the links are missing, and at the next
`systemctl daemon-reload` systemd writes rules without the GPUs: "Failed to initialize NVML: Unknown
Error" in a container that worked. The links are the cure (the toolkit's issue 48).
"""

from __future__ import annotations

import os
import stat

from minirun.core.errors import GPUError
from minirun.gpu.nvidia.cli import mig
from minirun.gpu.nvidia.cli.kmods import count_gpus
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.gpu.nvidia.shared.real import character_majors

_GPU = ("0x0300", "0x0302")
"""Classes of PCI devices that nvidia-ctk counts; nvidia-modprobe takes every display controller."""

_OTHERS = ("nvidia-fs", "nvidia-nvswitch", "nvidia-nvlink")


def existing_nodes(root: str) -> list[tuple[str, str]]:
    """Return (MAJOR:MINOR, path) of the driver's nodes that are in `root`/dev. Raises OSError.

    Those of GPUDirect Storage, NVSwitch and NVLink are left out.
    """
    nodes = []
    for folder, prefix in ((f"{root}/dev", "nvidia"), (f"{root}/dev/nvidia-caps", "nvidia-cap")):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in names:
            path = f"{folder}/{name}"
            info = os.lstat(path)
            ours = name.startswith(prefix) and not name.startswith(_OTHERS)
            if ours and stat.S_ISCHR(info.st_mode):
                nodes.append((f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}", path))
    return nodes


def possible_nodes(root: str, kernel: str = "") -> list[tuple[str, str]]:
    """Return (MAJOR:MINOR, path) of all nodes that the driver may make for the GPUs on the PCI bus.

    Without a GPU there are none. The kernel tells of devices in /proc and /sys, which are below
    `kernel`. Raises GPUError where the driver is not loaded, OSError.
    """
    majors = _majors(kernel)
    gpus = count_gpus(kernel, _GPU)
    if not gpus:
        return []
    rows = _control_nodes(majors)
    rows += [(f"/dev/nvidia{number}", majors["nvidia"], number) for number in range(gpus)]
    if "nvidia-caps" in majors:
        caps, minors = majors["nvidia-caps"], _key_minors(kernel, gpus)
        rows += [(f"{catalog.CAPS_FOLDER}/nvidia-cap{minor}", caps, minor) for minor in minors]
    return [(f"{major}:{minor}", root + path) for path, major, minor in rows]


def _majors(kernel: str) -> dict[str, int]:
    """Return name → major of the driver's devices. Raises GPUError where it is not loaded."""
    majors = character_majors(kernel)
    if "nvidia" not in majors:
        what = f"{kernel}/proc/devices has no nvidia"
        raise GPUError(what, "load the driver: modprobe nvidia", status=1)
    return majors


def _control_nodes(majors: dict[str, int]) -> list[tuple[str, int, int]]:
    """Return (path, major, minor) of nvidiactl and the like, of the modules that are loaded."""
    nodes = sorted(catalog.NODES, key=lambda row: row[1])
    return [(path, majors[kind], minor) for path, kind, minor, _ in nodes if kind in majors]


def make_nodes(root: str, log: ToolkitLog, kernel: str = "", *, dry_run: bool = False) -> None:
    """Make the control nodes in `root`/dev that are not there. Raises GPUError, OSError."""
    for name, major, minor in _control_nodes(_majors(kernel)):
        path = root + name
        if dry_run:
            log.info(f"Running: mknod --mode=0666 {path} c {major} {minor}")
        elif os.path.exists(path):
            log.info(f"Skipping: {path} already exists")
        else:
            os.mknod(path, stat.S_IFCHR, os.makedev(major, minor))
            os.chmod(path, 0o666)


def _key_minors(kernel: str, gpus: int) -> list[int]:
    """Return the minors of config, monitor, and all instances that so many GPUs may have.

    The kernel lists those of GPUs that are not there as well. Raises OSError.
    """
    if not os.path.exists(kernel + mig.MINORS):
        return []
    folders = tuple(f"gpu{number}/" for number in range(gpus))
    rows = mig.minors(kernel).items()
    return sorted(
        at for name, at in rows if name in ("config", "monitor") or name.startswith(folders)
    )


def link(
    nodes: list[tuple[str, str]], folder: str, log: ToolkitLog, *, dry_run: bool = False
) -> None:
    """Make the links in `folder`; one that is there already stays. Raises OSError."""
    if nodes and not dry_run:
        os.makedirs(folder, exist_ok=True)
    for name, node in nodes:
        path = f"{folder}/{name}"
        log.info(f"Creating link {path} => {node}")
        if dry_run:
            continue
        try:
            os.symlink(node, path)
        except FileExistsError:
            log.warning(f"Could not create symlink: symlink {node} {path}: file exists")
