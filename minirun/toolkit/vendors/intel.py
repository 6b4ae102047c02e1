"""Intel GPUs: for each one /dev/dri/cardN and renderDN, and its names in /dev/dri/by-path.

The rules are those of Intel's resource driver for Kubernetes (pkg/gpu/discovery, cdihelpers): GPUs
are the PCI devices of the drivers i915 and xe that have a folder drm; a render node is optional.
The CDI device there is called by PCI address and device id, 0000-03-00-0-0x56a0, or card0 ("classic
naming"); here both, and the index by PCI address. Programs of oneAPI look for a GPU by its PCI
address in /dev/dri/by-path, so these names are made, too: udev makes links there, and CDI, which
knows no link, a node for each.
"""

from __future__ import annotations

import os

from minirun.core.errors import GPUError
from minirun.gpu import driverroot
from minirun.gpu.steps import DeviceNode, Link
from minirun.gpu.vendors.discovery import Card, Cards
from minirun.toolkit.vendors import sysfs

_DRIVERS = ("i915", "xe")
_BY_PATH = "/dev/dri/by-path"


def cards(root: str = "") -> Cards:
    """Return the Intel GPUs. Raises GPUError where no driver is loaded."""
    drivers = {name: f"/sys/bus/pci/drivers/{name}" for name in _DRIVERS}
    loaded = [name for name, folder in drivers.items() if driverroot.is_dir(root, folder)]
    if not loaded:
        hint = "load it: modprobe i915, or xe; or choose another --gpu-driver"
        raise GPUError("no intel gpu driver is loaded: /sys/bus/pci/drivers has no i915, xe", hint)
    places = sorted(
        (address, f"{drivers[name]}/{address}")
        for name in loaded
        for address in sysfs.pci_addresses(root, drivers[name])
    )
    found: list[Card] = []
    for address, folder in places:
        if nodes := sysfs.drm_nodes(root, folder):
            device = driverroot.word(root, f"{folder}/device")
            uid = sysfs.uid(address, device)
            names = (uid, nodes[0].path.rpartition("/")[2])
            model = f"Intel GPU {device}"
            links = _by_path(root, address, nodes)
            found.append(Card(len(found), uid, address, model, nodes, links, names))
    return Cards("intel", " and ".join(loaded), tuple(found))


def _by_path(root: str, address: str, nodes: tuple[DeviceNode, ...]) -> tuple[Link, ...]:
    """Return the names by path that lead to one of these nodes; any other one is left out."""
    own = {node.path for node in nodes}
    found = []
    for path in (f"{_BY_PATH}/pci-{address}-{kind}" for kind in ("card", "render")):
        target = driverroot.link(root, path)
        leads = os.path.normpath(os.path.join(_BY_PATH, target))
        if target and leads in own:
            found.append(Link(f"../{leads.rpartition('/')[2]}", path))
    return tuple(found)
