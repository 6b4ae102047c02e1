"""What the loaders of Vulkan, EGL, GBM, OpenCL and X11 read, and the GPUs' nodes below /dev/dri.

None of it is a library with the driver's version in its name, so it is listed here, name by name,
as in the real toolkit (internal/discover/graphics.go).
"""

from __future__ import annotations

import os

from minirun.core.kernel.architecture import NATIVE
from minirun.gpu import driverroot
from minirun.gpu.inventory import Gpu
from minirun.gpu.nvidia.shared.find import Finder, glob

LIBRARIES = ("libnvidia-egl-gbm.so.*.*", "libnvidia-egl-wayland.so.*.*",
             "libnvidia-egl-wayland2.so.*.*")  # fmt: skip
"""They have versions of their own."""
CONFIGS = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "egl/egl_external_platform.d/09_nvidia_wayland2.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "OpenCL/vendors/nvidia.icd",
)
VULKAN = (
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
    f"vulkan/icd.d/nvidia_icd.{NATIVE.machine}.json",
)
"""In the container they lie below /etc, wherever the host has them."""
_XORG = ("/usr/lib/xorg", "/usr/lib64/xorg", "/usr/X11R6/lib", "/usr/X11R6/lib64")
_MODULES = ("modules/drivers", "modules/extensions", "modules/updates/drivers",
            "modules/updates/extensions")  # fmt: skip
_BESIDE = ("nvidia/xorg", *(f"xorg/{name}" for name in _MODULES))
_DRI, _BY_PATH = "/dev/dri", "/dev/dri/by-path"
_PCI = "/sys/bus/pci/devices"


def files(
    finder: Finder, driver: str, folders: list[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return ((path, its path in the container) of files, links `target::link`).

    `folders` are those of the driver's libraries.
    """
    made_for = tuple(f"libnvidia-{name}.so.{driver}" for name in ("allocator", "vulkan-producer"))
    libraries = finder.libraries(*LIBRARIES, *made_for)
    server = f"libglxserver_nvidia.so.{driver}"
    xorg = finder.files(("nvidia_drv.so", server), _xorg_folders(folders), first=True)
    configs = finder.configs(*CONFIGS)
    vulkan = [(finder.config(name, f"/etc/{name}"), f"/etc/{name}") for name in VULKAN]
    links = []
    for path in (*libraries, *xorg):
        above, _, name = path.rpartition("/")
        if name == made_for[0]:
            links.append(f"../libnvidia-allocator.so.1::{above}/gbm/nvidia-drm_gbm.so")
        elif name in (made_for[1], server):
            links.append(f"{name}::{above}/{name.removesuffix(f'.{driver}')}")
    kept = [path for path in libraries if not path.endswith(made_for[0])]  # it comes by itself
    plain = [(path, path) for path in (*kept, *xorg, *configs)]
    return [*plain, *(row for row in vulkan if row[0])], links


def _xorg_folders(folders: list[str]) -> tuple[str, ...]:
    beside = [f"{folder}/{name}" for folder in folders for name in _BESIDE]
    return (*beside, *(f"{base}/{name}" for base in _XORG for name in _MODULES))


def dri_nodes(finder: Finder, gpu: Gpu) -> list[str]:
    """Return the paths of a GPU's nodes below /dev/dri: by sysfs; without it, by their links."""
    nodes = [
        f"{_DRI}/{name.rpartition('/')[2]}" for name in glob("", f"{_PCI}/{gpu.proc_name}/drm/*")
    ]
    return nodes or [node for _, node in _links(finder, gpu)]


def dri_links(finder: Finder, gpu: Gpu, nodes: list[str]) -> list[str]:
    """Return the links below /dev/dri/by-path to these nodes, as `target::link`."""
    rows = _links(finder, gpu)
    if finder.log and nodes[1:]:
        for kind in ("card", "render"):
            link = f"{_BY_PATH}/pci-{gpu.proc_name}-{kind}"
            if not driverroot.link(finder.dev_root, link):
                finder.log.warning(f"Failed to evaluate symlink {finder.dev_root}{link}; ignoring")
    return [row for row, node in rows if node in nodes]


def _links(finder: Finder, gpu: Gpu) -> list[tuple[str, str]]:
    """Return (`target::link`, the node that it leads to) of each link of a GPU."""
    found = []
    for kind in ("card", "render"):
        link = f"{_BY_PATH}/pci-{gpu.proc_name}-{kind}"
        if target := driverroot.link(finder.dev_root, link):
            found.append((f"{target}::{link}", os.path.normpath(f"{_BY_PATH}/{target}")))
    return found
