"""What changed between two stops, in the words of the subject: nodes, mounts, rules, namespaces.

It is `minirun diff` for a reader who stands at a gate: only what a stage is there for. Open
descriptors and the hundreds of mounts that pivot_root leaves behind are counted, not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minirun.show.compare import snapshot_diff

if TYPE_CHECKING:
    from minirun.inspect.snapshot import ProcessFacts, Snapshot

KINDS = ("namespaces", "processes", "nodes", "mounts", "rules", "files")


class SnapshotChange(NamedTuple):
    """What came and what went of one kind; a line each, as in a snapshot."""

    kind: str
    """One of KINDS."""
    new: list[str]
    gone: list[str]


def since(before: Snapshot | None, now: Snapshot) -> list[SnapshotChange]:
    """Return what differs from the stop before (None: there was none); kinds that are equal do not
    appear."""
    found = []
    for kind in KINDS:
        old = _lines(before, kind) if before else []
        new = _lines(now, kind)
        came = [line for line in new if line not in set(old) and not line.startswith("host:")]
        went = [line for line in old if line not in set(new)]
        if came or went:
            found.append(SnapshotChange(kind, came, _told(went)))
    return found


def _told(lines: list[str]) -> list[str]:
    """Put the mounts of the host together, which go with pivot_root."""
    own = [line for line in lines if not line.startswith("host:")]
    hosts = len(lines) - len(own)
    return own + ([f"{hosts} mounts of the host"] if hosts else [])


def _lines(snapshot: Snapshot, kind: str) -> list[str]:
    if kind == "rules":
        return snapshot_diff.lines(snapshot, "devices")
    if kind == "namespaces":
        host = snapshot.get("host_namespaces") or {}
        own = snapshot["namespaces"].items()
        return [f"{name} {inode}" for name, inode in own if host.get(name) != inode]
    if kind == "processes":
        rows = snapshot["processes"].items()
        return [line for who, facts in rows for line in _process(who, facts)]
    if kind == "mounts":
        return snapshot_diff.lines(snapshot, "mounts")
    nodes = [line for line in snapshot["files"] if " c " in line or " b " in line]
    if kind == "nodes":
        return [line.removeprefix(".") for line in nodes]
    return [line.removeprefix(".") for line in snapshot["files"] if line not in set(nodes)]


def _process(who: str, facts: ProcessFacts) -> list[str]:
    found = [f"{who}: process {facts['pid']} ({facts['name']})"]
    found.append(f"{who}: capabilities {facts['capabilities']}")
    if facts.get("no_new_privs"):
        found.append(f"{who}: no new privileges")
    if facts.get("seccomp", "0") != "0":
        found.append(f"{who}: seccomp filter")
    return found
