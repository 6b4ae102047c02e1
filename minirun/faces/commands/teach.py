"""`minirun teach oracle`: the log of a command beside what strace saw of it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from minirun.cli import GlobalFlags
from minirun.cli.flags import Flags, HelpAsked
from minirun.common import called, naming
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy

with lazy:
    from minirun.faces.teach.oracle import (
        report,  # 50 ms
        witness,  # 50 ms
    )


class Teach(Flags):
    """Lessons and checks."""

    command, mixed = "teach", False


class Oracle(Flags):
    """Log against strace."""

    command, mixed = "teach oracle", False
    verbose: bool
    json: bool
    keep: str


def main_teach(args: list[str], settings: Settings) -> int:
    """Run a lesson or a check, or list them."""
    flags = Teach(args)
    if not flags.args:
        raise HelpAsked(flags)
    if flags.args[0] != "oracle":
        raise UsageError(f"unknown lesson {flags.args[0]!r}", "minirun teach lists them", 1)
    return _oracle(flags.args[1:], settings)


def _oracle(args: list[str], settings: Settings) -> int:
    """Run a command under strace and report; return 0 where log and strace agree, else 1.

    Raises MinirunError: no strace, nothing to compare.
    """
    flags = Oracle(args)
    if not flags.args:
        hint = "minirun teach oracle -- run --rm busybox true"
        raise UsageError("teach oracle needs a command of minirun's", hint, 1)
    with tempfile.TemporaryFile() as file:  # without a name, so that a killed oracle leaves none
        output = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        command = _command(settings, flags.args)
        join = _waiting(settings, flags.args)
        watched = witness.watch(command, output, join=join, stdout=2 if flags.json else None)
        if flags.keep:
            shutil.copy(output, flags.keep)
    found = witness.judge(watched)
    if flags.json:
        told = report.document(found, watched, flags.args, verbose=flags.verbose)
        print(json.dumps(told, indent=2))
    else:
        report.show(found, watched, verbose=flags.verbose)
    return 1 if found.untrue or found.missing else 0


def _waiting(settings: Settings, words: list[str]) -> tuple[int, ...]:
    """Return the pid of the init that `start ID` lets go on: most of what follows is its work."""
    options = GlobalFlags(words)
    if options.args[:1] != ["start"]:
        return ()
    root = os.path.abspath(options.root) if options.root else settings.root
    try:
        record = naming.record_of(root, options.args[-1])
    except StateError:
        return ()  # `start` will say so
    return (record.pid,) if record.status == state.CREATED else ()


def _command(settings: Settings, words: list[str]) -> list[str]:
    """Return the command line of a minirun like this one, with its global flags before `words`."""
    told = ["--root", settings.root, "--store", settings.store]
    told += ["--cgroup", settings.cgroup_version, "--log-format", settings.log_format]
    told += ["--log", settings.log] if settings.log else []
    told += ["--debug"] if settings.debug else []
    return [*called.program(), *told, *words]
