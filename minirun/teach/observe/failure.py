"""A start that did not come about: which system call failed, of which process.

Many calls fail in a start that goes well: a program is looked for in each folder of PATH, a mount
is tried one way, then another. So the runtime's own report is asked as well: a call fits it if its
error's words, and the name of its file, stand in there. Of those that fit best the last counts.
"""

import errno
import os
import re
from dataclasses import dataclass

from minirun.teach.observe import cast as casting
from minirun.teach.observe.cast import Cast
from minirun.teach.observe.trace import MADE
from minirun.teach.strace import Call, seen

_ALSO = (*MADE, "openat", "openat2", "open", "newfstatat", "write")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SHORTEST = 3
"""Characters: a shorter name of a file may stand in a text by chance."""


@dataclass(frozen=True)
class Failure:
    """What a start failed by."""

    call: Call
    pid: int
    report: str
    """What the runtime wrote to its standard error; "" if that is nothing."""


def find(cast: Cast) -> Failure | None:
    """Return the call by which a start failed; None if the command runs, or nothing tells it."""
    if cast.command:
        return None
    report = _report(cast)
    said = report.lower()
    best: tuple[int, float, Call, int] | None = None
    for pid, process in cast.family.items():
        if not cast.has(pid):
            continue
        for call in process.calls:
            rank = _fits(cast, pid, call, said)
            if rank and (best is None or (rank, call.time) >= best[:2]):
                best = (rank, call.time, call, pid)
    return Failure(best[2], best[3], report) if best else None


def _report(cast: Cast) -> str:
    """Return what the runtime, and its copies of itself, wrote to the standard error."""
    pids = (cast.runtime, *cast.between, cast.init, cast.entrant)
    return "".join(
        casting.text_of(call)
        for pid in pids
        for call in (cast.family[pid].calls if pid in cast.family else [])
        if call.name == "write" and seen(call.args[0])[0] == 2
    )


def _fits(cast: Cast, pid: int, call: Call, said: str) -> int:
    """Return how well a call fits a report; 0: not at all."""
    if call.name == "exit_group":
        ended = call.args[0] not in ("0", "")
        return 3 if ended and cast.hook_of(pid) == pid and "hook" in said else 0
    if not call.errno or not (casting.is_work(call) or call.name in _ALSO):
        return 0
    number = getattr(errno, call.errno, 0)
    words = os.strerror(number).lower() in said
    names = [name.rstrip("/").rpartition("/")[2].lower() for name in _WORD.findall(str(call))]
    named = any(len(name) >= _SHORTEST and name in said for name in names)
    if not words and not named:
        return 0
    return 2 * words + 2 * named + casting.is_work(call)
