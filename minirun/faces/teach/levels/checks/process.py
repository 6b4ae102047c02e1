"""Level 0, and what holds on every level: a command runs, and its end is reported."""

from __future__ import annotations

import os
import signal

from minirun.faces.teach.levels import tried
from minirun.faces.teach.levels.tried import Done, NotYet, TriedProgram

_SIGPIPE = 1 << (signal.SIGPIPE - 1)


def it_runs(program: TriedProgram) -> None:
    """The command runs, and gets its words as they are."""
    done = program.run("/bin/echo", "a  b", "$HOME")
    if done.out != "a  b $HOME\n":
        key = "words-changed" if done.out else "command-not-run"
        raise NotYet(key, done.out or done.said)
    if program.run("/bin/cat", text="from outside\n").out != "from outside\n":
        raise NotYet("no-stdin")


def gives_7(done: Done) -> None:
    """Raise NotYet if 7, the exit status of a command, has become another."""
    if done.status != 7:
        is_waits = done.status in (0, 7 << 8)  # a program's status has 8 bits
        raise NotYet("wait-status" if is_waits else "exit-status", str(done.status))


def exit_statuses(program: TriedProgram) -> None:
    """Its exit status is the command's.

    Of a command that cannot be executed an engine's runtime, level 9, gives an error of its own.
    """
    done = program.run("/bin/sh", "-c", "exit 7")
    gives_7(done)
    done = program.run("no-such-program")
    if program.number < 2 and len(done.err.strip().splitlines()) > 1:
        raise NotYet("child-goes-on", done.said)
    is_engines = program.number >= 9
    if done.status != 127 and not (is_engines and done.status):
        raise NotYet("not-found", done.crash or str(done.status))
    done = program.run("/etc")
    if done.status != 126 and not (is_engines and done.status):
        raise NotYet("not-executable", done.crash or str(done.status))


def it_forks(program: TriedProgram) -> None:
    """The command runs in a child: the program itself goes on."""
    with program.running("sleep", tried.SLEEP) as (started, pid):
        if pid == started.pid:
            raise NotYet("no-child")
        if (own := tried.command_of(pid)[0]) != "sleep":
            raise NotYet("words-changed", f"{own} {tried.SLEEP}")


def it_waits(program: TriedProgram) -> None:
    """It ends when the command has ended, and leaves no process."""
    done = program.run("/bin/sh", "-c", "sleep 0.4; echo end")
    if tried.living():
        raise NotYet("not-waited", done.said)
    if done.out != "end\n":
        it_runs(program)  # whose words say more
        raise NotYet("words-changed" if done.out else "command-not-run", done.out or done.said)


def killed(program: TriedProgram) -> None:
    """A command that a signal ends gives 128 and the signal."""
    with program.running("sleep", tried.SLEEP) as (started, pid):
        os.kill(pid, signal.SIGKILL)
        status = started.wait().status
        if status != 128 + signal.SIGKILL:
            raise NotYet("signal-status", str(status))


def signals(program: TriedProgram) -> None:
    """The command ignores no signal that this process does not ignore, and not SIGPIPE either.

    Python ignores SIGPIPE (and SIGXFSZ), and exec hands that on.
    """
    own = int(tried.status_field(os.getpid(), "SigIgn"), 16)
    with program.running("sleep", tried.SLEEP) as (_, pid):
        ignored = int(tried.status_field(pid, "SigIgn"), 16)
        if ignored & _SIGPIPE:
            raise NotYet("sigpipe-ignored")
        for number in signal.Signals:
            if ignored & ~own & 1 << (number - 1):
                raise NotYet("signal-ignored", number.name)


def in_path(program: TriedProgram) -> None:
    """A program is looked for in PATH."""
    done = program.run("true")
    if done.status:
        raise NotYet("no-path-search", done.said)
