"""Mode auto of nvidia-container-runtime: CDI edits that are made from the host on the spot.

No spec file is read or written: each GPU that is asked for, and then what comes along with every
one, is made and applied at once. NVIDIA_GDS, NVIDIA_MOFED, NVIDIA_GDRCOPY and NVIDIA_NVSWITCH with
the value `enabled`, and NVIDIA_IMEX_CHANNELS, bring what stands beside GPUs.
"""

from __future__ import annotations

from minirun.core.config import environment_of
from minirun.core.errors import GPUError
from minirun.gpu.cdi import inject
from minirun.gpu.edits import Edits
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.shared import environment, lookup, versions
from minirun.gpu.nvidia.shared.config import Toolkit
from minirun.gpu.nvidia.shared.find import Finder
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.gpu.nvidia.specs import generate, modes
from minirun.gpu.nvidia.specs.recipe import NO_GIDS, CdiRecipe, HookProgram, own_program
from minirun.toolkit.ctk import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = "runtime.nvidia.com/gpu"
_FAILED = "failed to create the automatic CDI modifier: failed to generate CDI spec for mode"
_EMPTY = Edits(env=("NVCT_EMPTY_DEVICE=",))
"""What the device `none` consists of: a device without any edit would be no valid one."""
BESIDE = (
    ("NVIDIA_GDS", "gds"), ("NVIDIA_MOFED", "mofed"), ("NVIDIA_GDRCOPY", "gdrcopy"),
    ("NVIDIA_NVSWITCH", "nvswitch"),
)  # fmt: skip


def apply(
    config: dict[str, Any], devices: tuple[str, ...], toolkit: Toolkit, log: ToolkitLog, store: str
) -> None:
    """Put the edits of `devices`, as 0, a UUID, all or none, into a config.json.

    Raises MinirunError, OSError.
    """
    old = toolkit.version == versions.FIRST
    names = tuple(name for name in devices if name != "none")
    nothing = "all" if old else "none"  # 1.18 took an empty list for all: toolkit #1555
    recipe = CdiRecipe(program(toolkit), names=("index",), devices=names or (nothing,))
    log.info(f"Using automatic CDI devices {' '.join(recipe.devices)}")
    try:
        root = toolkit.hook.options.root.rstrip("/")
        finder = Finder(root)
        found = host.host_inventory(finder, store, environment_of(toolkit.cli_environment))
        if found.simulated:  # it has a hook more than NVIDIA's program
            recipe = recipe._replace(program=own_program())
            finder.enter(found.root)
        if old:
            _resolve(found, recipe, finder)
        if found.store:
            parts = [*modes.wsl_edits(recipe, finder)]
        else:
            parts = [device.edits for device in generate.devices(found, recipe, finder)]
            parts = [*(parts or [_EMPTY]), generate.common(found, recipe, finder)]
    except GPUError as error:
        if str(error).startswith(host.UNRESOLVABLE):
            raise
        if old:  # it goes on with the files of specs, which have no such device
            log.warning(f'{_FAILED[0].upper()}{_FAILED[1:]} "auto": {error}')
            raise _unresolvable(recipe) from None
        raise GPUError(f'{_FAILED} "auto": {error}') from None
    parts += _beside(config, toolkit, finder)
    if NO_GIDS in toolkit.feature_flags:
        parts = [part._replace(groups=()) for part in parts]
    for _ in range(2 if old else 1):
        for part in parts:
            inject.apply(config, versions.fitting(inject.complete(part), toolkit.version))


def program(toolkit: Toolkit) -> HookProgram:
    """Return the program of the hooks: config.toml's nvidia-ctk where it is there, or minirun."""
    path = toolkit.ctk_path if toolkit.ctk_path.startswith("/") else ""
    path = path or lookup.program(toolkit.ctk_path)
    return HookProgram(path, ("nvidia-ctk", "hook")) if path else own_program()


def _resolve(found: Inventory, recipe: CdiRecipe, finder: Finder) -> None:
    """Refuse GPUs that there are not, as 1.18 does: by their full names. Raises GPUError."""
    every = generate.devices(found, recipe._replace(devices=("all",)), finder)
    known = {"all", *(name for device in every for name in (device.number, device.uuid))}
    if not known.issuperset(recipe.devices):
        raise _unresolvable(recipe)


def _unresolvable(recipe: CdiRecipe) -> GPUError:
    names = (f"{KIND}={name}" for name in recipe.devices)
    return GPUError(f"{host.UNRESOLVABLE} {', '.join(names)}")


def _beside(config: dict[str, Any], toolkit: Toolkit, finder: Finder) -> list[Edits]:
    """Return the edits of what stands beside the GPUs. Raises GPUError, OSError."""
    env = environment.of_config(config)
    parts: list[Edits] = []
    for name, mode in BESIDE:
        if env.get(name) == "enabled":
            parts += [modes.companion_edits(mode, finder), modes.VOID]
    channels = environment.asked_channels(config, toolkit.hook)
    if channels:
        parts += modes.channels(finder, channels).values()
        parts.append(modes.VOID)
    return parts
