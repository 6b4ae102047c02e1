"""The one table: how each of the seven stages is recognised in another runtime's start, and why.

A rule gives a stage's begin and end, in the process that Figure 3 draws it in. All other
processes are in the stage in which they were made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from minirun.faces.teach.observe.roles import ObservedStart


@dataclass(frozen=True)
class Rule:
    """How one stage is told."""

    stage: int
    actor: str
    name: str
    why: str
    begin: Callable[[ObservedStart], float]
    """Seconds since the epoch; 0.0: it does not come."""
    end: Callable[[ObservedStart], float]


def _executed(start: ObservedStart) -> float:
    programs = start.maker.programs
    return programs[0].began if programs else start.maker.calls[0].began


def _asks(start: ObservedStart) -> float:
    return start.ask[0].call.began if start.ask else 0.0


def _asked(start: ObservedStart) -> float:
    return start.ask[-1].arrived if start.ask else 0.0


def _state_read(start: ObservedStart) -> float:
    state = start.hooks.get(start.injector)
    return (state.read or state.call.time) if state else 0.0


def _hooks_done(start: ObservedStart) -> float:
    """The injector's begin, or the answer: what stage 3 ends with."""
    return _state_read(start) or _answers(start)


def _injected(start: ObservedStart) -> float:
    calls = start.processes[start.injector].calls if start.injector else []
    return calls[-1].time if calls else 0.0


def _answers(start: ObservedStart) -> float:
    return start.answer[0].call.began if start.answer else 0.0


def _answered(start: ObservedStart) -> float:
    """Where no hooks were asked for, init's first own hook comes in stage 7 as well."""
    if start.answer:
        return start.answer[-1].arrived
    own = [pid for pid in start.hooks if start.processes[pid].maker == start.init]
    return min((start.processes[pid].born for pid in own), default=0.0)


def _becomes(start: ObservedStart) -> float:
    return start.command.time if start.command else 0.0


TABLE = (
    Rule(1, "runtime", "clone and root filesystem",
         "from the runtime's own execve until init asks", _executed, _asks),
    Rule(2, "init", "ask for the prestart hooks",
         "what init says last to the runtime before the answer it waits for", _asks, _asked),
    Rule(3, "runtime", "run the prestart hooks",
         "from when the runtime has read that question until its answer, or NVIDIA's hook",
         _asked, _hooks_done),
    Rule(4, "hook", "make arguments for nvidia-container-cli",
         "a hook that later works on the container's mounts has read the container's state",
         _state_read, ObservedStart.first_work),
    Rule(5, "cli", "put the GPUs in",
         "a process that is no init enters init's mount namespace, mounts or makes nodes",
         ObservedStart.first_work, _injected),
    Rule(6, "runtime", "answer: hooks done",
         "what the runtime says last to init before init changes its root", _answers, _answered),
    Rule(7, "init", "pivot_root and exec",
         "from when init has read the answer, or runs a hook, until it executes the command",
         _answered, _becomes),
)  # fmt: skip
"""Names are those of minirun's own log."""


@cache
def times(start: ObservedStart) -> dict[int, tuple[float, float]]:
    """Return stage → when it began and ended (epoch, seconds; 0.0: not), of those that began.

    An exec has no stages. Of a container that waited for `start` the last one is seen.
    """
    if not start.stages:
        return {}
    if start.resumed:
        return {7: (start.processes[start.init].calls[0].began, _becomes(start))}
    found = {rule.stage: (rule.begin(start), rule.end(start)) for rule in TABLE}
    return {stage: pair for stage, pair in found.items() if pair[0]}


def stage_of(start: ObservedStart, pid: int, at: float) -> int:
    """Return the stage that a process is in at a moment; 0: none is known."""
    first = _inherited(start, pid)
    owned: tuple[int, ...] = ()
    if pid == start.init:
        first, owned = 1, (2, 7)
    elif pid == start.runtime or start.between.get(pid) == "runtime":
        owned = (1, 3, 6)
    elif pid == start.injector:
        owned = (4, 5)
    begun = times(start)
    return max((n for n in owned if n in begun and at >= begun[n][0]), default=first)


def _inherited(start: ObservedStart, pid: int) -> int:
    """Return the stage in which a process was made."""
    process = start.processes[pid]
    if not process.maker or not start.has(process.maker):
        return 0
    return stage_of(start, process.maker, process.born)
