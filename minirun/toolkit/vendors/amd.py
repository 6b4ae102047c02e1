"""AMD: /dev/kfd for computing, and for each GPU /dev/dri/cardN and renderDN.

The rules are those of ROCm's container toolkit (internal/amdgpu). The devices of the driver amdgpu
are the folders of /sys/module/amdgpu/drivers/pci:amdgpu and, for the partitions of one GPU (MI300),
/sys/devices/platform/amdgpu_xcp_N. Of these a GPU is what KFD knows too: the topology in
/sys/class/kfd/kfd/topology/nodes/N/properties has its render node (`drm_render_minor 128`) and its
`unique_id`, in decimal, which is written as 0x… everywhere else. Indices count through the PCI
addresses, the partitions of one GPU next to each other. Mounts there are none.
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.gpu import driverroot
from minirun.gpu.steps import DeviceNode
from minirun.gpu.vendors.discovery import Card, Cards
from minirun.toolkit.vendors import sysfs

_PCI = "/sys/module/amdgpu/drivers/pci:amdgpu"
_PLATFORM = "/sys/devices/platform"
_KFD = "/sys/class/kfd/kfd"
_LARGEST_ID = (1 << 64) - 1


def cards(root: str = "") -> Cards:
    """Return the AMD GPUs. Raises GPUError where the driver is not loaded."""
    if not driverroot.names(root, "/sys/module/amdgpu"):
        hint = "load it: modprobe amdgpu; or choose another --gpu-driver"
        raise GPUError("no amdgpu driver is loaded: there is no /sys/module/amdgpu", hint)
    known = _topology(root)
    by_gpu: dict[str, list[tuple[int, str, tuple[DeviceNode, ...]]]] = {}
    for folder in _devices(root):
        nodes = sysfs.drm_nodes(root, folder)
        render = [
            int(node.path[len("/dev/dri/renderD") :]) for node in nodes if "renderD" in node.path
        ]
        if render and render[0] in known:
            by_gpu.setdefault(known[render[0]], []).append((render[0], folder, nodes))
    rows = [(unique, *row) for unique, group in by_gpu.items() for row in sorted(group)]
    found = [
        Card(number, unique, folder.rpartition("/")[2], _model(root, folder), nodes)
        for number, (unique, _, folder, nodes) in enumerate(rows)
    ]
    version = driverroot.word(root, "/sys/module/amdgpu/version")
    kfd = (sysfs.node(root, _KFD, "/dev/kfd"),) if found else ()
    return Cards("amd", f"amdgpu {version}".strip(), tuple(found), kfd)


def _devices(root: str) -> list[str]:
    """Return the folders of sysfs of the PCI devices, then of the partitions."""
    pci = [f"{_PCI}/{name}" for name in sysfs.pci_addresses(root, _PCI)]
    partitions = [
        f"{_PLATFORM}/{name}"
        for name in driverroot.names(root, _PLATFORM)
        if name.startswith("amdgpu_xcp_")
    ]
    return pci + partitions


def _topology(root: str) -> dict[int, str]:
    """Return render minor → unique id, as KFD knows its GPUs; a CPU has no render minor."""
    found = {}
    base = f"{_KFD}/topology/nodes"
    for number in driverroot.names(root, base):
        text = driverroot.word(root, f"{base}/{number}/properties")
        rows = dict(line.split(None, 1) for line in text.splitlines() if " " in line.strip())
        minor = whole(rows.get("drm_render_minor", "0"))
        unique = whole(rows.get("unique_id", ""), most=_LARGEST_ID)
        if minor and unique is not None:
            found[minor] = f"0x{unique:x}"
    return found


def _model(root: str, folder: str) -> str:
    name = driverroot.word(root, f"{folder}/product_name")
    return name or f"AMD GPU {driverroot.word(root, f'{folder}/device')}".strip()
