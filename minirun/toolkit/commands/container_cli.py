"""`minirun nvidia-container-cli` and `nvidia-container-runtime-hook`: stages 5 and 4 as programs.

runc and podman can call the hook. Its flags are Go's (-debug and --debug are the same), its exit
status and its words the real one's: 2 for a wrong use, 1 for a failure. Without a driver it fails,
as the real one does; the simulated driver is taken only if MINIRUN_SIM asks for it, in the hook's
environment or in config.toml's nvidia-container-cli.environment. It runs as a hook of any runtime:

    "hooks": {"prestart": [{"path": "/usr/local/bin/minirun",
                            "args": ["minirun", "nvidia-container-runtime-hook", "prestart"]}]}
"""

from __future__ import annotations

import os
import sys

from minirun import __version__
from minirun.cgroups import foreign
from minirun.cli.flags import Flags, HelpAsked
from minirun.core.errors import MinirunError, from_os
from minirun.core.keeping.settings import Settings
from minirun.gpu.nvidia.cli.program import main as nvidia_container_cli
from minirun.gpu.nvidia.hook import program as prestart
from minirun.gpu.nvidia.shared import config


def main_nvidia_container_cli(args: list[str], settings: Settings) -> int:
    """Be nvidia-container-cli: minirun.gpu.nvidia.cli.program.main."""
    return nvidia_container_cli.main(args, settings, foreign.of_process)


class Hook(Flags):
    """The prestart hook."""

    command = "nvidia-container-runtime-hook"
    mixed = False
    config: str
    debug: bool
    version: bool


def main_nvidia_container_runtime_hook(args: list[str], settings: Settings) -> int:
    """Run the hook; return its exit status."""
    flags = Hook(args)
    if flags.version or flags.args[:1] == ["version"]:
        sys.stdout.write(f"NVIDIA Container Runtime Hook version {__version__} (minirun)\n")
        return 0
    if flags.args[:1] not in (["prestart"], ["poststart"], ["poststop"]):
        raise HelpAsked(flags, 2, 2)
    if flags.args[0] != "prestart":
        return 0
    try:
        return _prestart(flags.config, settings, debug=flags.debug)
    except (MinirunError, OSError) as error:
        return _fail(from_os(error) if isinstance(error, OSError) else error)


def _prestart(path: str, settings: Settings, *, debug: bool) -> int:
    toolkit = config.load(path)
    argv = prestart.arguments(sys.stdin.read(), toolkit, debug=debug)
    if argv is None:
        return 0
    if toolkit.cli_path:
        prestart.execute(argv, toolkit)
    simulation = prestart.environment(toolkit).get("MINIRUN_SIM") or os.environ.get("MINIRUN_SIM")
    if simulation:
        argv = ["--gpu-driver=simulated", *argv]
    return nvidia_container_cli.main(argv, settings, foreign.of_process, simulation or "")


def _fail(error: MinirunError) -> int:
    """Say why, in the real hook's words; then what to do, where that is known."""
    prestart.print_line(str(error))
    if error.hint:
        prestart.print_line(f"hint: {error.hint}")
    return 1
