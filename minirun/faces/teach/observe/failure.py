"""A start that did not come about: which system call failed, of which process.

Many calls fail in a start that goes well: a program is looked for in each folder of PATH, a mount
is tried one way, then another. So the runtime's own report is asked as well: a call fits it if its
error's words, and the name of its file, stand in there. Of those that fit best the last counts.

Three reasons are no failed call. A hook's program decides by its exit status. A runtime may give up
because of an answer: runc reads a file's mode, and says "permission denied" by itself. And if no
call fits, the reason is a rule of the runtime's, or not known: then its own exit is told, no guess.
"""

import errno
import os
import re
from dataclasses import dataclass

from minirun.faces.teach.observe import roles
from minirun.faces.teach.observe.roles import ObservedStart
from minirun.faces.teach.observe.trace import ASKED, MADE
from minirun.faces.teach.strace import Call, seen

_ALSO = (*MADE, *ASKED, "openat", "openat2", "open", "write")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SEEN = re.compile(r"<(/[^<>]+)>")
_SHORTEST = 3
"""Characters: a shorter name of a file may stand in a text by chance."""


_WARNING = "level=warning"
"""How runc marks a line that is not its reason."""
_ERROR, _ALONE, _NAME, _PATH, _CALL, _WORK, _FAILED, _HOOK = 4, 1, 2, 1, 1, 1, 1, 9
"""How much it counts if a line of the report has a call's error, the error and nothing else of it,
the name of its file, the whole path, the call's name; if the call makes something; if it failed;
if it is a hook's end."""


@dataclass(frozen=True)
class Failure:
    """What a start failed by."""

    call: Call
    pid: int
    report: str
    """What the runtime wrote to its standard error; "" if that is nothing."""


def find(start: ObservedStart) -> Failure | None:
    """Return the call by which a start failed; None if the command runs, or nothing tells it."""
    if start.command:
        return None
    report = _report(start)
    said = [line for line in report.lower().splitlines() if _WARNING not in line]
    begin = max((p.time for p in start.maker.programs if p.by_path), default=0.0)
    best: tuple[int, float, Call, int] | None = None
    for pid, process in start.processes.items():
        if not start.has(pid):
            continue
        for call in process.calls:
            # what comes before the runtime's program is its caller's: a search of PATH
            rank = _fits(start, pid, call, said) if call.time >= begin else 0
            if rank and (best is None or (rank, call.time) >= best[:2]):
                best = (rank, call.time, call, pid)
    if best:
        return Failure(best[2], best[3], report)
    ends = [call for call in start.maker.calls if call.name == "exit_group"]
    decided = ends and ends[-1].args[0] not in ("0", "")
    return Failure(ends[-1], start.runtime, report) if decided else None


def _report(start: ObservedStart) -> str:
    """Return what the runtime, and its copies of itself, wrote to the standard error."""
    pids = (start.runtime, *start.between, start.init, start.entrant)
    return "".join(
        roles.text_of(call)
        for pid in pids
        for call in (start.processes[pid].calls if pid in start.processes else [])
        if call.name == "write" and seen(call.args[0])[0] == 2
    )


def _fits(start: ObservedStart, pid: int, call: Call, said: list[str]) -> int:
    """Return how well a call fits a report; 0: not at all."""
    if call.name == "exit_group":
        decided = start.hook_of(pid) == pid and bool(start.processes[pid].programs)
        told = any("hook" in line for line in said)
        return _HOOK * (decided and told and call.args[0] not in ("0", ""))
    if call.errno == "EPIPE":  # its reader has ended, and that has a reason of its own
        return 0
    if not (call.name in ASKED or (call.errno and (roles.is_work(call) or call.name in _ALSO))):
        return 0
    return max((_fits_line(call, line) for line in said), default=0)


def _fits_line(call: Call, line: str) -> int:
    number = getattr(errno, call.errno, 0)
    words = bool(number) and os.strerror(number).lower() in line
    paths = [path.rstrip("/").lower() for path in _paths(call)]
    parts = slice(None) if call.errno == "ENOTDIR" else slice(-1, None)  # it may be about any part
    names = [name for path in paths for name in path.split("/")[parts]]
    whole = any("/" in path and path in line for path in paths if path)
    named = whole or any(_names(name, line, quoted=not words) for name in names)
    if not (words or named) or (not call.errno and not whole):
        return 0
    called = call.name.removesuffix("at") in line
    work = roles.is_work(call)
    failed = _FAILED * bool(call.errno)
    error = _ERROR if named or called else _ALONE  # alone it is the error of many calls
    return failed + error * words + _NAME * named + _PATH * whole + _CALL * called + _WORK * work


def _names(name: str, line: str, *, quoted: bool) -> bool:
    """Return True if a line has a name; `quoted`: in quotes, as "runc run failed" names no file."""
    if len(name) < _SHORTEST:
        return False
    if not quoted:
        return name in line
    return re.search(rf"[\"'`/]{re.escape(name)}[\"'`\\]", line) is not None


def _paths(call: Call) -> list[str]:
    """Return what a call names: its strings, and what its descriptors are; execve: its file."""
    if call.name == "execve":  # what else it names are words for the program
        return _WORD.findall(call.args[0])
    return [*_WORD.findall(str(call)), *_SEEN.findall(str(call))]
