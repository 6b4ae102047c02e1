"""nvidia-container-runtime: a thin program that an engine calls in place of runc.

`create` first rewrites config.json in the bundle; then, as with every other command, the program
becomes the runtime underneath (execve), with the same arguments. So the engine talks to that
runtime, and nothing of this program is left.

    mode legacy     adds the prestart hook, which does the work later, in stage 4 and 5, and with
                    graphics or display what the loaders of Vulkan, EGL and X11 read; and with
                    NVIDIA_GDS=enabled and the like what stands beside GPUs
    mode cdi        puts the edits of the CDI devices that are asked for into config.json
    mode auto       as the real runtime since 1.18: edits made on the spot for these GPUs

Its arguments are those of the runtime underneath, which gets them all; only a lone --help is its
own. nvidia-container-runtime.legacy and .cdi, by which the real package fixes the mode, are the
same with `mode` set in config.toml. Simplified: mode csv (Tegra boards) is refused.
"""

from __future__ import annotations

import os
import sys

from minirun import __version__
from minirun.core import rings
from minirun.core.config import GPU_HOOK
from minirun.core.errors import ConfigError, GPUError, MinirunError, from_os, reason
from minirun.core.keeping import jsonlite, places
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.state import read_text
from minirun.core.lazy import lazy
from minirun.gpu.nvidia.shared import lookup, versions
from minirun.gpu.nvidia.shared.config import Toolkit, load
from minirun.gpu.nvidia.shared.log import LogFile, ToolkitLog

with lazy:
    from minirun.toolkit.runtime import devices, graphics  # of `create` alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NAME = "nvidia-container-runtime"
_VALUES = ("--root", "--log", "--log-format", "--criu", "--store", "--cgroup")
"""Global flags of runc and minirun whose value is the next word."""
_FAILED = "could not apply required modification to OCI specification: error modifying OCI spec"
HELP = f"""Usage: minirun {NAME} [flags] COMMAND [ARG…]

Call a runtime (config.toml: runc or crun) with these arguments; before `create`, add the
GPUs to config.json that the container's environment or annotations ask for.

Flags:
  -h, --help  show this help and exit
"""


def main(args: list[str], settings: Settings) -> int:
    """Prepare, and become the runtime underneath; return 1 where that fails."""
    if args in (["--help"], ["-h"]):
        sys.stdout.write(HELP)
        return 0
    if "--version" in args or "-version" in args:
        sys.stdout.write(f"NVIDIA Container Runtime version {__version__} (minirun)\n\n")
        sys.stdout.flush()
    log = ToolkitLog("error")
    try:
        toolkit = load()
        log = logger(args, toolkit)
        prepare(args, toolkit, log, settings.store)
        execute(args, toolkit, log)
    except OSError as error:
        return _fail(from_os(error), log)
    except MinirunError as error:
        return _fail(error, log)


def _fail(error: MinirunError, log: ToolkitLog) -> int:
    try:
        log.error(error.line())
    except OSError as other:  # the log file: the error itself has been printed
        os.write(2, f"{from_os(other).line()}\n".encode())
    return 1


def command(args: list[str]) -> str:
    """Return which command of runc `args` call; "" for none."""
    words = iter(args)
    for word in words:
        if not word.startswith("-"):
            return word
        if _long(word) in _VALUES:
            next(words, "")
    return ""


def value_of(args: list[str], *names: str) -> str:
    """Return the value of a flag, in whichever of runc's ways it is written; "" where it is not."""
    for at, word in enumerate(args):
        name, equals, value = _long(word).partition("=")
        if word.startswith("-") and name in names:
            return value if equals else "".join(args[at + 1 : at + 2])
    return ""


def _long(word: str) -> str:
    """Write -name as --name: Go's flags take both."""
    return f"-{word}" if word.startswith("-") and not word.startswith("--") and word[2:3] else word


def logger(args: list[str], toolkit: Toolkit) -> ToolkitLog:
    """Return a log into the files of config.toml and of --log; only errors go to stderr."""
    files = [LogFile(toolkit.log_file, toolkit.log_level)] if toolkit.log_file else []
    if path := value_of(args, "--log"):
        as_json = value_of(args, "--log-format") == "json"
        files.append(LogFile(path, toolkit.log_level, as_json))
    return ToolkitLog("error", tuple(files))


def prepare(args: list[str], toolkit: Toolkit, log: ToolkitLog, store: str) -> None:
    """Rewrite config.json where `args` create a container. Raises MinirunError."""
    if command(args) != "create":
        return
    if _long(args[-1]) in ("--bundle", "-b"):
        raise ConfigError(f"{args[-1]}: bundle option requires an argument", status=1)
    bundle = value_of(args, "--bundle", "-b") or os.getcwd()
    path = f"{bundle}/{places.CONFIG}"
    try:
        config = rings.check_config(jsonlite.loads(read_text(path)))
    except (OSError, ValueError, ConfigError) as error:
        raise ConfigError(f"{_FAILED}: {path}: {error}", status=1) from None
    try:
        changed = modify(config, toolkit, log, store)
    except MinirunError as error:
        raise GPUError(f"{_FAILED}: {error}", error.hint, status=1) from None
    if changed:
        _replace(path, config)
        log.info(f"Applied required modification to {path}")


def modify(config: dict[str, Any], toolkit: Toolkit, log: ToolkitLog, store: str) -> bool:
    """Change a config.json as the mode wants it; return True if it did. Raises MinirunError."""
    if toolkit.mode == "csv":
        raise GPUError("mode csv is not supported", f"see mode in {toolkit.source}")
    if toolkit.mode == "auto" and toolkit.version == versions.LEGACY:
        legacy = not devices.named_only(config, toolkit, log)
    else:
        legacy = toolkit.mode == "legacy"
    if not legacy:
        removed = _remove_hook(config, log)
        return devices.apply(config, toolkit, log, store) or removed
    hooked = _add_hook(config, toolkit, log)
    return graphics.apply(config, toolkit) or hooked


def execute(args: list[str], toolkit: Toolkit, log: ToolkitLog) -> NoReturn:
    """Become the runtime underneath. Raises GPUError."""
    path = underneath(toolkit)
    log.info(f"Running {path} {' '.join(args)}")
    try:
        os.execve(path, [path, *args], os.environ)
    except OSError as error:
        raise GPUError(f"{path}: {reason(error)}", status=1) from None


def underneath(toolkit: Toolkit) -> str:
    """Return the path of the first runtime of config.toml that there is. Raises GPUError."""
    for name in toolkit.runtimes:
        path = lookup.program(name)
        if path and path.rpartition("/")[2] != NAME:
            return path
    candidates = f"[{' '.join(toolkit.runtimes)}]"
    hint = "nvidia-container-runtime.runtimes in config.toml names them"
    raise GPUError(f"no runtime binary found from candidate list: {candidates}", hint, status=1)


def _add_hook(config: dict[str, Any], toolkit: Toolkit, log: ToolkitLog) -> bool:
    hooks = config["hooks"] = config.get("hooks") or {}
    rows = hooks["prestart"] = hooks.get("prestart") or []
    if any(map(_is_hook, rows)):
        log.info("Existing nvidia prestart hook found in OCI spec")
        return False
    path = toolkit.hook_path if toolkit.hook_path.startswith("/") else ""
    path = path or lookup.program(toolkit.hook_path)
    own = lookup.this_program()
    if path:
        rows.append({"path": path, "args": [GPU_HOOK, "prestart"]})
    elif own and not own.rpartition("/")[2].startswith("nvidia-"):
        rows.append({"path": own, "args": ["minirun", GPU_HOOK, "prestart"]})
    else:
        rows.append({"path": f"/usr/bin/{GPU_HOOK}", "args": [GPU_HOOK, "prestart"]})
    log.info(f"Using prestart hook {rows[-1]['path']}")
    return True


def _remove_hook(config: dict[str, Any], log: ToolkitLog) -> bool:
    """Remove the hook that docker's --gpus added: the edits do its work. Return True if there
    was one."""
    hooks = config.get("hooks") or {}
    rows = hooks.get("prestart") or []
    others = [row for row in rows if not _is_hook(row)]
    if len(others) == len(rows):
        return False
    log.debug(f"Removing hook {GPU_HOOK}")
    hooks["prestart"] = others
    return True


def _is_hook(row: dict[str, Any]) -> bool:
    return row["path"].rpartition("/")[2] in (GPU_HOOK, "nvidia-container-toolkit")


def _replace(path: str, config: dict[str, Any]) -> None:
    """Write config.json anew in one step, with the mode that it has. Raises OSError."""
    mode = os.stat(path).st_mode & 0o777
    temporary = f"{path}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(jsonlite.dumps(config, indent=2).encode())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
