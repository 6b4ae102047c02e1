"""Intel GPUs: for each one /dev/dri/cardN and renderDN, and its names in /dev/dri/by-path.

The rules are those of Intel's resource driver for Kubernetes (pkg/gpu/discovery, cdihelpers): GPUs
are the PCI devices of the drivers i915 and xe that have a folder drm; a render node is optional.
The CDI device there is called by PCI address and device id, 0000-03-00-0-0x56a0, or card0 ("classic
naming"); here both, and the index by PCI address. Programs of oneAPI look for a GPU by its PCI
address in /dev/dri/by-path, so these names are bound, too.
"""

import os

from minirun.errors import GPUError
from minirun.gpu import vendors
from minirun.gpu.edits import Mount
from minirun.gpu.vendors import Card, Cards

_DRIVERS = ("i915", "xe")
_BY_PATH = "/dev/dri/by-path"
_OPTIONS = ("nosuid", "noexec")


def cards(root: str = "") -> Cards:
    """Return the Intel GPUs. Raises GPUError where no driver is loaded."""
    drivers = {name: f"{root}/sys/bus/pci/drivers/{name}" for name in _DRIVERS}
    loaded = [name for name, folder in drivers.items() if os.path.isdir(folder)]
    if not loaded:
        hint = "load it: modprobe i915, or xe; or choose another --gpu-driver"
        raise GPUError("no intel gpu driver is loaded: /sys/bus/pci/drivers has no i915, xe", hint)
    places = sorted(
        (address, f"{drivers[name]}/{address}")
        for name in loaded
        for address in vendors.pci_addresses(drivers[name])
    )
    found: "list[Card]" = []
    for address, folder in places:
        if nodes := vendors.drm_nodes(root, folder):
            device = vendors.word(f"{folder}/device")
            uid = vendors.uid(address, device)
            names = (uid, nodes[0].path.rpartition("/")[2])
            model = f"Intel GPU {device}"
            mounts = _by_path(root, address)
            found.append(Card(len(found), uid, address, model, nodes, mounts, names))
    return Cards("intel", " and ".join(loaded), tuple(found))


def _by_path(root: str, address: str) -> "tuple[Mount, ...]":
    paths = (f"{_BY_PATH}/pci-{address}-{kind}" for kind in ("card", "render"))
    return tuple(Mount(root + p, p, _OPTIONS) for p in paths if os.path.exists(root + p))
