"""`minirun nvidia-container-runtime`: runc with GPUs: minirun.gpu.nvidia.runtime.wrapper.

Its arguments are those of the runtime underneath, which gets them all; only a lone --help is its
own. nvidia-container-runtime.legacy and .cdi, by which the real package fixes the mode, are the
same with `mode` set in config.toml.
"""

import os
import sys

from minirun import __version__
from minirun.core.errors import MinirunError, from_os
from minirun.core.settings import Settings
from minirun.gpu.nvidia.runtime import config, wrapper
from minirun.gpu.nvidia.runtime.log import ToolkitLog

HELP = f"""Usage: minirun {wrapper.NAME} [flags] COMMAND [ARG…]

Call a runtime (config.toml: runc or crun) with these arguments; before `create`, add the
GPUs to config.json that the container's environment or annotations ask for.

Flags:
  -h, --help  show this help and exit
"""


def main(args: "list[str]", settings: Settings) -> int:
    """Prepare, and become the runtime underneath; return 1 where that fails."""
    if args in (["--help"], ["-h"]):
        sys.stdout.write(HELP)
        return 0
    if "--version" in args or "-version" in args:
        sys.stdout.write(f"NVIDIA Container Runtime version {__version__} (minirun)\n\n")
        sys.stdout.flush()
    log = ToolkitLog("error")
    try:
        toolkit = config.load()
        log = wrapper.logger(args, toolkit)
        wrapper.prepare(args, toolkit, log)
        wrapper.execute(args, toolkit, log)
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
