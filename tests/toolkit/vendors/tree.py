"""A host with GPUs of other vendors: a faked /sys, and real device nodes, below one folder.

The folders are those that the drivers make: amdgpu and KFD, i915 and xe, habanalabs. Majors are
real ones (226 drm, 261 accel, 231 infiniband); behind the nodes is no driver, so opening one gives
ENXIO where the cgroup allows it and EPERM where it does not.
"""

import os
from pathlib import Path

KFD, DRM, ACCEL, VERBS = 234, 226, 261, 231
VIDEO, RENDER = 44, 105


class Host:
    """The faked host; `root` is what --driver-root gets."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, text: str) -> None:
        """Write a file of /sys."""
        place = Path(f"{self.root}{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")

    def node(self, path: str, major: int, minor: int, gid: int = 0, mode: int = 0o660) -> None:
        """Make a device node."""
        place = Path(f"{self.root}{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(place, 0o020000 | mode, os.makedev(major, minor))
        place.chmod(mode)
        os.chown(place, 0, gid)

    def drm(self, folder: str, card: int, render: int, address: str = "") -> None:
        """Make cardN and renderDN of the device `folder` of /sys, with their names by path."""
        rows = (
            (f"card{card}", card, VIDEO, "card"),
            (f"renderD{render}", render, RENDER, "render"),
        )
        for name, minor, gid, kind in rows:
            self.file(f"{folder}/drm/{name}/dev", f"{DRM}:{minor}")
            self.node(f"/dev/dri/{name}", DRM, minor, gid)
            if address:
                link = Path(f"{self.root}/dev/dri/by-path/pci-{address}-{kind}")
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(f"../{name}")

    def amdgpu(self) -> None:
        """Load the driver: the module, KFD, and KFD's first node, which is the CPU."""
        self.file("/sys/module/amdgpu/version", "6.10.5")
        self.file("/sys/class/kfd/kfd/dev", f"{KFD}:0")
        self.node("/dev/kfd", KFD, 0, RENDER)
        self.topology(0, 0, 0)

    def topology(self, number: int, render: int, unique: int) -> None:
        """Make a node of KFD's topology."""
        rows = f"cpu_cores_count 0\nunique_id {unique}\ndrm_render_minor {render}\nnum_xcc 1"
        self.file(f"/sys/class/kfd/kfd/topology/nodes/{number}/properties", rows)

    def amd(self, address: str, card: int, render: int, unique: int = 0, kfd: bool = True) -> None:
        """Add an AMD GPU."""
        folder = f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}"
        if address.startswith("amdgpu_xcp_"):
            folder = f"/sys/devices/platform/{address}"
        self.file(f"{folder}/device", "0x74a1")
        self.drm(folder, card, render)
        if kfd:
            self.topology(render, render, unique)

    def intel(self, driver: str, address: str, card: int, render: int, device: str) -> None:
        """Add an Intel GPU."""
        folder = f"/sys/bus/pci/drivers/{driver}/{address}"
        self.file(f"{folder}/device", device)
        self.drm(folder, card, render, address)

    def gaudi(self, number: int, address: str, verbs: int = -1) -> None:
        """Add a Gaudi 2."""
        pci = f"/sys/bus/pci/drivers/habanalabs/{address}"
        self.file(f"{pci}/device", "0x1020")
        self.file(f"/sys/class/accel/accel{number}/device/pci_addr", address)
        for at, name in enumerate((f"accel{number}", f"accel_controlD{number}")):
            self.file(f"/sys/class/accel/{name}/dev", f"{ACCEL}:{2 * number + at}")
            self.node(f"/dev/accel/{name}", ACCEL, 2 * number + at, mode=0o666)
        if verbs >= 0:
            self.file(f"{pci}/infiniband_verbs/uverbs{verbs}/dev", f"{VERBS}:{192 + verbs}")
            self.node(f"/dev/infiniband/uverbs{verbs}", VERBS, 192 + verbs)


def amd_host(root: Path, count: int = 2) -> Host:
    """A host with so many AMD GPUs: card1, renderD128 and so on."""
    host = Host(root)
    host.amdgpu()
    for number in range(count):
        host.amd(f"0000:{12 + number:02x}:00.0", number + 1, 128 + number, 0xABC0 + number)
    return host


def intel_host(root: Path) -> Host:
    """A host with an integrated and a discrete Intel GPU."""
    host = Host(root)
    host.intel("i915", "0000:00:02.0", 0, 128, "0x4680")
    host.intel("xe", "0000:03:00.0", 1, 129, "0xe20b")
    return host


def gaudi_host(root: Path) -> Host:
    """A host with two Gaudi accelerators, and an NPU in the same class."""
    host = Host(root)
    host.gaudi(0, "0000:0f:00.0", verbs=0)
    host.gaudi(1, "0000:17:00.0")
    host.file("/sys/class/accel/accel7/dev", f"{ACCEL}:99")  # it has no pci_addr
    return host
