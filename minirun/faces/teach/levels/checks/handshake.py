"""Level 3: neither the runtime nor init waits for a process that has died."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from functools import partial

from minirun.faces.teach.levels import facts, tried
from minirun.faces.teach.levels.material import PROC
from minirun.faces.teach.levels.tried import NotYet, Started, TriedProgram, wait

DELAYS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)
"""When one side is killed: seconds after init has appeared."""


def errors_are_one_line(program: TriedProgram) -> None:
    """An error of init is said once, by the runtime, in one line."""
    done = program.run("no-such-program")
    if len(done.err.strip().splitlines()) != 1 or "no-such-program" not in done.err:
        raise NotYet("error-not-one-line", done.err.strip()[:300])
    lower, program.lower = program.lower, "/no/such/layer"
    try:
        done = program.run("true")
    finally:
        program.lower = lower
    if done.status == 0 or len(done.err.strip().splitlines()) != 1:
        raise NotYet("error-not-one-line", done.err.strip()[:300])


def init_dies(program: TriedProgram) -> None:
    """If init dies while it builds, the runtime ends, and not well.

    Once the kernel kills it at its first mount, so before it can say anything; then it is killed
    from outside, at several moments.
    """
    _has_ended(program.start(program.words("sleep", tried.SLEEP), before=tried.no_mounts))
    for delay in DELAYS:
        started = program.start(program.words("sleep", tried.SLEEP))
        pid = wait(partial(facts.init_of, started.pid))
        time.sleep(delay)
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _has_ended(started)


def _has_ended(started: Started) -> None:
    """Wait for a runtime whose init has died. Raises NotYet if it waits on, or has not seen it."""
    try:
        done = started.wait()
    except NotYet as finding:
        is_hanging = finding.key == "hangs"
        raise NotYet("runtime-waits-for-ever") if is_hanging else finding from None
    finally:
        started.end()
    if done.status == 0:
        raise NotYet("death-of-init-unseen")


def runtime_dies(program: TriedProgram) -> None:
    """If the runtime is killed, init does not stay."""
    for delay in DELAYS:
        started = program.start(program.words("sleep", tried.SLEEP))
        try:
            wait(partial(facts.init_of, started.pid))
            time.sleep(delay)
            started.kill()
            if wait(lambda: not tried.living(), 2.0):
                continue
            raise NotYet("init-stays", " ".join(tried.command_of(tried.living()[0])))
        finally:
            started.end()
    with program.running("sleep", tried.SLEEP) as (started, _):
        started.kill()
        if not wait(lambda: not tried.living(), 2.0):
            raise NotYet("init-stays", " ".join(tried.command_of(tried.living()[0])))


def no_descriptor_leaks(program: TriedProgram) -> None:
    """The command has its three streams, and no end of the FIFOs."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        links = {fd: os.readlink(f"{PROC}/{pid}/fd/{fd}") for fd in os.listdir(f"{PROC}/{pid}/fd")}
        if more := sorted(set(links) - {"0", "1", "2"}):
            raise NotYet("descriptor-leaked", f"{more[0]} → {links[more[0]]}")
