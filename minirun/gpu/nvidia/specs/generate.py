"""The host's inventory → a CDI spec, as `nvidia-ctk cdi generate` (1.20) makes it.

A device for each GPU, or for each MIG device of one, under the names that are asked for (index,
UUID, type and index), and one called `all`. What every container gets besides stands in the spec's
own edits: control nodes, every library (capabilities are not asked for in this mode), graphics,
binaries, firmware, sockets. Links and ld.so.cache are beyond config.json, so createContainer hooks
make them.

The simulated driver has no nodes to look at, so major and minor are written out; and no kernel
module shows its GPUs in /proc, so its whole /proc/driver is shown by a hook more (as a mount of
config.json it would be refused by runc), with all GPUs in it, as a container in cdi mode sees them
with the real driver. It has nothing below /dev/dri.
"""

from __future__ import annotations

import os
import stat

from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.gpu.edits import CdiHook, Edits
from minirun.gpu.inventory import Gpu, Inventory, Mig
from minirun.gpu.nvidia.shared.catalog import CAPS_FOLDER
from minirun.gpu.nvidia.shared.find import Finder, real
from minirun.gpu.nvidia.specs import driver, graphics
from minirun.gpu.nvidia.specs.recipe import CdiRecipe, document, in_order, options
from minirun.gpu.steps import BindMount, DeviceNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONTROL_NODES = ("/dev/nvidia-modeset", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm",
                 "/dev/nvidiactl")  # fmt: skip
VOID = "NVIDIA_VISIBLE_DEVICES=void"
"""So that nvidia-container-runtime-hook, should it be called as well, does nothing."""
_NESTED = ("/dev/dri", CAPS_FOLDER)


class CdiDevice(Record):
    """A GPU, or a MIG device of one; `number` is its index, N or N:M."""

    number: str
    uuid: str
    edits: Edits

    def name(self, strategy: str) -> str:
        """Return its name by one of STRATEGIES."""
        kind = "mig" if ":" in self.number else "gpu"
        return {"index": self.number, "uuid": self.uuid, "type-index": kind + self.number}[strategy]


def spec(inventory: Inventory, recipe: CdiRecipe, finder: Finder | None = None) -> dict[str, Any]:
    """Return the spec of what the host has. Raises GPUError, OSError."""
    finder = finder or Finder(inventory.root)
    found = devices(inventory, recipe, finder)
    named = {device.name(way): device.edits for device in found for way in recipe.names}
    rest = common(inventory, recipe, finder)
    return document(named, rest, recipe, simulated=inventory.simulated)


def devices(inventory: Inventory, recipe: CdiRecipe, finder: Finder) -> list[CdiDevice]:
    """Return the devices that a recipe asks for, in its order. Raises GPUError."""
    if "none" in recipe.devices:
        return []
    whole = [(str(gpu.number), gpu.uuid, gpu, None) for gpu in inventory.gpus]
    migs = [
        (f"{gpu.number}:{mig.number}", mig.uuid, gpu, mig)
        for gpu in inventory.gpus
        for mig in gpu.migs
    ]
    rows = [*(row for row in whole if not row[2].mig_enabled), *migs]
    if "all" not in recipe.devices:
        rows = [_choose([*whole, *migs], name) for name in recipe.devices]
    return [
        CdiDevice(number, uuid, _edits(inventory, recipe, finder, gpu, mig))
        for number, uuid, gpu, mig in rows
    ]


def _choose(rows: list[Any], name: str) -> Any:
    """Return the row of this index or UUID. Raises GPUError in the words of nvidia-ctk."""
    for row in rows:
        if name in row[:2]:
            return row
    gpu, colon, mig = name.partition(":")
    if whole(gpu) is not None and not colon:
        what = "failed to get device handle from index: Invalid Argument"
    elif None not in (whole(gpu), whole(mig)):
        lacks = not any(row[0] == gpu for row in rows)
        what = "failed to get MIG handle by index: Not Found"
        what = "failed to get parent device handle: Invalid Argument" if lacks else what
    elif name.startswith(("GPU-", "MIG-")):
        what = "failed to get device handle from UUID: Not Found"
    else:
        what = f'identifier is not a valid UUID or index: "{name}"'
    raise GPUError(f"failed to construct device spec generators: {what}", status=1)


def _edits(
    inventory: Inventory, recipe: CdiRecipe, finder: Finder, gpu: Gpu, mig: Mig | None
) -> Edits:
    """Return the edits of one device."""
    minors = (mig.gi_minor, mig.ci_minor) if mig else ()
    caps = [f"{CAPS_FOLDER}/nvidia-cap{minor}" for minor in minors]
    if inventory.simulated:
        rows = zip(caps, minors, strict=True)
        keys = (_simulated(path, inventory.caps_major, minor, 0o444) for path, minor in rows)
        return Edits(steps=(_simulated(gpu.node, inventory.major, gpu.minor), *keys))
    beside = [] if mig else graphics.dri_nodes(finder, gpu)
    nodes = finder.nodes(gpu.node, *caps, *beside)
    hooks: tuple[CdiHook, ...] = ()
    if not mig:
        hooks = recipe.links(graphics.dri_links(finder, gpu, finder.nodes(gpu.node, *beside)))
    return with_nodes(nodes, finder, hooks + chmod(recipe, nodes))


def chmod(recipe: CdiRecipe, nodes: list[str]) -> tuple[CdiHook, ...]:
    """Return the hook that opens the folders of nested nodes: crun once closed them (#1047)."""
    above = list(dict.fromkeys(path.rpartition("/")[0] for path in nodes))
    nested = [folder for folder in above if folder in _NESTED]
    return recipe.hook("chmod", "--mode", "755", *options("--path", nested)) if nested else ()


def with_nodes(paths: list[str], finder: Finder, hooks: tuple[CdiHook, ...] = ()) -> Edits:
    """Return the edits of these nodes, with the groups that they need, and hooks."""
    found = [describe_node(finder.dev_root, path) for path in paths]
    gids = dict.fromkeys(gid for _, gid in found if gid)
    nodes = tuple(node for node, _ in found)
    return in_order(Edits(steps=nodes, hooks=hooks, groups=tuple(gids)))


def describe_node(root: str, path: str) -> tuple[DeviceNode, int]:
    """Return a node of the host, and the group that may use it if not everybody may (else 0).

    As in the real tool's specs a node has no type. Raises OSError.
    """
    status = os.stat(root + path)
    numbers = (os.major(status.st_rdev), os.minor(status.st_rdev))
    host_path = root + path if root else ""
    node = DeviceNode(
        path, "", *numbers, stat.S_IMODE(status.st_mode), None, None, "rwm", host_path
    )
    return node, 0 if status.st_mode & 0o006 == 0o006 else status.st_gid


def _simulated(path: str, major: int, minor: int, mode: int = 0o666) -> DeviceNode:
    return DeviceNode(path, "c", major, minor, mode, None, None, "rwm")


def common(
    inventory: Inventory, recipe: CdiRecipe, finder: Finder, *, management: bool = False
) -> Edits:
    """Return the edits that come along with every device of the host. Raises GPUError, OSError.

    `management`: the driver's files alone, for containers that look after GPUs.
    """
    version, root = inventory.driver, finder.root
    if finder.log:
        finder.log.info(f"Using driver version {version}")
    folders = finder.driver_folders(version)
    control = Edits()
    hooks: tuple[CdiHook, ...] = ()
    rows: list[tuple[str, str, tuple[str, ...]]] = []
    if not management:
        control = _control_nodes(inventory, finder)
        found, links = graphics.files(finder, version, folders)
        rows += [(source, target, driver.FILE) for source, target in found]
        hooks += recipe.links(links)
    libraries = driver.libraries(finder, version, folders)
    rows += [(path, path, driver.FILE) for path in libraries]
    rows += [(path, path, options) for path, options in driver.others(finder, version)]
    if inventory.simulated:
        hooks += recipe.hook("show-simulated-driver", "--source", f"{root}/proc/driver")
    hooks += _driver_hooks(recipe, finder, libraries, version, folders)
    if not management:
        hooks += recipe.hook("disable-device-node-modification")
        hooks += recipe.hook("update-application-profile")
    within = (lambda path: real(root, path)) if root else str  # links mean the driver's own root
    mounts = (BindMount(root + within(row[0]), *row[1:]) for row in dict.fromkeys(rows))
    env = (f"NVIDIA_CTK_LIBCUDA_DIR={':'.join(folders)}", VOID)
    return in_order(control._replace(steps=(*control.steps, *mounts), env=env, hooks=hooks))


def _control_nodes(inventory: Inventory, finder: Finder) -> Edits:
    if not inventory.simulated:
        return with_nodes(finder.nodes(*CONTROL_NODES), finder)
    nodes = (_simulated(node.path, node.major, node.minor) for node in inventory.nodes)
    return Edits(steps=tuple(nodes))


def _driver_hooks(
    recipe: CdiRecipe, finder: Finder, libraries: list[str], version: str, folders: list[str]
) -> tuple[CdiHook, ...]:
    hooks = recipe.links(driver.links(finder.root, libraries))
    driver.optional(finder, folders)
    hooks += recipe.hook("enable-cuda-compat", f"--host-driver-version={version}")
    driver.optional(finder, folders)
    words = options("--folder", driver.folders(libraries))
    if recipe.ldconfig:
        words = ["--ldconfig-path", recipe.ldconfig, *words]
    return hooks + recipe.hook("update-ldcache", *words)
