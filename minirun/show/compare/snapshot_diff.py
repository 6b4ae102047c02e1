"""What a stage changed: the difference of two snapshots of a recording.

The list of files comes out as the seed of this project has it: names as `find .` prints them, in
the form of diff(1), `> ./dev/nvidia0` for what is new and `< …` for what has gone.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

from minirun.core.errors import UsageError
from minirun.core.keeping.settings import BOUNDARIES
from minirun.show.log.recording import Recording
from minirun.show.text.event_row import clean

if TYPE_CHECKING:
    from minirun.inspect.snapshot import ProcessFacts, Snapshot

PARTS = ("namespaces", "mounts", "devices", "files", "processes")


class Part(NamedTuple):
    """One part of the difference: its name, what went, what came."""

    name: str
    gone: list[str]
    new: list[str]


def compare(before: Snapshot, after: Snapshot) -> list[Part]:
    """Return the differences of two snapshots, part by part; equal parts have none."""
    found = []
    for name in PARTS:
        old, new = lines(before, name), lines(after, name)
        gone, came = set(old) - set(new), set(new) - set(old)
        found.append(Part(name, [x for x in old if x in gone], [x for x in new if x in came]))
    return found


def lines(snapshot: Snapshot, part: str) -> list[str]:
    """Return a part of a snapshot as lines that can be compared."""
    value: Any = snapshot.get(part) or {}
    if part == "namespaces":
        return [f"{kind} {inode}" for kind, inode in sorted(value.items())]
    if part == "processes":
        return [line for who in sorted(value) for line in _process(who, value[who])]
    return [str(line) for line in value]


def _process(who: str, facts: ProcessFacts) -> list[str]:
    head = [
        f"{who} {key.replace('_', ' ')} {value}"
        for key, value in facts.items()
        if key in ("pid", "name", "capabilities", "no_new_privs", "seccomp")
    ]
    cgroups = [f"{who} cgroup {line}" for line in facts.get("cgroup", [])]
    return [*head, *cgroups, *(f"{who} descriptor {line}" for line in facts["descriptors"])]


def text(parts: list[Part]) -> str:
    """Return the differences as diff(1) would mark them; parts without any say so."""
    blocks = []
    for part in parts:
        rows = [f"< {clean(line)}" for line in part.gone]
        rows += [f"> {clean(line)}" for line in part.new]
        blocks.append("\n".join([f"{part.name}:", *(rows or ["  the same"])]))
    return "\n".join(blocks) + "\n"


def normal_form(before: Snapshot, after: Snapshot) -> str:
    """Return the names of files that differ as diff(1) prints two listings of find(1).

    Each block begins with the lines' numbers and what happened: 48a49 for a line that came.
    """
    old, new = ([_name(f) for f in lines(s, "files")] for s in (before, after))
    blocks = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        blocks.append(f"{_range(a, b)}{kind[0].replace('i', 'a').replace('r', 'c')}{_range(c, d)}")
        blocks += [f"< {clean(line)}" for line in old[a:b]]
        blocks += ["---"] if kind == "replace" else []
        blocks += [f"> {clean(line)}" for line in new[c:d]]
    return "".join(f"{line}\n" for line in blocks)


def _name(line: str) -> str:
    """Return the name alone: without a link's target, a node's numbers, a directory's slash."""
    name = line.partition(" -> ")[0]
    head, _, tail = name.rpartition(" ")
    if ":" in tail and head.endswith((" c", " b")):
        name = head[:-2]
    return name.rstrip("/|=")


def _range(start: int, end: int) -> str:
    """Return lines start+1 to end as diff(1) writes them; the line before if there is none."""
    if start == end:
        return str(start)
    return str(start + 1) if start + 1 == end else f"{start + 1},{end}"


def boundaries(between: str, stage: str) -> tuple[str, str]:
    """Return the two boundaries that the flags --between s4,s5 or --stage 5 mean.

    A stage alone means its end, in the first place, and its end again in the second: `s4,s5` is
    what happened after stage 4, to the end of stage 5. Raises UsageError.
    """
    if stage:
        number = _stage(stage)
        return f"{number}:begin", f"{number}:end"
    first, comma, second = between.partition(",")
    if not comma:
        raise UsageError(f"invalid --between {between!r}", "as in s4,s5 or 5:begin,5:end", status=1)
    return _boundary(first), _boundary(second)


def _boundary(word: str) -> str:
    if word in BOUNDARIES:
        return word
    return f"{_stage(word)}:end"


def _stage(word: str) -> int:
    digits = word.strip().lower().removeprefix("stage").removeprefix("s").strip()
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits) <= 7:
        hint = "1 to 7, s1 to s7, or a boundary such as 5:begin"
        raise UsageError(f"unknown stage {word!r}", hint, status=1)
    return int(digits)


def choose(recording: Recording, at: str) -> Snapshot:
    """Return the snapshot at a boundary. Raises UsageError if none was taken."""
    if at in recording.snapshots:
        return recording.snapshots[at]
    if not recording.snapshots:
        hint = "run it with --snapshots (or --step)"
        raise UsageError(f"{recording.id} was recorded without snapshots", hint, status=1)
    there = ", ".join(recording.snapshots)
    raise UsageError(f"{recording.id} has no snapshot at {at}", f"it has {there}", status=1)
