"""What the runtime adds in mode legacy only where it is asked for by name.

    NVIDIA_GDS, NVIDIA_MOFED, NVIDIA_GDRCOPY, NVIDIA_NVSWITCH=enabled   what stands beside GPUs
    cuda-compat-mode = "hook" in config.toml   createContainer hooks that let ldconfig find the
                                               image's newer CUDA libraries

As with graphics, it comes with GPUs only, and stands in config.json next to the hook.
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.gpu.cdi import inject
from minirun.gpu.edits import Edits
from minirun.gpu.nvidia.shared import environment, versions
from minirun.gpu.nvidia.shared.config import Toolkit
from minirun.gpu.nvidia.shared.find import Finder
from minirun.gpu.nvidia.specs import modes
from minirun.gpu.nvidia.specs.recipe import CdiRecipe
from minirun.toolkit.runtime import jit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def apply(config: dict[str, Any], toolkit: Toolkit) -> bool:
    """Add it to `config`; return True if there is any. Raises GPUError, OSError.

    A request that is wrong is left to the hook, which says why.
    """
    env = environment.of_config(config)
    named = [mode for name, mode in jit.BESIDE if env.get(name) == "enabled"]
    if not (named or toolkit.compat_hook):
        return False
    try:
        asked = environment.request(config, toolkit.hook)
    except GPUError:
        return False
    if asked is None:
        return False
    finder = Finder(toolkit.hook.options.root)
    parts = [modes.companion_edits(mode, finder) for mode in named]
    if toolkit.compat_hook:
        parts.append(_compat(finder, CdiRecipe(jit.program(toolkit))))
    edits = versions.fitting(inject.join(parts), toolkit.version)
    inject.apply(config, inject.complete(edits))
    return True


def _compat(finder: Finder, recipe: CdiRecipe) -> Edits:
    """Return the hooks that let ldconfig find the image's CUDA libraries. Raises GPUError."""
    version = f"--host-driver-version={driver_version(finder)}"
    hooks = recipe.hook("enable-cuda-compat", version) + recipe.hook("update-ldcache")
    return Edits(hooks=hooks)


def driver_version(finder: Finder) -> str:
    """Return the version of libcuda, as the real runtime finds it in this mode. Raises GPUError."""
    found = finder.locate_library("libcuda.so.*.*")
    if not found:
        raise GPUError("no libcuda on this host")
    return found[0].rpartition(".so.")[2]
