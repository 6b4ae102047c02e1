"""nvidia-container-runtime-hook prestart: state JSON on stdin → nvidia-container-cli's arguments.

The arguments are minirun.gpu.nvidia.hook's; around them are config.toml, the mode, and what the
real hook prints on stderr, in its words: a runtime shows them when the hook fails. The real one
then executes nvidia-container-cli, and so does this if config.toml names one.
"""

from __future__ import annotations

import os

from minirun.core.config import environment_of
from minirun.core.errors import ConfigError, GPUError, reason
from minirun.core.keeping import jsonlite, places
from minirun.core.keeping.state import read_text
from minirun.core.keeping.visible import clean
from minirun.gpu.cdi import names
from minirun.gpu.nvidia import hook
from minirun.gpu.nvidia.shared.config import Toolkit
from minirun.gpu.nvidia.shared.environment import listed, of_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_NOT_LEGACY = (
    "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) "
    "is not supported. Please use the NVIDIA Container Runtime (e.g. specify the --runtime=nvidia "
    "flag) instead."
)
_IGNORED = (
    "Ignoring devices specified in NVIDIA_VISIBLE_DEVICES (privileged=false, "
    "accept-nvidia-visible-devices-envvar-when-unprivileged=false) "
)


def arguments(text: str, toolkit: Toolkit, *, debug: bool = False) -> list[str] | None:
    """Return nvidia-container-cli's arguments for the container whose state is `text`.

    None: it asks for no GPU. Says on stderr what the real hook says. Raises ConfigError, GPUError.
    """
    state = _object(text, "stdin", "could not decode container state")
    if not isinstance(state.get("pid"), int) or not isinstance(state.get("bundle"), str):
        raise ConfigError("stdin: the container's state has no pid or no bundle", status=1)
    config = _config(state["bundle"])
    settings = toolkit.hook
    if debug:
        settings = settings._replace(options=settings.options._replace(debug="/dev/stderr"))
    _check_names(config, toolkit)
    argv = hook.command_line(config, state, settings)
    if argv:
        _check_mode(toolkit)
    elif not settings.accept_env_unprivileged:
        open_settings = settings._replace(accept_env_unprivileged=True)
        if hook.command_line(config, state, open_settings):
            print_line(_IGNORED)
    return argv


def execute(argv: list[str], toolkit: Toolkit) -> NoReturn:
    """Become the nvidia-container-cli that config.toml names. Raises GPUError."""
    env = {**os.environ, **environment(toolkit)}
    try:
        os.execve(toolkit.cli_path, [toolkit.cli_path, *argv], env)
    except OSError as error:
        hint = f"nvidia-container-cli.path in {toolkit.source}"
        what = reason(error)
        raise GPUError(f"exec failed: {toolkit.cli_path}: {what}", hint, status=1) from None


def environment(toolkit: Toolkit) -> dict[str, str]:
    """Return what config.toml adds to nvidia-container-cli's environment."""
    return environment_of(toolkit.cli_environment)


def print_line(text: str) -> None:
    """Print a line on stderr."""
    os.write(2, f"{clean(text)}\n".encode())


def _check_names(config: dict[str, Any], toolkit: Toolkit) -> None:
    """Refuse devices that all have full names of CDI: mode auto means cdi then. Raises GPUError."""
    asked = listed(of_config(config), toolkit.hook.swarm_resources)
    if toolkit.mode != "auto" or toolkit.skip_mode_detection or not asked:
        return
    if all(map(names.is_qualified, asked)):
        print_line("Auto-detected mode as 'cdi'")
        raise GPUError(_NOT_LEGACY, f"{asked[0]} is the name of a cdi device: --device", status=1)


def _check_mode(toolkit: Toolkit) -> None:
    """Refuse a mode in which the runtime, not the hook, does the work. Raises GPUError."""
    if toolkit.skip_mode_detection:
        return
    if toolkit.mode == "auto":
        print_line("Auto-detected mode as 'legacy'")
        return
    print_line(f"Using requested mode '{toolkit.mode}'")
    if toolkit.mode != "legacy":
        raise GPUError(_NOT_LEGACY, f"nvidia-container-runtime.mode in {toolkit.source}", status=1)


def _config(bundle: str) -> dict[str, Any]:
    path = f"{bundle}/{places.CONFIG}"
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"could not open OCI spec: {error}", status=1) from None
    config = _object(text, path, "could not decode OCI spec")
    for key, name in (("ociVersion", "Version"), ("process", "Process"), ("root", "Root")):
        if config.get(key) is None:
            raise ConfigError(f"{name} is empty in OCI spec", status=1)
    if not isinstance(config.get("root"), dict) or not isinstance(config["root"].get("path"), str):
        raise ConfigError(f"{path}: root.path is missing", status=1)
    return config


def _object(text: str, where: str, what: str) -> dict[str, Any]:
    try:
        value = jsonlite.loads(text)
    except ValueError as error:
        raise ConfigError(f"{what}: {where}: {error}", status=1) from None
    if not isinstance(value, dict):
        raise ConfigError(f"{what}: {where}: it is no object", status=1)
    return value
