"""`minirun nvidia-container-runtime-hook`: stage 4 as the program that runc and podman can call.

Its flags are Go's (-debug and --debug are the same), its exit status and its words the real one's:
2 for a wrong use, 1 for a failure. Without a driver it fails, as the real one does; the simulated
driver is taken only where MINIRUN_SIM asks for it, in the hook's environment or in config.toml's
nvidia-container-cli.environment. It runs as a hook of any runtime:

    "hooks": {"prestart": [{"path": "/usr/local/bin/minirun",
                            "args": ["minirun", "nvidia-container-runtime-hook", "prestart"]}]}
"""

import os
import sys

from minirun import __version__
from minirun.cli import nvidia_container_cli
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core.errors import MinirunError, from_os
from minirun.core.settings import Settings
from minirun.gpu.nvidia.hook import program as prestart
from minirun.gpu.nvidia.runtime import config

NAME = "nvidia-container-runtime-hook"
SUMMARY = """Turn a container's config.json into a call of nvidia-container-cli; its state is stdin.

  prestart    put the GPUs in that the container's environment asks for
  poststart   does nothing
  poststop    does nothing
  version     print the version and exit"""
FLAGS = (
    Flag(("--config",), "FILE", "config.toml (default: /etc/nvidia-container-runtime/config.toml)"),
    Flag(("--debug",), "", "let nvidia-container-cli tell on stderr what it does"),
    Flag(("--version",), "", "print the version and exit"),
    HELP,
)


def main(args: "list[str]", settings: Settings) -> int:
    """Run the hook; return its exit status."""
    flags = parse(NAME, FLAGS, [_long(word) for word in args])
    text = usage(NAME, "prestart|poststart|poststop|version", SUMMARY, FLAGS)
    if flags.help:
        sys.stdout.write(text)
        return 0
    if flags.version or flags.args[:1] == ["version"]:
        sys.stdout.write(f"NVIDIA Container Runtime Hook version {__version__} (minirun)\n")
        return 0
    if flags.args[:1] not in (["prestart"], ["poststart"], ["poststop"]):
        sys.stderr.write(text)
        return 2
    if flags.args[0] != "prestart":
        return 0
    try:
        return _prestart(flags.config, settings, debug=flags.debug)
    except OSError as error:
        return _fail(from_os(error))
    except MinirunError as error:
        return _fail(error)


def _long(word: str) -> str:
    """Write -debug as --debug."""
    return f"-{word}" if word.startswith("-") and word[1:2] != "-" and len(word) > 2 else word


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
    return nvidia_container_cli.main(argv, settings, simulation or "")


def _fail(error: MinirunError) -> int:
    """Say why, in the real hook's words; then what to do, where that is known."""
    prestart.print_line(str(error))
    if error.hint:
        prestart.print_line(f"hint: {error.hint}")
    return 1
