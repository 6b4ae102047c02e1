"""What the runtime adds in mode legacy where graphics or display is asked for.

nvidia-container-cli, which comes later, knows the driver's libraries; what the loaders of Vulkan,
EGL, GBM and X11 read, and the GPUs' nodes below /dev/dri, it does not. So the real runtime puts
these into config.json next to the hook: mounts, device nodes, and links by a createContainer hook.
They are those of CDI's mode (minirun.gpu.nvidia.specs.graphics), except details of the version.
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.gpu.asked.select import pci
from minirun.gpu.cdi import inject
from minirun.gpu.edits import CdiHook, Edits
from minirun.gpu.inventory import Gpu
from minirun.gpu.nvidia.shared import environment, real, versions
from minirun.gpu.nvidia.shared.config import Toolkit
from minirun.gpu.nvidia.shared.find import Finder
from minirun.gpu.nvidia.specs import graphics
from minirun.gpu.nvidia.specs.generate import describe_node
from minirun.gpu.nvidia.specs.recipe import CdiRecipe, in_order
from minirun.gpu.steps import BindMount, DeviceNode
from minirun.toolkit.runtime import gated, jit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OPTIONS = ("ro", "nosuid", "nodev")
_KINDS = {versions.LEGACY: ("bind",)}
"""Version → how files are bound; all others do it recursively and privately."""


def apply(config: dict[str, Any], toolkit: Toolkit) -> bool:
    """Add to `config` what it asks for besides the hook; return True if there is any.

    A request that is wrong is left to the hook, which says why. Raises GPUError, OSError.
    """
    beside = gated.apply(config, toolkit)
    return _add_files(config, toolkit) or beside


def _add_files(config: dict[str, Any], toolkit: Toolkit) -> bool:
    """Add files and nodes where `config` asks for GPUs and graphics; return whether it does."""
    try:
        asked = environment.request(config, toolkit.hook)
    except GPUError:
        return False
    if asked is None or not {"graphics", "display"} & set(asked.capabilities):
        return False
    finder = Finder(toolkit.hook.options.root)
    gpus = [gpu for gpu in real.proc_gpus(finder.root) if _is_chosen(gpu, asked.devices)]
    made = _edits(finder, gpus, toolkit)
    inject.apply(config, versions.fitting(inject.complete(made), toolkit.version))
    return True


def _is_chosen(gpu: Gpu, devices: tuple[str, ...]) -> bool:
    """Return True if index, UUID or PCI id of a GPU is among `devices`.

    The real runtime takes a number for the minor; here the nodes are those of the GPU that
    nvidia-container-cli gives.
    """
    names = {"all", str(gpu.number), gpu.uuid}
    return any(name in names or pci(name) == pci(gpu.bus_id) for name in devices)


def _edits(finder: Finder, gpus: list[Gpu], toolkit: Toolkit) -> Edits:
    """Return the edits for these GPUs; nothing of a driver that is not there."""
    nodes: list[DeviceNode] = []
    hooks: tuple[CdiHook, ...] = ()
    recipe = CdiRecipe(jit.program(toolkit))
    for gpu in gpus:
        found = finder.nodes(*graphics.dri_nodes(finder, gpu))
        nodes += [describe_node(finder.dev_root, path)[0] for path in found]
        hooks += recipe.links(graphics.dri_links(finder, gpu, found))
    try:
        driver = gated.driver_version(finder)
        files, links = graphics.files(finder, driver, finder.driver_folders(driver))
    except GPUError:
        return Edits(steps=tuple(nodes), hooks=hooks)
    how = (*_OPTIONS, *_KINDS.get(toolkit.version, ("rbind", "rprivate")))
    mounts = (BindMount(finder.root + path, target, how) for path, target in files)
    hooks += recipe.links(links)
    return in_order(Edits(steps=(*nodes, *mounts), hooks=hooks))
