"""`minirun nvidia-ctk runtime configure`: register a runtime with docker, containerd or cri-o."""

from __future__ import annotations

import os

from minirun.cli.flags import flag
from minirun.cli.output import write
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.commands.ctk import CtkFlags, unknown
from minirun.toolkit.ctk import engine_files, engines

_HOOK_MODES = ("oci-hook", "hook")
_FILE_MODES = ("", "config-file", "config")


class Configure(CtkFlags):
    """Add a runtime to an engine's configuration."""

    command = "nvidia-ctk runtime configure"
    runtime: str = flag(default="docker")
    config: str
    drop_in_config: str
    config_mode: str
    config_source: str = flag(default="file")
    executable_path: str
    oci_hook_path: str
    nvidia_runtime_name: str = flag(default="nvidia")
    nvidia_runtime_path: str = flag("--runtime-path")
    nvidia_runtime_hook_path: str = flag(default="/usr/bin/nvidia-container-runtime-hook")
    nvidia_set_as_default: bool = flag("--set-as-default")
    cdi__enabled: bool = flag("--cdi.enable", "--enable-cdi")
    dry_run: bool


def main(words: list[str], log: ToolkitLog, settings: Settings) -> int:
    """Run the command. Raises MinirunError, OSError."""
    if words[:1] != ["configure"]:
        raise unknown(["runtime", *words[:1]])
    flags = Configure(words[1:])
    if flags.config_mode in _HOOK_MODES:
        return _oci_hook(flags, log)
    if flags.config_mode not in _FILE_MODES:
        log.warning(f'Ignoring unsupported config mode for {flags.runtime}: "{flags.config_mode}"')
    setup = _engine_setup(flags, log)
    for file in engines.configure(setup, log):
        if flags.dry_run:
            if file.title:
                log.info(file.title)
            write(file.text)
        else:
            engine_files.save(file)
            log.info(f"Wrote updated config to {file.path}")
    if not flags.dry_run:
        log.info(f"It is recommended that {setup.engine} daemon be restarted.")
    return 0


def _oci_hook(flags: Configure, log: ToolkitLog) -> int:
    """Write a hook for the folders that podman and cri-o read, or print it. Raises UsageError."""
    log.warning(f'The "{flags.config_mode}" config-mode is deprecated')
    program = flags.nvidia_runtime_hook_path
    if not program.startswith("/"):
        what = f'the NVIDIA runtime hook path "{program}" is not an absolute path'
        raise UsageError(what, status=1)
    if not flags.oci_hook_path:
        return write(engines.oci_hook(program))
    engine_files.save(engine_files.Written(flags.oci_hook_path, engines.oci_hook(program), ""))
    return 0


def _engine_setup(flags: Configure, log: ToolkitLog) -> engine_files.EngineSetup:
    """Return what the flags ask for, checked as the real tool checks it. Raises UsageError."""
    engine = engines.ENGINES.get(flags.runtime)
    if engine is None:
        raise UsageError(f"unrecognized runtime '{flags.runtime}'", ", ".join(engines.ENGINES), 1)
    path = flags.nvidia_runtime_path or "nvidia-container-runtime"
    if path == "nvidia-container-runtime":
        path = engine.runtime
    if flags.runtime != "docker" and not path.startswith("/"):
        raise UsageError(f'the NVIDIA runtime path "{path}" is not an absolute path', status=1)
    drop_in = flags.drop_in_config if "drop_in_config" in flags.given else engine.drop_in
    if drop_in and flags.runtime == "docker":
        raise UsageError("runtime docker does not support drop-in configs", status=1)
    if drop_in and not drop_in.startswith("/"):
        raise UsageError(f'the drop-in-config path "{drop_in}" is not an absolute path', status=1)
    if flags.cdi__enabled and flags.runtime == "crio":
        log.warning("Ignoring cdi.enabled flag for crio")
    return engine_files.EngineSetup(
        engine=flags.runtime,
        config=os.path.abspath(flags.config or engine.config),
        drop_in=drop_in,
        name=flags.nvidia_runtime_name,
        path=path,
        default=flags.nvidia_set_as_default,
        cdi=flags.cdi__enabled,
        commands=_commands(flags, engine, log),
    )


def _commands(
    flags: Configure, engine: engines.Engine, log: ToolkitLog
) -> tuple[tuple[str, ...], ...]:
    """Return the commands that print the configuration; none for the file. Raises UsageError."""
    if flags.config_source not in ("command", "file"):
        what = f"unrecognized Config Source: {flags.config_source}"
        raise UsageError(what, "command or file", 1)
    if flags.executable_path and not engine.commands:
        log.warning(f'Ignoring executable-path="{flags.executable_path}" flag for {flags.runtime}')
    if flags.config_source == "file":
        return ()
    if not engine.commands:
        log.warning(f"A command Config Source is not supported for {flags.runtime}; using file")
        return ()
    first, *others = engine.commands
    return ((flags.executable_path or first[0], *first[1:]), *others)
