"""CDI specs for GPU management and for companion devices: GDS, GDRCopy, InfiniBand, NVSwitch, IMEX.

    management   every node of the driver, and its files: for containers that manage GPUs
    gds gdrcopy mofed nvswitch   one device `all`: GPUDirect Storage, GDRCopy, InfiniBand, NVSwitch
    imex         a device for each IMEX channel
    wsl          the driver of Windows: one device `all`, as there is one node; `auto` finds it

Where such a node is missing the edits are empty; a spec of them is no valid one.

Simplified: modes csv (Tegra boards) and vfio are refused.
"""

from __future__ import annotations

import os

from minirun.core.errors import GPUError, UsageError
from minirun.core.keeping.numbers import whole
from minirun.gpu import driverroot
from minirun.gpu.edits import Edits
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.shared import catalog, wsl
from minirun.gpu.nvidia.shared.find import Finder, glob
from minirun.gpu.nvidia.specs import driver, generate
from minirun.gpu.nvidia.specs.recipe import CdiRecipe, document, in_order, options
from minirun.gpu.steps import BindMount, DeviceNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPANIONS = {
    "gdrcopy": ("/dev/gdrdrv",),
    "gds": ("/dev/nvidia-fs*",),
    "mofed": ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
    "nvswitch": ("/dev/nvidia-nvswitchctl", "/dev/nvidia-nvswitch*"),
}
"""Mode → patterns of nodes."""
MODES = ("auto", "nvml", "management", "imex", "wsl", *COMPANIONS)
REFUSED = ("csv", "vfio")
VOID = Edits(env=(generate.VOID,))
_CHANNELS = f"{catalog.IMEX_FOLDER}/channel"
_MANAGED = (
    "/dev/nvidia*", "/dev/nvidia-caps/nvidia-cap*", f"{_CHANNELS}*", *generate.CONTROL_NODES
)  # fmt: skip
_NOT_MANAGED = ("nvidia-fs", "nvidia-nvswitch", "nvidia-nvlink")


def spec(
    mode: str, inventory: Inventory | None, recipe: CdiRecipe, finder: Finder
) -> dict[str, Any]:
    """Return the spec of a mode. Raises UsageError, GPUError, OSError."""
    if mode in COMPANIONS:
        return document({"all": companion_edits(mode, finder)}, VOID, recipe)
    if mode == "imex":
        found = channels(finder, recipe.devices)
        return document(found, VOID, recipe)
    if mode == "wsl" or (mode == "auto" and driverroot.is_wsl()):
        if finder.log and mode == "auto":
            finder.log.info("Auto-detected mode as 'wsl'")
        device, common = wsl_edits(recipe, finder)
        return document({"all": device}, common, recipe)
    if inventory is None:
        raise UsageError(f"mode {mode} needs a driver", "load it: modprobe nvidia", 1)
    if mode == "management":
        return _management(inventory, recipe, finder)
    if finder.log and mode == "auto":
        finder.log.info("Auto-detected mode as 'nvml'")
    return generate.spec(inventory, recipe, finder)


def companion_edits(mode: str, finder: Finder) -> Edits:
    """Return the edits of one of COMPANIONS; empty ones if the host has none of its nodes."""
    nodes = finder.nodes(*COMPANIONS[mode])
    edits = generate.with_nodes(nodes, finder)
    if mode != "gds" or not nodes:
        return edits
    paths = ["/run/udev"] if os.path.isdir(f"{finder.root}/run/udev") else []
    paths += finder.files(("/etc/cufile.json",), ("/",))
    mounts = (BindMount(finder.root + path, path, driver.FILE) for path in paths)
    return edits._replace(steps=(*edits.steps, *mounts))


def channels(finder: Finder, wanted: tuple[str, ...]) -> dict[str, Edits]:
    """Return number → edits of IMEX channels, by number or as channelN; `all` that there are."""
    names = wanted
    if "all" in wanted:
        names = tuple(path.rpartition("/")[2] for path in finder.nodes(f"{_CHANNELS}*"))
    found = {}
    for name in names:
        number = name.removeprefix("channel")
        if whole(number) is None:
            raise GPUError(f"invalid channel ID {name}", "a number, as in 0 or channel0", 1)
        path = _CHANNELS + number
        node = DeviceNode(path, "", 0, 0, None, None, None, "", finder.dev_root + path)
        found[number] = Edits(steps=(node,))
    return found


def _management(inventory: Inventory, recipe: CdiRecipe, finder: Finder) -> dict[str, Any]:
    if inventory.simulated:
        raise UsageError("no management spec of the simulated driver", "it has no nodes", 1)
    nodes = _managed(finder)
    hooks = generate.chmod(recipe, _managed(finder))
    if not nodes:
        raise GPUError("no NVIDIA device nodes found", "load the driver: modprobe nvidia", 1)
    edits = generate.with_nodes(nodes, finder, hooks)
    rest = generate.common(inventory, recipe, finder, management=True)
    return document({"all": edits}, rest, recipe)


def _managed(finder: Finder) -> list[str]:
    paths = finder.nodes(*_MANAGED)
    return [path for path in paths if not path.rpartition("/")[2].startswith(_NOT_MANAGED)]


def wsl_edits(recipe: CdiRecipe, finder: Finder) -> tuple[Edits, Edits]:
    """Return the edits of the one device that WSL2 has, and the common ones. Raises GPUError."""
    if recipe.devices != ("all",):
        text = f"failed to create device CDI specs: unsupported id {recipe.devices[0]}"
        raise GPUError(text, "on WSL2 there is one device: all", 1)
    folder = _driver_store(finder)
    device = generate.with_nodes(finder.nodes(driverroot.DXG), finder)
    files = finder.files(("libdxcore.so",), (driverroot.WSL_LIBRARIES,))
    files += finder.files(wsl.STORE_FILES, (folder,))
    patterns = (f"{folder}/{name}" for name in ("*.so*", "*.bin", "*.dll"))
    files += [path for some in patterns for path in glob("", some) if path not in files]
    mounts = tuple(BindMount(path, path, driver.FILE) for path in files)
    smi = f"{folder}/{wsl.STORE_FILES[-1]}"
    hooks = recipe.links([f"{smi}::/usr/bin/nvidia-smi"] if smi in files else [])
    libraries = [path for path in files if ".so" in path.rpartition("/")[2]]
    words = ["--ldconfig-path", recipe.ldconfig] if recipe.ldconfig else []
    hooks += recipe.hook("update-ldcache", *words, *options("--folder", driver.folders(libraries)))
    return device, in_order(Edits(steps=mounts, env=(generate.VOID,), hooks=hooks))


def _driver_store(finder: Finder) -> str:
    """Return the folder of NVIDIA's driver among those of Windows. Raises GPUError."""
    found = wsl.stores()
    folder = wsl.store(found)
    if not folder:
        what = f"could not locate {wsl.STORE_FILES[0]}" if found else "no driver store paths found"
        text = "failed to create edits common for entities: failed to create discoverer for WSL"
        raise GPUError(f"{text} driver: {what}", "nvidia-smi.exe on Windows; wsl --update", 1)
    if finder.log and len(found) > 1:
        finder.log.warning(f"Found multiple driver store paths: [{' '.join(found)}]")
    if finder.log:
        finder.log.info(f"Using WSL driver store path: {folder}")
    return folder
