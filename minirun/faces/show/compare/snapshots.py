"""What a stage changed: what is compared of two snapshots of a recording, and which two.

`minirun diff ID --stage N` compares all that a snapshot has: compare(). For a reader who stands at
a stop only that counts which a stage is there for: since(). Open descriptors and the hundreds of
mounts that pivot_root leaves behind are counted there, not listed.
"""

from __future__ import annotations

from typing import Any

from minirun.core.errors import UsageError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces.show.compare import comparer
from minirun.faces.show.compare.comparer import PartDifference
from minirun.faces.show.log.recording import Recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.snapshot import ProcessFacts, Snapshot

PARTS = ("namespaces", "mounts", "devices", "files", "processes")
"""The parts of a snapshot, as `minirun diff` names them."""
KINDS = ("namespaces", "processes", "nodes", "mounts", "rules", "files")
"""What a stage is there for, in the words of the subject."""
LineDifference = PartDifference[str, str]
"""Of one of PARTS or KINDS: lines of a snapshot."""


def compare(before: Snapshot, after: Snapshot) -> list[LineDifference]:
    """Return what differs in PARTS; parts that are equal do not appear."""
    first, second = ({part: _side(lines(one, part)) for part in PARTS} for one in (before, after))
    return comparer.compare(first, second)


def since(before: Snapshot | None, now: Snapshot) -> list[LineDifference]:
    """Return what differs in KINDS from the stop before (None: there was none); kinds that are
    equal do not appear."""
    first, second = (
        {kind: _side(_lines_of(one, kind)) for kind in KINDS if one} for one in (before, now)
    )
    found = map(_hosts_counted, comparer.compare(first, second))
    return [each for each in found if each.gone or each.new]


def _side(lines: list[str]) -> list[tuple[str, str]]:
    return [(line, line) for line in lines]


def _hosts_counted(found: LineDifference) -> LineDifference:
    """Count the mounts of the host, which go with pivot_root; without those that it sees anew."""
    own = [line for line in found.gone if not line.startswith("host:")]
    hosts = len(found.gone) - len(own)
    gone = own + ([f"{hosts} mounts of the host"] if hosts else [])
    return found._replace(gone=gone, new=[x for x in found.new if not x.startswith("host:")])


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


def _lines_of(snapshot: Snapshot, kind: str) -> list[str]:
    """Return what a snapshot has of one of KINDS."""
    if kind == "rules":
        return lines(snapshot, "devices")
    if kind == "namespaces":
        host = snapshot.get("host_namespaces") or {}
        own = snapshot["namespaces"].items()
        return [f"{name} {inode}" for name, inode in own if host.get(name) != inode]
    if kind == "processes":
        rows = snapshot["processes"].items()
        return [line for who, facts in rows for line in _privileges(who, facts)]
    if kind == "mounts":
        return lines(snapshot, "mounts")
    nodes = [line for line in snapshot["files"] if " c " in line or " b " in line]
    if kind == "nodes":
        return [line.removeprefix(".") for line in nodes]
    return [line.removeprefix(".") for line in snapshot["files"] if line not in set(nodes)]


def _privileges(who: str, facts: ProcessFacts) -> list[str]:
    found = [f"{who}: process {facts['pid']} ({facts['name']})"]
    found.append(f"{who}: capabilities {facts['capabilities']}")
    if facts.get("no_new_privs"):
        found.append(f"{who}: no new privileges")
    if facts.get("seccomp", "0") != "0":
        found.append(f"{who}: seccomp filter")
    return found


def boundaries(between: str, stage: str) -> tuple[str, str]:
    """Return the two boundaries that the flags --between s4,s5 or --stage 5 mean.

    Of --stage, its begin and its end. In --between a stage alone means its end: `s4,s5` is what
    happened from the end of stage 4 to the end of stage 5. Raises UsageError.
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
    number = whole(digits, 1, 7)
    if number is None:
        hint = "1 to 7, s1 to s7, or a boundary such as 5:begin"
        raise UsageError(f"unknown stage {word!r}", hint, status=1)
    return number


def choose(recording: Recording, at: str) -> Snapshot:
    """Return the snapshot at a boundary. Raises UsageError if none was taken."""
    if at in recording.snapshots:
        return recording.snapshots[at]
    if not recording.snapshots:
        hint = "run it with --snapshots (or --step)"
        raise UsageError(f"{recording.name} was recorded without snapshots", hint, status=1)
    there = ", ".join(recording.snapshots)
    raise UsageError(f"{recording.name} has no snapshot at {at}", f"it has {there}", status=1)
