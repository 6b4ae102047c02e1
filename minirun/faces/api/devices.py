"""What stage 5 changes: device nodes, the cgroup's device rules, and files.

Both are needed to use a device: the node, which names a driver by its major and minor number, and
the rule, without which open(2) of the node gives EPERM. Out of two snapshots of the container
("5:begin", "5:end") both sides are known; out of edits.json, which stage 5 leaves behind, what was
added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from minirun.faces.api.table import Shown, Table

_NODE = re.compile(r"(.+) ([cb]) (\d+):(\d+)")


class ListChange(NamedTuple):
    """What is there after and not before, and the other way round."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, before: Sequence[str], after: Sequence[str]) -> ListChange:
        """Compare two lists, each in its own order."""
        old, new = set(before), set(after)
        added = tuple(item for item in after if item not in old)
        return cls(added, tuple(item for item in before if item not in new))


@dataclass(eq=False, repr=False)
class DeviceDiff(Shown):
    """A container before and after stage 5.

    `nodes` ("c 195:0 /dev/nvidia0"), `rules` ("c 195:0 rw # /dev/nvidia0") and `files` (paths) are
    each a ListChange.
    """

    nodes: ListChange
    rules: ListChange
    files: ListChange
    simulated: bool
    source: str
    """Where it was read from: "snapshots" or "edits.json"."""

    @classmethod
    def between(
        cls, before: Mapping[str, Any], after: Mapping[str, Any], *, simulated: bool
    ) -> DeviceDiff:
        """Compare two snapshots of one container (Timeline.snapshots)."""
        old_nodes, old_files = _split(before.get("files") or [])
        new_nodes, new_files = _split(after.get("files") or [])
        return cls(
            ListChange.of(old_nodes, new_nodes),
            ListChange.of(before.get("devices") or [], after.get("devices") or []),
            ListChange.of(old_files, new_files),
            simulated=simulated, source="snapshots",
        )  # fmt: skip

    @classmethod
    def from_edits(cls, edits: Mapping[str, Any]) -> DeviceDiff:
        """Read what edits.json says was added; all empty for a container without GPUs."""
        nodes, rules = [], []
        for node in edits.get("deviceNodes") or []:
            number = f"{node['type']} {node['major']}:{node['minor']}"
            nodes.append(f"{number} {node['path']}")
            rules.append(f"{number} {node['permissions']} # {node['path']}")
        files = [mount["containerPath"] for mount in edits.get("mounts") or []]
        files += [link["path"] for link in edits.get("links") or []]
        return cls(
            ListChange(tuple(nodes)), ListChange(tuple(rules)), ListChange(tuple(files)),
            simulated=bool(edits.get("simulated")), source="edits.json",
        )  # fmt: skip

    @property
    def numbers(self) -> dict[str, tuple[int, int]]:
        """Path of each added node → (major, minor)."""
        found = {}
        for text in self.nodes.added:
            _, number, path = text.split(" ", 2)
            major, minor = number.split(":")
            found[path] = (int(major), int(minor))
        return found

    def _table(self, *parts: str) -> Table:
        changes = {"node": self.nodes, "rule": self.rules, "file": self.files}
        shown = {what: changes[what] for what in parts}
        rows = [("+", what, text) for what, change in shown.items() for text in change.added]
        rows += [("-", what, text) for what, change in shown.items() for text in change.removed]
        title = "what stage 5 changed" + (", SIMULATED GPUs" if self.simulated else "")
        counted = [f"{len(change.added)} {what}s" for what, change in shown.items()]
        return Table(("", "what", f"{', '.join(counted)} added"), rows, title)

    def __str__(self) -> str:
        return str(self._table("node", "rule", "file"))

    def _repr_html_(self) -> str:
        files = self._table("file")._repr_html_()
        summary = f"{len(self.files.added)} files (folders and links counted) added"
        details = f"<details><summary>{summary}</summary>{files}</details>"
        return self._table("node", "rule")._repr_html_() + details


def _split(files: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part a snapshot's files into device nodes and others; both without the leading dot."""
    nodes, others = [], []
    for entry in files:
        match = _NODE.fullmatch(entry)
        if match:
            path, kind, major, minor = match.groups()
            nodes.append(f"{kind} {major}:{minor} {path.removeprefix('.')}")
        else:
            others.append(entry.removeprefix("."))
    return nodes, others
