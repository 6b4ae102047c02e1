"""The namespaces of a process, by the numbers that the kernel gives them.

/proc/PID/ns/mnt is a link to "mnt:[4026532201]": the number is the namespace's inode, and two
processes are in the same namespace if, and only if, they show the same number (namespaces(7); the
device counts too, but all namespaces lie on one, nsfs).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from minirun.faces.api.table import Table, Tabular

KINDS = {
    "mnt": "what is mounted",
    "pid": "process numbers",
    "net": "interfaces, ports, routes",
    "uts": "host name",
    "ipc": "message queues, shared memory",
    "cgroup": "where the cgroup tree begins",
    "user": "user numbers, and what root may do",
    "time": "clocks since boot",
}
_LINK = re.compile(r"(\w+):\[(\d+)\]")


class Namespaces(Tabular, Mapping[str, int]):
    """Kind ("mnt", "pid", …) → inode, of one process. Two can be compared."""

    def __init__(self, inodes: Mapping[str, int], whose: str = "") -> None:
        self.inodes = dict(inodes)
        self.whose = whose

    @classmethod
    def of(cls, pid: int | str, whose: str = "") -> Namespaces:
        """Read those of a living process from /proc. Raises OSError."""
        there = [kind for kind in KINDS if os.path.lexists(f"/proc/self/ns/{kind}")]
        found = {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in there}
        return cls(_numbers(found), whose or f"process {pid}")

    @classmethod
    def host(cls) -> Namespaces:
        """Those of this process, which never leaves the namespaces it was started in."""
        return cls.of("self", "this process")

    @classmethod
    def recorded(cls, links: Mapping[str, str], whose: str) -> Namespaces:
        """Those that a snapshot holds: kind → "mnt:[4026532201]"."""
        return cls(_numbers(links), whose)

    def __getitem__(self, kind: str) -> int:
        return self.inodes[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self.inodes)

    def __len__(self) -> int:
        return len(self.inodes)

    def shared(self, other: Namespaces) -> tuple[str, ...]:
        """Return the kinds in which both are in the same namespace."""
        return tuple(kind for kind in self if other.get(kind) == self[kind])

    def own(self, other: Namespaces) -> tuple[str, ...]:
        """Return the kinds in which `other` is in another namespace."""
        return tuple(kind for kind in self if kind in other and other[kind] != self[kind])

    def compare(self, other: Namespaces) -> Table:
        """Return both side by side; the rows in bold are those that differ."""
        rows = [
            (kind, self[kind], other.get(kind, "?"), _verdict(kind, self, other), KINDS[kind])
            for kind in self
        ]
        head = ("namespace", self.whose or "one", other.whose or "the other", "", "isolates")
        apart = self.own(other)
        return Table(head, rows, mark=[at for at, row in enumerate(rows) if row[0] in apart])

    def _table(self) -> Table:
        rows = [(kind, number, KINDS[kind]) for kind, number in self.items()]
        return Table(("namespace", "inode", "isolates"), rows, self.whose)


def _verdict(kind: str, one: Namespaces, other: Namespaces) -> str:
    if kind not in other:
        return "not known"
    return "the same" if one[kind] == other[kind] else "its own"


def _numbers(links: Mapping[str, str]) -> dict[str, int]:
    """Read the links' texts, which name the kind too; in the order of KINDS."""
    matches = [match for match in map(_LINK.fullmatch, links.values()) if match]
    found = {match[1]: int(match[2]) for match in matches}
    return {kind: found[kind] for kind in KINDS if kind in found}
