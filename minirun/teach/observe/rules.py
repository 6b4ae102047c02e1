"""The one table: by what each of the seven stages is told in another runtime's start, and why.

A rule gives a stage's begin and end, in the process that Figure 3 draws it in. All other
processes are in the stage in which they were made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from minirun.teach.observe.cast import Cast


@dataclass(frozen=True)
class Rule:
    """How one stage is told."""

    stage: int
    actor: str
    name: str
    why: str
    begin: Callable[[Cast], float]
    """Seconds since the epoch; 0.0: it does not come."""
    end: Callable[[Cast], float]


def _executed(cast: Cast) -> float:
    programs = cast.maker.programs
    return programs[0].began if programs else cast.maker.calls[0].began


def _asks(cast: Cast) -> float:
    return cast.ask[0].call.began if cast.ask else 0.0


def _asked(cast: Cast) -> float:
    return cast.ask[-1].arrived if cast.ask else 0.0


def _told(cast: Cast) -> float:
    state = cast.hooks.get(cast.injector)
    return (state.read or state.call.time) if state else 0.0


def _hooks_done(cast: Cast) -> float:
    """The injector's begin, or the answer: what stage 3 ends with."""
    return _told(cast) or _answers(cast)


def _injected(cast: Cast) -> float:
    calls = cast.family[cast.injector].calls if cast.injector else []
    return calls[-1].time if calls else 0.0


def _answers(cast: Cast) -> float:
    return cast.answer[0].call.began if cast.answer else 0.0


def _answered(cast: Cast) -> float:
    """Where no hooks were asked for, init's first own hook comes in stage 7 as well."""
    if cast.answer:
        return cast.answer[-1].arrived
    own = [pid for pid in cast.hooks if cast.family[pid].maker == cast.init]
    return min((cast.family[pid].born for pid in own), default=0.0)


def _becomes(cast: Cast) -> float:
    return cast.command.time if cast.command else 0.0


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
         _told, Cast.first_work),
    Rule(5, "cli", "put the GPUs in",
         "a process that is no init enters init's mount namespace, mounts or makes nodes",
         Cast.first_work, _injected),
    Rule(6, "runtime", "answer: hooks done",
         "what the runtime says last to init before init changes its root", _answers, _answered),
    Rule(7, "init", "pivot_root and exec",
         "from when init has read the answer, or runs a hook, until it executes the command",
         _answered, _becomes),
)  # fmt: skip
"""Names are those of minirun's own log."""


@cache
def times(cast: Cast) -> dict[int, tuple[float, float]]:
    """Return stage → when it began and ended (epoch, seconds; 0.0: not), of those that began.

    An exec has no stages. Of a container that waited for `start` the last one is seen.
    """
    if not cast.stages:
        return {}
    if cast.resumed:
        return {7: (cast.family[cast.init].calls[0].began, _becomes(cast))}
    found = {rule.stage: (rule.begin(cast), rule.end(cast)) for rule in TABLE}
    return {stage: pair for stage, pair in found.items() if pair[0]}


def stage_of(cast: Cast, pid: int, at: float) -> int:
    """Return the stage that a process is in at a moment; 0: none is known."""
    first = _inherited(cast, pid)
    owned: tuple[int, ...] = ()
    if pid == cast.init:
        first, owned = 1, (2, 7)
    elif pid == cast.runtime or cast.between.get(pid) == "runtime":
        owned = (1, 3, 6)
    elif pid == cast.injector:
        owned = (4, 5)
    begun = times(cast)
    return max((n for n in owned if n in begun and at >= begun[n][0]), default=first)


def _inherited(cast: Cast, pid: int) -> int:
    """Return the stage in which a process was made."""
    process = cast.family[pid]
    if not process.maker or not cast.has(process.maker):
        return 0
    return stage_of(cast, process.maker, process.born)
