"""What the runtime adds in mode legacy where graphics or display is asked for.

nvidia-container-cli, which comes later, knows the driver's libraries; what the loaders of Vulkan,
EGL, GBM and X11 read, and the GPUs' nodes below /dev/dri, it does not. So the real runtime puts
these into config.json next to the hook: mounts, device nodes, and links by a createContainer hook.
"""

import os
from fnmatch import fnmatch

from minirun.errors import GPUError
from minirun.gpu import environment, real
from minirun.gpu.cdi import inject, request
from minirun.gpu.inventory import Gpu
from minirun.gpu.toolkit import lookup
from minirun.gpu.toolkit.config import Toolkit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIBRARIES = f"/usr/lib/{os.uname().machine}-linux-gnu"
_FILES = (
    ("/etc/vulkan/icd.d", ("/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d"), "nvidia_icd.json"),
    (
        "/etc/vulkan/implicit_layer.d",
        ("/etc/vulkan/implicit_layer.d", "/usr/share/vulkan/implicit_layer.d"),
        "nvidia_layers.json",
    ),
    ("", (_LIBRARIES, "/usr/lib64"), "libnvidia-egl-gbm.so.*.*"),
    ("", (_LIBRARIES, "/usr/lib64"), "libnvidia-egl-wayland.so.*.*"),
    ("", ("/usr/share/nvidia",), "nvoptix.bin"),
    ("", ("/usr/share/egl/egl_external_platform.d",), "*_nvidia_*.json"),
    ("", ("/usr/share/glvnd/egl_vendor.d",), "10_nvidia.json"),
    ("", ("/usr/lib/xorg/modules/drivers",), "nvidia_drv.so"),
    ("", ("/usr/lib/xorg/modules/extensions",), "libglxserver_nvidia.so.*"),
)
"""(folder in the container, "" for the host's; folders of the host, the first counts; name)."""
_LINKS = (
    f"{_LIBRARIES}/gbm/nvidia-drm_gbm.so",
    "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so",
)
_OPTIONS = ["ro", "nosuid", "nodev", "bind"]


def apply(config: "dict[str, Any]", toolkit: Toolkit) -> bool:
    """Add them to `config` where it asks for GPUs and graphics; return whether it does.

    A request that is wrong is left to the hook, which says why. Raises OSError.
    """
    process = config.get("process") or {}
    env = dict(entry.split("=", 1) for entry in process.get("env") or [] if "=" in entry)
    try:
        asked = environment.environment_request(env, toolkit.hook)
    except GPUError:
        return False
    if asked is None or not {"graphics", "display"} & set(asked.capabilities):
        return False
    root = toolkit.hook.root.rstrip("/")
    gpus = [gpu for gpu in real.proc_gpus(root) if _chosen(gpu, asked.devices)]
    nodes, links = _dri(root, gpus)
    edits: dict[str, Any] = {"deviceNodes": nodes, "mounts": _mounts(root), "hooks": []}
    for rows in (links, _host_links(root)):
        edits["hooks"] += [_hook(rows, toolkit)] if rows else []
    inject.apply(config, edits)
    return True


def _chosen(gpu: Gpu, devices: "tuple[str, ...]") -> bool:
    return bool({"all", str(gpu.number), gpu.uuid} & set(devices))


def _mounts(root: str) -> "list[dict[str, Any]]":
    """Return the files that the host has, as mounts."""
    found = []
    for target, folders, pattern in _FILES:
        paths: list[str] = []
        for folder in folders:
            paths = paths or _matching(root, folder, pattern)
        for path in paths:
            inside = f"{target}/{path.rpartition('/')[2]}" if target else path
            row = {"hostPath": root + path, "containerPath": inside, "options": list(_OPTIONS)}
            found.append(row)
    return found


def _matching(root: str, folder: str, pattern: str) -> "list[str]":
    names = sorted(os.listdir(root + folder)) if os.path.isdir(root + folder) else []
    return [f"{folder}/{name}" for name in names if fnmatch(name, pattern)]


def _dri(root: str, gpus: "list[Gpu]") -> "tuple[list[dict[str, Any]], list[str]]":
    """Return the nodes of these GPUs below /dev/dri, and the links to them, `target::link`."""
    by_path = "/dev/dri/by-path"
    dev = root if os.path.isdir(root + by_path) else ""
    nodes, links = [], []
    for gpu in gpus:
        for kind in ("card", "render"):
            link = f"{by_path}/pci-{gpu.proc_name}-{kind}"
            if not os.path.islink(dev + link):
                continue
            target = os.readlink(dev + link)
            path = os.path.normpath(f"{by_path}/{target}")
            number = os.stat(dev + path).st_rdev
            numbers = {"major": os.major(number), "minor": os.minor(number)}
            nodes.append({"path": path, "type": "c", **numbers})
            links.append(f"{target}::{link}")
    return nodes, links


def _host_links(root: str) -> "list[str]":
    """Return the links that the host has, as `target::link`."""
    return [f"{os.readlink(root + path)}::{path}" for path in _LINKS if os.path.islink(root + path)]


def _hook(links: "list[str]", toolkit: Toolkit) -> "dict[str, Any]":
    """Return a createContainer hook that makes the links: nvidia-ctk's, or minirun's own."""
    words = ["create-symlinks", *(word for link in links for word in ("--link", link))]
    ctk = toolkit.ctk_path if toolkit.ctk_path.startswith("/") else ""
    ctk = ctk or lookup.program(toolkit.ctk_path)
    if ctk:
        row = {"path": ctk, "args": ["nvidia-ctk", "hook", *words]}
    else:
        own = request.program()
        row = {"path": own.path, "args": [*own.argv, *words]}
    return {"hookName": "createContainer", **row}
