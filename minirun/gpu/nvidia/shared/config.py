"""config.toml of the container toolkit: one file for the hook, the runtime and nvidia-ctk.

The real programs look in $NVIDIA_CTK_CONFIG_FILE_PATH, $XDG_CONFIG_HOME/nvidia-container-runtime
and /etc/nvidia-container-runtime, and take their own defaults where there is no file; so do these.
They skip a key that they do not know, and a value of another type; here a wrong type is an error.
"""

from __future__ import annotations

from minirun.core.errors import ConfigError
from minirun.core.keeping.record import Record
from minirun.core.keeping.state import read_text
from minirun.core.lazy import lazy
from minirun.gpu.asked.request import CAPABILITIES, NvidiaRequest
from minirun.gpu.nvidia.shared import versions
from minirun.gpu.nvidia.shared.environment import (
    HookSettings,
    config_path,
    default_user,
    ldconfig_of,
)

with lazy:
    import tomllib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LEVELS = ("trace", "debug", "info", "warning", "warn", "error", "fatal", "panic")
MODES = ("auto", "legacy", "cdi", "csv", "jit-cdi")
_COMPAT = "nvidia-container-runtime.modes.legacy.cuda-compat-mode"
_HOOK = "hook"
_COMPAT_MODES = ("", "mount", "ldconfig", "disabled", _HOOK)


class Toolkit(Record):
    """All of config.toml that has an effect here; `source` is the file, "" for none."""

    source: str
    hook: HookSettings
    """What the hook passes to nvidia-container-cli."""
    cli_path: str
    """A nvidia-container-cli to execute; "" for minirun's own."""
    cli_environment: tuple[str, ...]
    skip_mode_detection: bool
    hook_path: str
    ctk_path: str
    mode: str
    runtimes: tuple[str, ...]
    log_file: str
    log_level: str
    annotation_prefixes: tuple[str, ...]
    default_kind: str
    spec_dirs: tuple[str, ...]
    feature_flags: tuple[str, ...]
    """Of edits that are made on the spot; one has an effect: minirun.gpu.nvidia.specs.recipe."""
    compat_hook: bool
    """Mode legacy adds hooks for the image's CUDA libraries (minirun.toolkit.runtime.gated)."""
    version: str
    """The version of the real toolkit to behave as: minirun.gpu.nvidia.shared.versions."""


def load(path: str = "") -> Toolkit:
    """Read `path`, which must be there, or the usual config.toml. Raises ConfigError."""
    source = path or config_path()
    try:
        text = read_text(source)
    except FileNotFoundError:
        if path:
            raise ConfigError(f"{path}: no such file", status=1) from None
        return parse("", "")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{source}: {error}", status=1) from None
    return parse(text, source)


def parse(text: str, source: str) -> Toolkit:
    """Return what the text of a config.toml says. Raises ConfigError."""
    tables: dict[str, Any] = {}
    if text:
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{source}: {error}", status=1) from None
    return _toolkit(_ConfigReader(tables, source))


class _ConfigReader:
    """Values by dotted key, each checked for its type."""

    def __init__(self, tables: dict[str, Any], source: str) -> None:
        self.tables = tables
        self.source = source

    def text(self, key: str, default: str = "", choice: tuple[str, ...] = ()) -> str:
        """Return a string. Raises ConfigError."""
        value: str = self._value(key, str, default, "a string")
        if choice and value not in choice:
            self._fail(key, f"{value!r} is none of {', '.join(choice)}")
        return value

    def switch(self, key: str, default: bool = False) -> bool:
        """Return a boolean. Raises ConfigError."""
        value: bool = self._value(key, bool, default, "true or false")
        return value

    def words(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of strings; one string is a list of one. Raises ConfigError."""
        value = self._value(key, (list, str), list(default), "a list of strings")
        rows = [value] if isinstance(value, str) else value
        if not all(isinstance(row, str) for row in rows):
            self._fail(key, "expected a list of strings")
        return tuple(rows)

    def _value(self, key: str, kind: Any, default: Any, expected: str) -> Any:
        table: Any = self.tables
        names = key.split(".")
        for at, name in enumerate(names):
            if not isinstance(table, dict):
                self._fail(".".join(names[:at]), "expected a table")
            table = table.get(name)
            if table is None:
                return default
        if not isinstance(table, kind):
            self._fail(key, f"expected {expected}")
        return table

    def _fail(self, key: str, what: str) -> None:
        raise ConfigError(f"{self.source}: {key}: {what}", status=1)


def _toolkit(read: _ConfigReader) -> Toolkit:
    runtime = "nvidia-container-runtime"
    return Toolkit(
        source=read.source,
        hook=_hook(read),
        cli_path=read.text("nvidia-container-cli.path"),
        cli_environment=read.words("nvidia-container-cli.environment"),
        skip_mode_detection=read.switch(f"{runtime}-hook.skip-mode-detection"),
        hook_path=read.text(f"{runtime}-hook.path") or "nvidia-container-runtime-hook",
        ctk_path=read.text("nvidia-ctk.path") or "nvidia-ctk",
        mode=read.text(f"{runtime}.mode", "auto", MODES),
        runtimes=read.words(f"{runtime}.runtimes", ("runc", "crun")),
        log_file=read.text(f"{runtime}.debug"),
        log_level=read.text(f"{runtime}.log-level", "info", LEVELS),
        annotation_prefixes=read.words(
            f"{runtime}.modes.cdi.annotation-prefixes", ("cdi.k8s.io/",)
        ),
        default_kind=read.text(f"{runtime}.modes.cdi.default-kind", "nvidia.com/gpu"),
        spec_dirs=read.words(f"{runtime}.modes.cdi.spec-dirs", ("/etc/cdi", "/var/run/cdi")),
        feature_flags=read.words(f"{runtime}.modes.jit-cdi.nvcdi-feature-flags"),
        compat_hook=read.text(_COMPAT) == _HOOK
        and not read.switch("features.disable-cuda-compat-lib-hook"),
        version=read.text("minirun.toolkit-version", versions.LATEST, versions.VERSIONS),
    )


def _hook(read: _ConfigReader) -> HookSettings:
    cli, accept = "nvidia-container-cli", "accept-nvidia-visible-devices"
    compat = read.text(_COMPAT, choice=_COMPAT_MODES)
    options = NvidiaRequest(
        root=read.text(f"{cli}.root"),
        load_kmods=read.switch(f"{cli}.load-kmods", True),
        no_pivot=read.switch(f"{cli}.no-pivot"),
        debug=read.text(f"{cli}.debug"),
        ldcache=read.text(f"{cli}.ldcache"),
        user=read.text(f"{cli}.user", default_user()),
        ldconfig=ldconfig_of(read.text(f"{cli}.ldconfig") or "@/sbin/ldconfig"),
        no_cgroups=read.switch(f"{cli}.no-cgroups"),
        cuda_compat_mode="disabled" if compat == _HOOK else compat,
        no_create_imex_channels=read.switch("features.disable-imex-channel-creation"),
    )
    return HookSettings(
        options=options,
        disable_require=read.switch("disable-require"),
        supported_capabilities=_capabilities(read),
        swarm_resources=tuple(
            name.strip() for row in read.words("swarm-resource") for name in row.split(",")
        ),
        accept_env_unprivileged=read.switch(f"{accept}-envvar-when-unprivileged", True),
        accept_volume_mounts=read.switch(f"{accept}-as-volume-mounts"),
        ignore_imex_channels=read.switch("features.ignore-imex-channel-requests"),
    )


def _capabilities(read: _ConfigReader) -> tuple[str, ...]:
    """Return supported-driver-capabilities, sorted; the error is in the real hook's words."""
    key = "supported-driver-capabilities"
    text = read.text(key, "all")
    wanted = {name.strip() for name in text.split(",") if name.strip()}
    if "all" in wanted:
        return CAPABILITIES
    if wanted - set(CAPABILITIES):
        rest = f"{text} (supported: {','.join(CAPABILITIES)})"
        raise ConfigError(f"Invalid value for config option '{key}'; {rest}", status=1)
    return tuple(name for name in CAPABILITIES if name in wanted)
