"""Which GPU driver this host has, and where its kernel module speaks."""

import os

from minirun.errors import UsageError
from minirun.oci.config import VENDORS

DRIVERS = ("auto", "nvidia", "simulated", *VENDORS)
PROC = "/proc/driver/nvidia"
_OTHERS = (
    "/sys/module/amdgpu", "/sys/bus/pci/drivers/i915", "/sys/bus/pci/drivers/xe",
    "/sys/class/accel", "/sys/bus/pci/drivers/habanalabs",
)  # fmt: skip
"""Where no such folder is, no vendor other than NVIDIA has a GPU here."""


def proc_folder(root: str) -> str:
    """Return the kernel module's folder: the driver root's, or the host's where that has none."""
    there = not root or os.path.exists(f"{root}{PROC}")
    return f"{root}{PROC}" if there else PROC


def is_loaded(root: str = "") -> bool:
    """Tell whether NVIDIA's kernel module is loaded."""
    return os.path.exists(f"{proc_folder(root)}/version")


def which_driver(driver: str, root: str = "", *, load_kmods: bool = False) -> str:
    """Return nvidia, simulated, or another vendor; auto is what this host has.

    That is NVIDIA's driver where it is loaded, or can be (`load_kmods`); else the one other vendor
    of which there is a GPU; else the simulated one. `root` is the driver root. Raises UsageError.
    """
    if driver not in DRIVERS:
        raise UsageError(f"unknown gpu driver: {driver}", f"one of {', '.join(DRIVERS)}")
    if driver != "auto":
        return driver
    if load_kmods or is_loaded(root):
        return "nvidia"
    found: "list[str]" = []
    if any(os.path.isdir(root + path) for path in _OTHERS):
        from minirun.gpu import vendors

        found = vendors.present(root)
    if len(found) > 1:
        hint = f"choose with --gpu-driver={found[0]}"
        raise UsageError(f"this host has gpus of {' and '.join(found)}", hint)
    return found[0] if found else "simulated"
