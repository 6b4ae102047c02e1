"""nvidia-ctk system create-dev-char-symlinks: /dev/char/MAJOR:MINOR → /dev/nvidia….

runc and systemd, told to allow `c 195:0`, look for /dev/char/195:0 to learn what to write into a
unit's DeviceAllow. NVIDIA's nodes are not made by udev, so the links are missing, and at the next
`systemctl daemon-reload` systemd writes rules without the GPUs: "Failed to initialize NVML: Unknown
Error" in a container that worked. The links are the cure (the toolkit's issue 48).
"""

import os
import stat

from minirun.core.errors import GPUError
from minirun.gpu.nvidia.cli import catalog, mig
from minirun.gpu.nvidia.cli.kmods import count_gpus
from minirun.gpu.nvidia.cli.real import character_majors
from minirun.gpu.nvidia.runtime.log import ToolkitLog

_GPU = ("0x0300", "0x0302")
"""Classes of PCI devices that nvidia-ctk counts; nvidia-modprobe takes every display controller."""


def existing_nodes(root: str) -> "list[tuple[str, str]]":
    """Return (MAJOR:MINOR, path) of the driver's nodes that are in `root`/dev. Raises OSError."""
    nodes = []
    for folder, prefix in ((f"{root}/dev", "nvidia"), (f"{root}/dev/nvidia-caps", "nvidia-cap")):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in names:
            path = f"{folder}/{name}"
            info = os.lstat(path)
            if name.startswith(prefix) and stat.S_ISCHR(info.st_mode):
                nodes.append((f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}", path))
    return nodes


def possible_nodes(root: str, kernel: str = "") -> "list[tuple[str, str]]":
    """Return (MAJOR:MINOR, path) of all nodes that the driver may make for the GPUs on the PCI bus.

    The kernel tells of devices in /proc and /sys, which are below `kernel`. Raises GPUError where
    the driver is not loaded, OSError.
    """
    majors = character_majors(kernel)
    major = majors.get("nvidia")
    if major is None:
        raise GPUError(
            f"{kernel}/proc/devices has no nvidia", "load the driver: modprobe nvidia", status=1
        )
    nodes = sorted(catalog.NODES, key=lambda row: row[1])
    rows = [(path, majors[kind], minor) for path, kind, minor, _ in nodes if kind in majors]
    gpus = count_gpus(kernel, _GPU)
    rows += [(f"/dev/nvidia{number}", major, number) for number in range(gpus)]
    if "nvidia-caps" in majors:
        caps = majors["nvidia-caps"]
        minors = sorted(mig.minors(kernel).values()) if os.path.exists(kernel + mig.MINORS) else []
        rows += [(f"{catalog.CAPS_FOLDER}/nvidia-cap{minor}", caps, minor) for minor in minors]
    return [(f"{major}:{minor}", root + path) for path, major, minor in rows]


def link(
    nodes: "list[tuple[str, str]]", folder: str, log: ToolkitLog, *, dry_run: bool = False
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
