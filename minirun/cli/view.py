"""What `run` shows while a container starts: from its flags to the processes that look on."""

import os

from minirun.cli.run import Run
from minirun.core import gates
from minirun.core.errors import UsageError
from minirun.show.viewers import LogViewers, ViewOptions


def viewers(flags: Run, *, show: bool) -> LogViewers:
    """Return who looks on; with `show` on standard error. Raises UsageError, OSError."""
    step = flags.step or ("stage" if flags.script else "")
    if step not in ("", "stage", gates.EVERY_EVENT):
        raise UsageError(f"invalid --step {step!r}", "--step, or --step=syscall")
    if flags.script:
        from minirun.show import keys  # 40 ms

        keys.read_script(flags.script)  # its mistakes are told before anything is made
    elif step and (flags.detach or not os.isatty(0)):
        hint = "or play the keys of a file: --script FILE"
        raise UsageError("--step needs a terminal to read keys from", hint)
    plain = flags.plain or flags.progress == "plain"
    return LogViewers(ViewOptions(show, plain, step, flags.script, flags.snapshots))
