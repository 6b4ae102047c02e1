"""How stages 4 and 5 are done in-line: config.toml, as the real hook reads it, and flags.

What the flags do not say (--driver-root DIR, --load-kmods: minirun.core.choices) is in the
toolkit's config.toml, which is root's (nvidia-container-cli.root, load-kmods, …).
"""

import os

from minirun.core.choices import Choices
from minirun.core.config import Config
from minirun.gpu import driverroot
from minirun.gpu.nvidia.cli import catalog
from minirun.gpu.nvidia.hook import command_line as hook
from minirun.gpu.nvidia.hook import config_path, ldconfig_of
from minirun.gpu.nvidia.hook.environment import DEFAULTS, HookSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_read: "list[HookSettings]" = []
"""What config.toml says, once it was read."""


def command_line(config: Config, state: "dict[str, Any]") -> "list[str] | None":
    """Return the arguments for nvidia-container-cli; None if no GPU is asked for.

    Raises GPUError, ConfigError.
    """
    return hook.command_line(config.raw, state, settings(config.choices))


def settings(chosen: Choices) -> HookSettings:
    """Return what the hook passes to nvidia-container-cli. Raises ConfigError."""
    if not _read:
        _read.append(_load())
    found = _read[0]
    if chosen.driver_root:
        found = found._replace(root=chosen.driver_root)
    if chosen.load_kmods:
        found = found._replace(load_kmods=True)
    return found


def _load() -> HookSettings:
    if not os.path.lexists(config_path()):
        return DEFAULTS._replace(ldconfig=ldconfig_of(DEFAULTS.ldconfig))
    from minirun.gpu.nvidia.runtime import config  # and what reads TOML: few hosts have the file

    return config.load().hook


def driver_place(chosen: Choices) -> "tuple[str, str]":
    """Return the root of NVIDIA's driver, "" for the host's own, and its ld.so.cache below that.

    Raises ConfigError.
    """
    from minirun.gpu.nvidia.cli import real  # of a real driver alone

    found = settings(chosen)
    cache = found.ldcache or catalog.LD_SO_CACHE
    return driverroot.check(found.root) or real.driver_root(cache), cache
