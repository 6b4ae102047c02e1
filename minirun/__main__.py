"""`python -m minirun`, and the entry point of the installed command."""

from __future__ import annotations

import os
import sys

from minirun.common import interrupts
from minirun.core.errors import SIGNALLED
from minirun.core.kernel import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def open_stdio() -> None:
    """Open /dev/null where the caller closed 0, 1 or 2, so that no other file lands there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the lowest number that is free is the one that open(2) takes
            os.set_inheritable(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), True)


def main() -> int:
    """Run the command line; return its exit status: 128 + n if signal n has ended it."""
    try:
        return _main()
    except BaseException as error:
        if number := interrupts.number_of(error):
            return SIGNALLED + number
        raise


def _main() -> int:
    """Set up signals and the standard streams, run the command line, return its exit status."""
    try:
        from minirun import cli
    except (OSError, ImportError) as error:  # no descriptor is left to open a file of the program
        os.write(2, f"minirun: cannot be loaded: {error} (ulimit -n)\n".encode())
        return 125
    if sys.platform == "linux":  # `replay` and `timeline FILE` run elsewhere too
        open_stdio()
        _forget_the_caller()
        interrupts.end_by_signals()
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # None where the caller had closed it
    sys.stderr = sys.stderr or open(2, "w", closefd=False)
    code = cli.main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, and knows it
        return code or 1
    except OSError as error:
        sys.stderr.write(f"minirun: standard output: {error.strerror}\n")
        return code or 1
    return code


def _forget_the_caller() -> None:
    """Undo what a caller may have set for its children and this program cannot live with.

    A umask that makes directories useless; signals blocked; SIGCHLD ignored, with which no exit
    status can be learnt: wait(2).
    """
    os.umask(0o022)
    signals.pthread_sigmask(signals.SIG_SETMASK, ())
    signals.signal(signals.SIGCHLD, signals.SIG_DFL)


def start() -> NoReturn:
    """Run the command line and end: nothing is left to finalize, and doing so would take 1 ms."""
    os._exit(main())


if __name__ == "__main__":
    start()
