"""`minirun nvidia-container-cli`: the box of stage 5 as a program, in the place of NVIDIA's own.

Also what minirun is when it is called by that name (a link). Output, errors and exit status are the
real one's: errors are one line without advice (that goes to --debug), 1 is the status of all of
them. Where the real one says nothing although the container will not work, this says a warning.
"""

from __future__ import annotations

import os
import sys

from minirun import __version__
from minirun.core.errors import MinirunError, UsageError, reason
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean
from minirun.gpu import driverroot, simulated, trusted
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.cli import cli_args, compat, kmods, warn
from minirun.gpu.nvidia.cli.cli_args import NAME, CommandLine
from minirun.gpu.nvidia.cli.program import report
from minirun.gpu.nvidia.cli.program.configure import configure
from minirun.gpu.nvidia.cli.program.debug import DebugLog
from minirun.gpu.nvidia.shared import nvml, real
from minirun.gpu.nvidia.shared.catalog import LD_SO_CACHE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.cgroups.foreign import DeviceCgroup

_SIMULATED = "NO NVIDIA DRIVER BEHIND THIS: THE GPUS ARE SIMULATED (--gpu-driver=simulated)"

_COMMANDS = """
 Commands:
  info        Report information about the driver and devices
  list        List driver components
  configure   Configure a container with GPU support
"""


def main(
    args: list[str],
    settings: Settings,
    cgroup_of: Callable[[str], DeviceCgroup],
    simulation: str = "",
) -> int:
    """Run info, list or configure; return 0, or 1 after any error.

    `cgroup_of` returns the device cgroup of a process, by its name in /proc.
    `simulation` is what a simulated driver is to look like; "" for what $MINIRUN_SIM says.
    """
    try:
        line = _checked(cli_args.parse(args))
    except UsageError as error:
        texts = filter(None, (str(error), error.hint))
        sys.stderr.write("".join(f"{clean(text)}\n" for text in texts))
        return 1
    if line.help:
        sys.stdout.write(_help(line))
        return 0
    log = DebugLog("")
    try:
        log = DebugLog(line.request.debug)
        _run(line, _driver(line, settings.store, simulation, log), cgroup_of, log)
    except MinirunError as error:
        log.say(f"error: {error.line()}")
        hint = _hint(line) if str(error).startswith("initialization error") else ""
        sys.stderr.write(f"{NAME}: {clean(str(error))}{hint}\n")
        return 1
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        sys.stderr.write(f"{NAME}: {reason(error)}{clean(where)}\n")
        return 1
    return 0


def _hint(line: CommandLine) -> str:
    """Return what to do without a driver, for the end of an error; "" if one was chosen."""
    chosen = line.gpu_driver == "simulated" or os.environ.get("MINIRUN_SIM")
    if chosen or line.request.root.strip("/"):
        return ""
    hint = driverroot.hint_without_driver()
    return f" ({hint}, as --gpu-driver=simulated does)" if hint else ""


def _checked(line: CommandLine) -> CommandLine:
    """Return the line if what it says of a container can be. Raises UsageError."""
    request = line.request
    if line.command == "configure" and not line.help:
        if not request.rootfs.startswith("/") or request.rootfs == "/":
            raise UsageError(f"{NAME}: input error: invalid rootfs directory", status=1)
        if request.cuda_compat_mode not in ("", *compat.MODES):
            raise UsageError(f"{NAME}: input error: invalid cuda-compat-mode", status=1)
    return line


def _help(line: CommandLine) -> str:
    if line.help == "--version":
        return f"cli-version: {__version__} (minirun)\nlib-version: {__version__} (minirun)\n"
    first = cli_args.synopsis(line.command)
    first = first.replace(NAME, f"minirun {NAME} [flags]", 1)
    text = f"{first}\n\n Options:\n{cli_args.OPTIONS[line.command]}"
    return text if line.command else text + _COMMANDS


def _run(
    line: CommandLine, found: Inventory, cgroup_of: Callable[[str], DeviceCgroup], log: DebugLog
) -> None:
    """Do what the line says. Raises MinirunError, OSError."""
    if line.command == "configure":
        for notice in warn.check(found, line.request, line.request.ldcache):
            sys.stderr.write(f"{NAME}: warning: {clean(str(notice))}\n")
        configure(line, found, log, cgroup_of)
        return
    log.driver(found)
    if line.command == "info":
        lines = report.info(found, "--csv" in line.words)
    else:
        lines = report.listing(found, line.request, frozenset(line.words), line.is_bare)
    sys.stdout.write("".join(f"{clean(text)}\n" for text in lines))


def _driver(line: CommandLine, store: str, simulation: str, log: DebugLog) -> Inventory:
    """Return what the host has, after loading its modules where that is asked for."""
    request = line.request
    user = nvml.user_of(request.user)
    chosen = line.gpu_driver or ("simulated" if os.environ.get("MINIRUN_SIM") else "nvidia")
    if chosen == "simulated":
        sys.stderr.write(f"{NAME}: {_SIMULATED}\n")
        log.started(request, user, "none: SIMULATED")
        found = simulated.inventory(store, simulation)
    elif chosen == "nvidia":
        cache = request.ldcache or LD_SO_CACHE
        log.started(request, user, cache)
        root = trusted.check(request.root)
        if request.load_kmods and not driverroot.is_wsl():
            channels = () if request.no_create_imex_channels else request.imex_channels
            kmods.load(root, channels, log.say)
        found = real.inventory(root, cache, strict=True, user=user)
    else:
        raise UsageError(f"unknown gpu driver: {chosen}", "nvidia or simulated")
    return found
