"""`minirun teach`: lessons and checks. `teach oracle` compares the log with what strace saw."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from minirun.cli import GLOBAL_FLAGS
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core import state
from minirun.core.errors import StateError, UsageError
from minirun.core.settings import Settings

FLAGS = (HELP,)
SUMMARY = """Lessons and checks that run minirun itself.

  oracle [flags] -- COMMAND …   is the log true, and is it whole? strace is the witness"""

ORACLE_FLAGS = (
    Flag(("--verbose",), "", "show every event beside its system call, not only how many"),
    Flag(("--json",), "", "print the report as JSON; the command's stdout goes to stderr then"),
    Flag(("--keep",), "FILE", "keep what strace has written in FILE"),
    HELP,
)
ORACLE_SUMMARY = """Run a minirun command under strace, and compare, event by event, both ways:

  untrue     the log tells of a system call that strace did not see so
  missing    strace saw a system call that makes the container, and the log does not tell it

COMMAND is any command line of minirun's that makes, enters or removes a container:
  minirun teach oracle -- run --rm --gpus 0,1 ubuntu true
The exit status is 0 where both agree, whatever the command's own was, else 1."""


def main(args: "list[str]", settings: Settings) -> int:
    """Run a lesson or a check, or list them."""
    flags = parse("teach", FLAGS, args)
    if flags.help or not flags.args:
        sys.stdout.write(usage("teach", "LESSON …", SUMMARY, FLAGS))
        return 0
    if flags.args[0] != "oracle":
        raise UsageError(f"unknown lesson {flags.args[0]!r}", "minirun teach lists them", 1)
    return oracle(flags.args[1:], settings)


def oracle(args: "list[str]", settings: Settings) -> int:
    """Run a command under strace and report; return 0 where log and strace agree, else 1.

    Raises MinirunError: no strace, nothing to compare.
    """
    flags = parse("teach oracle", ORACLE_FLAGS, args)
    if flags.help:
        sys.stdout.write(usage("teach oracle", "-- COMMAND …", ORACLE_SUMMARY, ORACLE_FLAGS))
        return 0
    if not flags.args:
        hint = "minirun teach oracle -- run --rm busybox true"
        raise UsageError("teach oracle needs a command of minirun's", hint, 1)
    from minirun.teach.oracle import report, witness

    with tempfile.TemporaryDirectory(prefix="minirun-oracle.") as directory:
        output = Path(directory, "strace")
        command = _command(settings, flags.args)
        join = _waiting(settings, flags.args)
        watched = witness.watch(command, output, join=join, stdout=2 if flags.json else None)
        if flags.keep:
            shutil.copy(output, flags.keep)
    found = witness.judge(watched)
    if flags.json:
        told = report.document(found, watched, flags.args, verbose=flags.verbose)
        sys.stdout.write(report.dumps(told))
    else:
        report.show(found, watched, verbose=flags.verbose)
    return 1 if found.untrue or found.missing else 0


def _waiting(settings: Settings, words: "list[str]") -> "tuple[int, ...]":
    """Return the pid of the init that `start ID` lets go on: most of what follows is its work."""
    options = parse("", GLOBAL_FLAGS, words)
    if options.args[:1] != ["start"]:
        return ()
    root = os.path.abspath(options.root) if options.root else settings.root
    try:
        record = state.load(root, options.args[-1])
    except StateError:
        return ()  # `start` will say so
    return (record["pid"],) if record["status"] == state.CREATED else ()


def _command(settings: Settings, words: "list[str]") -> "list[str]":
    """Return the command line of a minirun like this one, with its global flags before `words`."""
    mine = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    told = ["--root", settings.root, "--store", settings.store]
    told += ["--cgroup", settings.cgroup_version, "--log-format", settings.log_format]
    told += ["--log", settings.log] if settings.log else []
    told += ["--debug"] if settings.debug else []
    return [sys.executable, *mine, *told, *words]
