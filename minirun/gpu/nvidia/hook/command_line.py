"""Stage 4: what nvidia-container-runtime-hook makes of a container, and nothing more.

    config.json + state JSON  →  [global options] configure [options] --pid=N ROOTFS

An interface only: it decides nothing that is not in the argument list. minirun makes exactly the
list that the real hook would execute nvidia-container-cli with, in the same order, so either can
stand in for the other.

In-line, what the flags do not say (--driver-root DIR, --load-kmods: minirun.core.choices) is in the
toolkit's config.toml, which is root's (nvidia-container-cli.root, load-kmods, …).
"""

import os

from minirun.core.choices import Choices
from minirun.core.config import Config
from minirun.gpu.nvidia.hook import config_path, ldconfig_of
from minirun.gpu.nvidia.hook.environment import DEFAULTS, HookSettings, request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.gpu.request import NvidiaRequest

_read: "list[HookSettings]" = []
"""What config.toml says, once it was read."""


def in_line(config: Config, state: "dict[str, Any]") -> "list[str] | None":
    """Return the arguments for a container of minirun's own. Raises GPUError, ConfigError."""
    return command_line(config.raw, state, settings(config.choices))


def settings(chosen: Choices) -> HookSettings:
    """Return what the in-line hook passes to nvidia-container-cli. Raises ConfigError."""
    if not _read:
        _read.append(_load())
    options = _read[0].options
    return _read[0]._replace(
        options=options._replace(
            root=chosen.driver_root or options.root,
            load_kmods=chosen.load_kmods or options.load_kmods,
        )
    )


def _load() -> HookSettings:
    if not os.path.lexists(config_path()):
        ldconfig = ldconfig_of(DEFAULTS.options.ldconfig)
        return DEFAULTS._replace(options=DEFAULTS.options._replace(ldconfig=ldconfig))
    from minirun.gpu.nvidia.runtime import config  # and what reads TOML: few hosts have the file

    return config.load().hook


def command_line(
    config: "dict[str, Any]", state: "dict[str, Any]", settings: HookSettings = DEFAULTS
) -> "list[str] | None":
    """Return the arguments for nvidia-container-cli; None where no GPU is asked for.

    `config` is config.json, `state` the OCI state of which pid and bundle are read.
    Raises GPUError.
    """
    asked = request(config, settings)
    if asked is None:
        return None
    rootfs = os.path.join(state["bundle"], config["root"]["path"])
    return arguments(asked._replace(pid=state["pid"], rootfs=rootfs))


def arguments(asked: "NvidiaRequest") -> "list[str]":
    """Write a request as an argument list, in the order in which the real hook does."""
    words = [
        _option("--root", asked.root),
        "--load-kmods" if asked.load_kmods else "",
        "--no-create-imex-channels" if asked.no_create_imex_channels else "",
        "--no-pivot" if asked.no_pivot else "",
        _option("--debug", asked.debug),
        _option("--ldcache", asked.ldcache),
        _option("--user", asked.user),
        "configure",
        _option("--ldconfig", asked.ldconfig),
        "--no-cgroups" if asked.no_cgroups else "",
        _option("--device", ",".join(asked.devices)),
        _option("--mig-config", asked.mig_config),
        _option("--mig-monitor", asked.mig_monitor),
        _option("--imex-channel", ",".join(asked.imex_channels)),
        *(f"--{name}" for name in asked.capabilities),
        *(f"--require={text}" for text in asked.requirements),
        f"--pid={asked.pid}",
        asked.rootfs,
    ]
    return [word for word in words if word]


def _option(name: str, value: str) -> str:
    return f"{name}={value}" if value else ""
