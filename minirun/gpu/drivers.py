"""Which GPU driver this host has, and where its kernel module speaks."""

from minirun.core.choices import GPU_DRIVERS
from minirun.core.errors import UsageError
from minirun.gpu import driverroot

DRIVERS = ("auto", *GPU_DRIVERS)
PROC = "/proc/driver/nvidia"
_OTHERS = (
    "/sys/module/amdgpu", "/sys/bus/pci/drivers/i915", "/sys/bus/pci/drivers/xe",
    "/sys/class/accel", "/sys/bus/pci/drivers/habanalabs",
)  # fmt: skip
"""Where no such folder is, no vendor other than NVIDIA has a GPU here."""


def proc_root(root: str) -> str:
    """Return below which root the kernel module's PROC is: the driver's, or "" if it has none."""
    return root if root and driverroot.exists(root, PROC) else ""


def character_majors(root: str = "", proc: str = "/proc") -> "dict[str, int]":
    """Return name → major of the kernel's character devices: /proc/devices. Raises OSError.

    That is the kernel's, whatever the driver root, if that has no /proc. Drivers of today and of
    old are both called nvidia.
    """
    majors: "dict[str, int]" = {}
    path = f"{proc}/devices"
    text = driverroot.read(root if driverroot.exists(root, path) else "", path).decode()
    for line in text.partition("Block devices:")[0].splitlines():
        number, _, name = line.strip().partition(" ")
        if number.isdigit():
            majors["nvidia" if name == "nvidia-frontend" else name] = int(number)
    return majors


def is_loaded(root: str = "") -> bool:
    """Tell whether NVIDIA's kernel module is loaded."""
    return driverroot.exists(proc_root(root), f"{PROC}/version")


def which_driver(driver: str, root: str = "", *, load_kmods: bool = False) -> str:
    """Return nvidia, simulated, or another vendor; auto is what this host has.

    That is NVIDIA's driver where it is loaded, or can be (`load_kmods`); else the one other vendor
    of which there is a GPU; else the simulated one. `root` is the driver root. Raises UsageError,
    GPUError.
    """
    if driver not in DRIVERS:
        raise UsageError(f"unknown gpu driver: {driver}", f"one of {', '.join(DRIVERS)}")
    if driver != "auto":
        return driver
    root = driverroot.check(root)
    if load_kmods or is_loaded(root):
        return "nvidia"
    found: "list[str]" = []
    if any(driverroot.is_dir(root, path) for path in _OTHERS):
        from minirun.gpu import vendors

        found = vendors.present_vendors(root)
    if len(found) > 1:
        hint = f"choose with --gpu-driver={found[0]}"
        raise UsageError(f"this host has gpus of {' and '.join(found)}", hint)
    return found[0] if found else "simulated"
