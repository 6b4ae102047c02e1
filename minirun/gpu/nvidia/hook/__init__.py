"""nvidia-container-runtime-hook, stage 4: from a container's config to an argument list.

    config.json + state JSON  →  [global options] configure [options] --pid=N ROOTFS

An interface only: it decides nothing that is not in the argument list. minirun makes exactly the
list that the real hook would execute nvidia-container-cli with, in the same order, so either can
stand in for the other.

program         the program of that name

NVIDIA_VISIBLE_DEVICES and its relatives become an NvidiaRequest in minirun.gpu.nvidia.shared.
In-line, what the flags do not say (--driver-root DIR, --load-kmods: minirun.core.keeping.choices)
is in the toolkit's config.toml, which is root's (nvidia-container-cli.root, load-kmods, …).
"""

from __future__ import annotations

import os

from minirun.core import events
from minirun.core.config import Config
from minirun.core.errors import UsageError
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.numbers import whole
from minirun.core.lazy import lazy
from minirun.gpu.asked.request import CAPABILITIES, VISIBLE, NvidiaRequest
from minirun.gpu.nvidia.shared.environment import (
    DEFAULTS,
    HookSettings,
    config_path,
    default_user,
    ldconfig_of,
    of_config,
    request,
)

with lazy:
    from minirun.gpu.asked import of_bundle  # only if the caller names GPUs for a bundle
    from minirun.gpu.nvidia.shared import config as toolkit_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTS = {"device": "devices", "imex-channel": "imex_channels", "require": "requirements"}
"""Option that may be repeated → field of NvidiaRequest; all others are called as their field is."""
_LARGEST_PID = (1 << 31) - 1
_OURS = ("NVIDIA_", "CUDA_")
"""The prefixes of the variables that the hook reads, besides those of swarm-resource."""
_read: list[HookSettings] = []
"""The settings of config.toml, after the first read; else empty."""


def in_line(config: Config, state: dict[str, Any]) -> list[str] | None:
    """Return the arguments for a container of minirun's own.

    Raises GPUError, ConfigError, UsageError.
    """
    why = "what config.json says of GPUs: Figure 2"
    if config.choices.nvidia_gpus:
        config = of_bundle.put_into(config)  # stage 4 reads the bundle's own file, without them
        why = "what --gpus before the command says of GPUs"
    found, chosen = of_config(config.raw), settings(config.choices)
    names = sorted((name for name in found if name.startswith(_OURS)), key=_visible_first)
    swarm = (name for name in chosen.swarm_resources if name in found)
    asked = {name: found[name] for name in (*swarm, *names)}
    events.emit("note", "environment", asked, why=why)
    return command_line(config.raw, state, chosen)


def _visible_first(name: str) -> tuple[bool, str]:
    """Return a key for sorting: NVIDIA_VISIBLE_DEVICES comes before all other names."""
    return name != VISIBLE, name


def settings(chosen: Choices) -> HookSettings:
    """Return what the in-line hook passes to nvidia-container-cli. Raises ConfigError.

    If the caller names GPUs for a bundle, no other way counts in which the bundle may ask for some.
    """
    if not _read:
        _read.append(_load())
    found, options = _read[0], _read[0].options
    if chosen.nvidia_gpus:
        found = found._replace(
            swarm_resources=(), accept_volume_mounts=False, accept_env_unprivileged=True
        )
    return found._replace(
        options=options._replace(
            root=chosen.driver_root or options.root,
            load_kmods=chosen.load_kmods or options.load_kmods,
        )
    )


def _load() -> HookSettings:
    """Return the settings of config.toml; the defaults, fitted to this host, without one."""
    if not os.path.lexists(config_path()):
        options = DEFAULTS.options
        ldconfig, user = ldconfig_of(options.ldconfig), default_user()
        return DEFAULTS._replace(options=options._replace(ldconfig=ldconfig, user=user))
    return toolkit_config.load().hook


def command_line(
    config: dict[str, Any], state: dict[str, Any], settings: HookSettings = DEFAULTS
) -> list[str] | None:
    """Return the arguments for nvidia-container-cli; None if no GPU is asked for.

    Of `state`, the OCI state, pid and bundle are read. Raises GPUError.
    """
    asked = request(config, settings)
    if asked is None:
        return None
    rootfs = os.path.join(state["bundle"], config["root"]["path"])
    return arguments(asked._replace(pid=state["pid"], rootfs=rootfs))


def arguments(asked: NvidiaRequest) -> list[str]:
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
        _option("--cuda-compat-mode", asked.cuda_compat_mode),
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
    """Return --name=value; nothing for an empty value."""
    return f"{name}={value}" if value else ""


def read(argv: list[str]) -> NvidiaRequest:
    """Read an argument list as :func:`arguments` writes it: whole words, and the root last.

    An option that NvidiaRequest has no field for is ignored. Raises UsageError.
    """
    *words, rootfs = argv
    start = NvidiaRequest(rootfs=rootfs)._asdict()
    fields: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in start.items()
    }
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        field = _LISTS.get(name, name.replace("-", "_"))
        if name in CAPABILITIES:
            fields["capabilities"] += (name,)
        elif name == "require":
            fields[field] += (value,)
        elif name in _LISTS:
            fields[field] += tuple(filter(None, value.split(",")))
        elif name == "pid":
            fields[field] = _pid(value)
        elif field in fields:
            fields[field] = value if equals else True
    named = set(fields["capabilities"])
    fields["capabilities"] = [name for name in CAPABILITIES if name in named]
    for name, value in fields.items():
        fields[name] = tuple(value) if isinstance(value, list) else value
    return NvidiaRequest(**fields)


def _pid(text: str) -> int:
    """Return a pid; 0, which means the caller's parent, for a negative one. Raises UsageError."""
    number = whole(text, -_LARGEST_PID, _LARGEST_PID)
    if number is None:
        is_number = text.removeprefix("-").strip("0123456789") == "" != text.removeprefix("-")
        why = "numerical result out of range" if is_number else "invalid argument"
        what = f"nvidia-container-cli: input error: parse pid failed: {why}"
        raise UsageError(what, "as in --pid=1234", 1)
    return max(number, 0)
