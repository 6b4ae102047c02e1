"""Level 3: neither the runtime nor init waits for a process that has died."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from minirun.faces.teach.levels import facts, material, tried
from minirun.faces.teach.levels.material import HOME, PROC
from minirun.faces.teach.levels.tried import NotYet, Started, TriedProgram, wait

DELAYS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)
"""When one side is killed: seconds after init has appeared."""
_TRIES = 8


def errors_are_one_line(program: TriedProgram) -> None:
    """An error of init is said once, by the runtime, in one line."""
    done = program.run("no-such-program")
    if len(done.err.strip().splitlines()) != 1 or "no-such-program" not in done.err:
        raise NotYet("error-not-one-line", done.err.strip()[:300] or "(nothing)")
    if program.number < 9:
        lower, program.lower = program.lower, "/no/such/layer"
        try:
            done = program.run("true")
        finally:
            program.lower = lower
    else:
        document = material.config(args=["true"])
        document["root"]["path"] = "no-such-root"
        done = program.call(program.in_bundle("plain", document))
    if done.status == 0 or len(done.err.strip().splitlines()) != 1:
        raise NotYet("error-not-one-line", done.err.strip()[:300] or "(nothing)")


def init_waits(program: TriedProgram) -> None:
    """Init waits for the runtime's word, and until then its root is the host's.

    The runtime is stopped as soon as init is there. A program in which both sides merely sleep a
    while goes on without it. Init may be too quick to be stopped in time: one of several times is
    enough. Then the runtime is killed: the end of the file is not its word.
    """
    for _ in range(_TRIES):
        started = program.start(program.words("sleep", tried.SLEEP))
        try:
            pid = _init_of(started)
            runtime = _above(pid, started.pid)
            for each in runtime:
                os.kill(each, signal.SIGSTOP)
            if not all(_waits(pid, seconds) for seconds in (0.6, 1.0)):
                continue
            for each in runtime:
                os.kill(each, signal.SIGKILL)
            if wait(lambda: tried.pid_of(("sleep", tried.SLEEP)), 0.3):
                raise NotYet("end-taken-for-word")
            return
        except OSError:
            continue  # it has ended meanwhile
        finally:
            started.end()
    raise NotYet("no-handshake")


def _init_of(started: Started) -> int:
    """Return init, once it is there. Raises NotYet if the program makes none in its time."""
    pid = wait(partial(facts.init_of, started.pid), tried.SECONDS)
    if not pid:
        raise NotYet("command-not-run", started.last_words())
    return pid


def signal_runtime(started: Started, init: int, number: signal.Signals) -> None:
    """Send a signal to the parent of init, or to what was started: a script may stand before it."""
    parent = 0
    with suppress(OSError):
        parent = int(tried.status_field(init, "PPid") or 0) if init else 0
    with suppress(ProcessLookupError):
        os.kill(parent if parent > 1 else started.pid, number)


def _above(init: int, top: int) -> list[int]:
    """Return the processes above init, its parent first: one of them is the runtime. OSError."""
    found = [init]
    while found[-1] not in (0, 1, top):
        found.append(int(tried.status_field(found[-1], "PPid") or 0))
    return [pid for pid in found[1:] if pid > 1]


def _waits(pid: int, seconds: float) -> bool:
    """Return True if init still waits after a while, in the host's root. Raises OSError."""
    time.sleep(seconds)
    is_at_home = Path(f"{PROC}/{pid}/root{HOME}").is_dir()
    return is_at_home and tried.command_of(pid) != ("sleep", tried.SLEEP)


def init_dies(program: TriedProgram) -> None:
    """If init dies while it builds, the runtime ends, and not well.

    Once the kernel kills it at its first mount, so before it can say anything; then it is killed
    from outside, at several moments.
    """
    _has_ended(program.start(program.words("sleep", tried.SLEEP), before=tried.no_mounts))
    for delay in DELAYS:
        started = program.start(program.words("sleep", tried.SLEEP))
        pid = _init_of(started)
        time.sleep(delay)
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
            pid = _init_of(started)
            time.sleep(delay)
            signal_runtime(started, pid, signal.SIGKILL)
            if wait(lambda: not tried.living(), 2.0):
                continue
            raise NotYet("init-stays", " ".join(tried.command_of(tried.living()[0])))
        finally:
            started.end()
    with program.running("sleep", tried.SLEEP) as (started, pid):
        signal_runtime(started, pid, signal.SIGKILL)
        if not wait(lambda: not tried.living(), 2.0):
            raise NotYet("init-stays", " ".join(tried.command_of(tried.living()[0])))


def callers_descriptors_are_closed(program: TriedProgram) -> None:
    """What its caller has open is not the command's: it may lead out of the container."""
    fd = fcntl.fcntl(0, fcntl.F_DUPFD, 50)
    try:
        with program.running("sleep", tried.SLEEP, fds=(fd,)) as (_, pid):
            if str(fd) in os.listdir(f"{PROC}/{pid}/fd"):
                raise NotYet("callers-descriptor", str(fd))
    finally:
        os.close(fd)


def no_descriptor_leaks(program: TriedProgram) -> None:
    """The command has its three streams, and no end of the FIFOs."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        links = {fd: os.readlink(f"{PROC}/{pid}/fd/{fd}") for fd in os.listdir(f"{PROC}/{pid}/fd")}
        if more := sorted(set(links) - {"0", "1", "2"}):
            raise NotYet("descriptor-leaked", f"{more[0]} → {links[more[0]]}")
