"""nvidia-ctk config: change keys of the toolkit's config.toml, or print the default one (1.20).

Comments and order of a file stay as they are (tomlkit); the real program writes all of it anew,
sorted. What the keys mean: minirun.gpu.nvidia.shared.config.
"""

from __future__ import annotations

import os
import tomllib

import tomlkit

from minirun.core.errors import UsageError
from minirun.gpu.nvidia.shared.environment import default_user, ldconfig_of
from minirun.toolkit.ctk import engine_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LDCONFIG, _USER = '"@/sbin/ldconfig"', '#user = "root:video"'
_DEFAULT = f"""\
#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
environment = []
#ldcache = "/etc/ld.so.cache"
ldconfig = {_LDCONFIG}
load-kmods = true
#no-cgroups = false
#path = "/usr/bin/nvidia-container-cli"
#root = "/run/nvidia/driver"
{_USER}

[nvidia-container-runtime]
#debug = "/var/log/nvidia-container-runtime.log"
log-level = "info"
mode = "auto"
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
default-kind = "nvidia.com/gpu"
spec-dirs = ["/etc/cdi", "/var/run/cdi"]

[nvidia-container-runtime.modes.csv]
mount-spec-path = "/etc/nvidia-container-runtime/host-files-for-container.d"

[nvidia-container-runtime.modes.legacy]
cuda-compat-mode = "ldconfig"

[nvidia-container-runtime-hook]
path = "nvidia-container-runtime-hook"
skip-mode-detection = false

[nvidia-ctk]
path = "nvidia-ctk"
"""
_MORE = {
    "nvidia-container-cli.no-pivot": bool,
    "nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags": list,
    "features.allow-cuda-compat-libs-from-container": bool,
    "features.allow-ldconfig-from-container": bool,
    "features.disable-cuda-compat-lib-hook": bool,
    "features.disable-imex-channel-creation": bool,
    "features.ignore-imex-channel-requests": bool,
    "minirun.toolkit-version": str,
}
"""Keys that the default file does not have → their types."""
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""Go's strconv.ParseBool."""


def default() -> str:
    """Return the text of the default file on this host."""
    text = _DEFAULT.replace(_LDCONFIG, f'"{ldconfig_of("@/sbin/ldconfig")}"')
    return text.replace(_USER, _USER.removeprefix("#")) if default_user() else text


def changed(path: str, settings: list[str]) -> str:
    """Return a file's text with `settings`, each KEY=VALUE, or KEY for true; nothing is written.

    Where the file is missing, the default one is changed. Raises UsageError, ConfigError.
    """
    there = os.path.exists(path)
    document = engine_files.read_toml(path) if there else tomlkit.parse(default())
    for text in settings:
        key, value = _setting(text)
        *tables, name = key.split(".")
        engine_files.table_at(document, tuple(tables), path)[name] = value
    return tomlkit.dumps(document)


def _setting(text: str) -> tuple[str, Any]:
    """Split KEY=VALUE; a list's items are separated by colons. Raises UsageError."""
    key, equals, value = text.partition("=")
    kind = _kinds().get(key)
    if kind is None:
        raise _refused(text, f'invalid config option: undefined field: "{key}"')
    if kind is bool and (not equals or value in _BOOLEANS):
        return key, _BOOLEANS[value or "1"]
    if not equals or kind is bool:
        raise _refused(
            text, f"invalid format: expected {key}={'true' if kind is bool else 'value'}"
        )
    return key, value.split(":") if kind is list else value


def _refused(text: str, why: str) -> UsageError:
    return UsageError(f"invalid --set option {text}: {why}", "as in --set disable-require=true", 1)


def _kinds() -> dict[str, type]:
    """Return key → type, of the default file's keys, and of those that it has as comments."""
    found: dict[str, type] = {}

    def walk(table: dict[str, Any], above: str) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                walk(value, f"{above}{name}.")
            else:
                found[above + name] = type(value)

    walk(tomllib.loads(_DEFAULT.replace("#", "")), "")
    return found | _MORE
