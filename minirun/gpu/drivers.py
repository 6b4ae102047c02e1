"""Choose the GPU driver, real or simulated, and list what it provides."""

from __future__ import annotations

from minirun.core.errors import UsageError
from minirun.core.lazy import lazy
from minirun.gpu import driverroot, simulated
from minirun.gpu.inventory import Inventory
from minirun.gpu.vendors.signs import FOLDERS, GPU_DRIVERS, OTHER_VENDORS

with lazy:
    from minirun.gpu import trusted  # few name a root
    from minirun.gpu.nvidia.shared import real  # a host has one of the two
    from minirun.gpu.vendors import discovery

DRIVERS = ("auto", *GPU_DRIVERS)


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
    if root:
        root = trusted.check(root)
    if load_kmods or driverroot.is_loaded(root):
        return "nvidia"
    found: list[str] = []
    if any(driverroot.is_dir(root, path) for path in FOLDERS):
        found = discovery.present_vendors(root)
    if len(found) > 1:
        hint = f"choose with --gpu-driver={found[0]}"
        raise UsageError(f"this host has gpus of {' and '.join(found)}", hint)
    return found[0] if found else "simulated"


def inventory(driver: str, store: str, root: str = "", dev_root: str = "") -> Inventory:
    """Return what the host has: by NVIDIA's driver, a simulated one, or (auto) what there is.

    `store` holds the simulated driver's files; `root` is the real driver's root, "" for where it
    is; `dev_root` is where its nodes are, if not there. The answer's `simulated` says which one it
    was: the caller has to tell the user. Raises UsageError, GPUError, OSError.
    """
    which = which_driver(driver, root)
    if which in OTHER_VENDORS:
        raise UsageError(
            f"{which} has no driver such as NVIDIA's", "--gpu-driver=nvidia, simulated"
        )
    if which == "nvidia":
        asked = dev_root.rstrip("/") if dev_root else None
        return real.inventory(root.rstrip("/") or real.driver_root(), dev_root=asked)
    return simulated.inventory(store)
