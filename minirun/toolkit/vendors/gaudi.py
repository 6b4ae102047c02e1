"""Intel Gaudi: for each accelerator /dev/accel/accelN and accel_controlDN, and its RDMA node.

The rules are those of habana-container-runtime (discover) and Intel's resource driver
(pkg/gaudi/discovery): the accelerators of the driver habanalabs, which are in the class accel; that
has NPUs too, which know no pci_addr. N is the kernel's number, and what HABANA_VISIBLE_DEVICES
names. /dev/infiniband/uverbsM, by which accelerators talk to each other, comes along where there is
one. What the real runtime does besides: a hook that copies network interfaces' names and addresses
into the container; here no interface is moved, so there is nothing to tell.
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.gpu import driverroot
from minirun.gpu.steps import DeviceNode
from minirun.gpu.vendors.discovery import Card, Cards
from minirun.toolkit.vendors import sysfs

_DRIVER = "/sys/bus/pci/drivers/habanalabs"
_CLASS = "/sys/class/accel"
_MODELS = {"0x1000": "Gaudi", "0x1010": "Gaudi", "0x1020": "Gaudi 2", "0x1060": "Gaudi 3"}


def cards(root: str = "") -> Cards:
    """Return the Gaudi accelerators. Raises GPUError where the driver is not loaded."""
    found = []
    for number, address in sorted(_accelerators(root).items()):
        pci = f"{_DRIVER}/{address}"
        if not driverroot.is_dir(root, pci):
            pci = f"/sys/bus/pci/devices/{address}"
        device = driverroot.word(root, f"{pci}/device")
        uid = sysfs.uid(address, device) if device else f"accel{number}"
        names = tuple(dict.fromkeys((uid, f"accel{number}")))
        model = _MODELS.get(device, f"Gaudi {device}".strip())
        nodes = (*_nodes(root, pci, number), *_verbs(root, pci))
        found.append(Card(number, uid, address, model, nodes, names=names))
    if not found and not driverroot.is_dir(root, _DRIVER):
        hint = "load it: modprobe habanalabs; or choose another --gpu-driver"
        raise GPUError(f"no habanalabs driver is loaded: there is no {_DRIVER}", hint)
    version = driverroot.word(root, "/sys/module/habanalabs/version")
    return Cards("gaudi", f"habanalabs {version}".strip(), tuple(found))


def _accelerators(root: str) -> dict[int, str]:
    """Return number → PCI address, by the driver's folder and by the class."""
    found = {}
    for address in sysfs.pci_addresses(root, _DRIVER):
        for name in driverroot.names(root, f"{_DRIVER}/{address}/accel"):
            if (number := sysfs.number(name, "accel")) is not None:
                found[number] = address
    for name in driverroot.names(root, _CLASS):
        address = driverroot.word(root, f"{_CLASS}/{name}/device/pci_addr")
        if (number := sysfs.number(name, "accel")) is not None and address:
            found[number] = address
    return found


def _nodes(root: str, pci: str, number: int) -> tuple[DeviceNode, ...]:
    found = []
    for name in (f"accel{number}", f"accel_controlD{number}"):
        folders = (f"{_CLASS}/{name}", f"{pci}/accel/{name}")
        folder = next((f for f in folders if driverroot.exists(root, f"{f}/dev")), folders[0])
        found.append(sysfs.node(root, folder, f"/dev/accel/{name}"))
    return tuple(found)


def _verbs(root: str, pci: str) -> tuple[DeviceNode, ...]:
    folder = f"{pci}/infiniband_verbs"
    return tuple(
        sysfs.node(root, f"{folder}/{name}", f"/dev/infiniband/{name}")
        for name in driverroot.names(root, folder)[:1]
    )
