"""`python -m minirun`, and the entry point of the installed command."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> int:
    """Run the command line; return its exit status."""
    from minirun import cli
    from minirun.process import streams

    streams.open_stdio()
    code = cli.main()
    try:
        sys.stdout.flush()
    except OSError:  # whoever read our output has gone
        return code or 1
    return code


def start() -> "NoReturn":
    """Run the command line and end: nothing is left to finalize, and doing so would take 1 ms."""
    os._exit(main())


if __name__ == "__main__":
    start()
