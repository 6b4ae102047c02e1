"""The environment of a container as a request for GPUs: NVIDIA_VISIBLE_DEVICES and its relatives.

These are the rules of nvidia-container-runtime-hook (1.17), measured: `void` anywhere means nothing
at all; `none` means the driver's files without a GPU; `all` all GPUs; a "legacy" image, which sets
CUDA_VERSION but no NVIDIA_REQUIRE_CUDA, gets everything it does not ask for. Under another engine
this rule holds as it is. `minirun run` itself treats an image's environment as no consent
(minirun.gpu.asked.ways.environment).
"""

from __future__ import annotations

import os

from minirun.core.config import environment_of
from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.keeping.state import read_text
from minirun.gpu.asked.request import CAPABILITIES, DEFAULT_CAPABILITIES, VISIBLE, NvidiaRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DRIVER_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_TRUE = ("1", "t", "T", "TRUE", "true", "True")  # Go's strconv.ParseBool
_VOLUMES = "/var/run/nvidia-container-devices/"
IMEX, CDI = "imex/", "cdi/"
"""Mounts below _VOLUMES that name no GPU: imex/CHANNEL, and cdi/VENDOR/CLASS/DEVICE."""


class HookSettings(Record):
    """The toolkit's config.toml, as far as the hook reads it; the defaults are the toolkit's."""

    options: NvidiaRequest = NvidiaRequest(load_kmods=True, ldconfig="@/sbin/ldconfig")
    """What nvidia-container-cli is given for every container."""
    disable_require: bool = False
    supported_capabilities: tuple[str, ...] = CAPABILITIES
    swarm_resources: tuple[str, ...] = ()
    accept_env_unprivileged: bool = True
    accept_volume_mounts: bool = False
    ignore_imex_channels: bool = False


DEFAULTS = HookSettings()


def config_path() -> str:
    """Return the path of config.toml, whether or not it is there."""
    explicit = os.environ.get("NVIDIA_CTK_CONFIG_FILE_PATH")
    folder = os.environ.get("XDG_CONFIG_HOME") or "/etc"
    return explicit or f"{folder}/nvidia-container-runtime/config.toml"


def default_user(os_release: str = "/etc/os-release") -> str:
    """Return the user to ask NVML as: SUSE gives the nodes to group video; "" elsewhere.

    As the real toolkit, it takes ID_LIKE of os-release(5), not ID.
    """
    try:
        rows = read_text(os_release).splitlines()
    except (OSError, ValueError):
        return ""
    likes = [row.removeprefix("ID_LIKE=") for row in rows if row.startswith("ID_LIKE=")]
    return "root:video" if {"suse", "opensuse"} & set("".join(likes[:1]).strip('"').split()) else ""


def ldconfig_of(path: str) -> str:
    """Prefer the host's ldconfig.real: on Ubuntu, /sbin/ldconfig is a script around it."""
    if path.startswith("@"):
        plain = path[1:].removesuffix(".real")
        return f"@{plain}.real" if os.path.exists(f"{plain}.real") else f"@{plain}"
    return path


def of_config(config: dict[str, Any]) -> dict[str, str]:
    """Return the environment in a config.json."""
    return environment_of((config.get("process") or {}).get("env"))


def request(config: dict[str, Any], settings: HookSettings = DEFAULTS) -> NvidiaRequest | None:
    """Return the request in a config.json, without pid and root; None if it asks for nothing.

    Raises GPUError.
    """
    mounts = mounted_devices(config.get("mounts") or [])
    return environment_request(of_config(config), settings, is_privileged(config), mounts)


def is_privileged(config: dict[str, Any]) -> bool:
    """Return True if CAP_SYS_ADMIN is in the bounding set, as the toolkit understands the word."""
    capabilities = (config.get("process") or {}).get("capabilities") or {}
    return "CAP_SYS_ADMIN" in (capabilities.get("bounding") or [])


def environment_request(
    env: dict[str, str],
    settings: HookSettings = DEFAULTS,
    privileged: bool = False,
    devices_from_mounts: tuple[str, ...] = (),
) -> NvidiaRequest | None:
    """Return the request in a container's environment; None if it asks for nothing.

    `privileged` is CAP_SYS_ADMIN in its bounding set; `devices_from_mounts` are the names of its
    mounts below /var/run/nvidia-container-devices. Raises GPUError.
    """
    counts = privileged or settings.accept_env_unprivileged
    mounts = devices_from_mounts if settings.accept_volume_mounts else ()
    mounted = [name for name in mounts if not name.startswith((IMEX, CDI))]
    plain = [name.strip() for name in mounted if name.strip()]
    devices = _chosen(plain) if mounted else listed(env, settings.swarm_resources)
    if devices is None or not (mounted or counts):
        return None
    _refuse_cdi(devices)
    legacy = _is_legacy(env)
    return settings.options._replace(
        devices=devices,
        mig_config=_mig(env, "MIG_CONFIG_DEVICES", privileged),
        mig_monitor=_mig(env, "MIG_MONITOR_DEVICES", privileged),
        capabilities=_capabilities(env, settings.supported_capabilities, legacy),
        requirements=() if settings.disable_require else _requirements(env, legacy),
        imex_channels=() if settings.ignore_imex_channels else channels(env, counts, mounts),
    )


def asked_channels(config: dict[str, Any], settings: HookSettings) -> tuple[str, ...]:
    """Return the IMEX channels that a config.json asks for, each once."""
    if settings.ignore_imex_channels:
        return ()
    counts = is_privileged(config) or settings.accept_env_unprivileged
    rows = config.get("mounts") or [] if settings.accept_volume_mounts else []
    found = channels(of_config(config), counts, mounted_devices(rows))
    return tuple(dict.fromkeys(filter(None, found)))


def channels(env: dict[str, str], counts: bool, mounts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the IMEX channels that `mounts` name, or the environment where it `counts`."""
    mounted = tuple(name[len(IMEX) :] for name in mounts if name.startswith(IMEX))
    return mounted or (_channels(env) if counts else ())


def visible(env: dict[str, str], swarm_resources: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Return the devices that an environment names; an empty tuple for `none`, None for nothing.

    Variables of `swarm_resources` count before NVIDIA_VISIBLE_DEVICES. Raises GPUError for the name
    of a CDI device.
    """
    devices = listed(env, swarm_resources)
    _refuse_cdi(devices or ())
    return devices


def listed(env: dict[str, str], swarm_resources: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Return the devices that an environment names, as `visible`, CDI's names as well."""
    swarm = [env[name] for name in swarm_resources if name in env]
    text = ",".join(swarm) if swarm else env.get(VISIBLE)
    return ("all",) if text is None and _is_legacy(env) else _chosen(_items(text))


def _is_legacy(env: dict[str, str]) -> bool:
    """Return True for an image older than NVIDIA_REQUIRE_CUDA: it has CUDA_VERSION alone."""
    return bool(env.get("CUDA_VERSION")) and not env.get("NVIDIA_REQUIRE_CUDA")


def _items(text: str | None) -> list[str]:
    """Return the parts of a list with commas, without the empty ones."""
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _chosen(items: list[str]) -> tuple[str, ...] | None:
    """Return a list's devices, each once; ("all",) for all, () for none, None for void."""
    if not items or "void" in items:
        return None
    for item in items:
        if item == "all":
            return ("all",)
        if item == "none":
            return ()
    return _without_doubles(items)


def _refuse_cdi(devices: tuple[str, ...]) -> None:
    """Raise GPUError for vendor.com/class=name; MIG-GPU-uuid/3/0 is an old name of a MIG device."""
    for item in devices:
        kind, equals, _ = item.partition("=")
        if equals and "/" in kind:
            hint = "use --device for it, or an index, a uuid, all or none here"
            raise GPUError(f"{VISIBLE}: {item} is the name of a cdi device", hint)


def _channels(env: dict[str, str]) -> tuple[str, ...]:
    """Return NVIDIA_IMEX_CHANNELS; `all` and `none` give nothing here."""
    items = _items(env.get("NVIDIA_IMEX_CHANNELS"))
    return () if {"void", "all", "none"} & set(items) else _without_doubles(items)


def _without_doubles(items: list[str]) -> tuple[str, ...]:
    """Drop all but the last of each; the real hook leaves an empty place, and so does this."""
    last = {item: at for at, item in enumerate(items)}
    return tuple(item if last[item] == at else "" for at, item in enumerate(items))


def _capabilities(env: dict[str, str], supported: tuple[str, ...], legacy: bool) -> tuple[str, ...]:
    """Return the driver capabilities, sorted. Raises GPUError for one that is not supported."""
    text = env.get(DRIVER_CAPABILITIES)
    if text is None and legacy:
        return supported
    wanted = sorted({*_items(text)})
    if not text:
        return tuple(name for name in supported if name in DEFAULT_CAPABILITIES)
    if "all" in wanted:
        return supported
    allowed = tuple(name for name in supported if name in wanted)
    if set(wanted) - set(supported):
        hint = f"{DRIVER_CAPABILITIES} may hold {', '.join(supported)}, or all"
        rest = f"(allowed '{','.join(allowed)}')"
        found = ",".join(wanted)
        raise GPUError(f"unsupported capabilities found in '{found}' {rest}", hint)
    return allowed


def _requirements(env: dict[str, str], legacy: bool) -> tuple[str, ...]:
    """Return what the image requires of driver and GPU: NVIDIA_REQUIRE_*. Raises GPUError."""
    if env.get("NVIDIA_DISABLE_REQUIRE") in _TRUE:
        return ()
    found = [
        value
        for name, value in env.items()
        if name.startswith("NVIDIA_REQUIRE_") and not name.startswith("NVIDIA_REQUIRE_JETPACK")
    ]
    if legacy:
        numbers, fault = _version(env["CUDA_VERSION"].removeprefix("v"))
        if fault:
            hint = f"CUDA_VERSION={env['CUDA_VERSION']}: it should read as in 12.4.1"
            text = f"invalid CUDA version {env['CUDA_VERSION']}: {fault}"
            raise GPUError(f"failed to get requirements failed to get version: {text}", hint)
        found.append(f"cuda>={'.'.join([*numbers, '0'][:2])}")
    return tuple(found)


def _version(text: str) -> tuple[list[str], str]:
    """Return the numbers of a semantic version, 12.4.1-devel or shorter, and what is wrong with it.

    What follows - or + stands after three numbers only; the first two are less than 2^32.
    """
    core = text.partition("+")[0].partition("-")[0]
    numbers = core.split(".")
    is_whole = len(numbers) == 3 or (len(numbers) < 3 and core == text)
    if not is_whole or not all(map(_is_number, numbers)):
        return [], "invalid version string"
    for name, part in zip(("major", "minor"), numbers, strict=False):
        if whole(part, most=(1 << 32) - 1) is None:
            return [], f"invalid {name} version"
    return numbers, ""


def _is_number(text: str) -> bool:
    """Return True for a number of a semantic version: without zeros before it."""
    is_number = bool(text) and not text.strip("0123456789")  # however long
    return is_number and (text == "0" or not text.startswith("0"))


def _mig(env: dict[str, str], name: str, privileged: bool) -> str:
    """Return NVIDIA_MIG_CONFIG_DEVICES or NVIDIA_MIG_MONITOR_DEVICES. Raises GPUError."""
    value = env.get(f"NVIDIA_{name}", "")
    if value and not privileged:
        raise GPUError(f"cannot set {name} in non privileged container", "it needs CAP_SYS_ADMIN")
    return value


def mounted_devices(mounts: list[dict[str, str]]) -> tuple[str, ...]:
    """Return the names (a GPU, imex/N, cdi/…) in mounts of /dev/null, as device plugins ask."""
    rows = ((row.get("source", ""), os.path.normpath(row["destination"])) for row in mounts)
    return tuple(
        dict.fromkeys(
            path[len(_VOLUMES) :]
            for source, path in rows
            if path.startswith(_VOLUMES) and os.path.normpath(source) == "/dev/null"
        )
    )
