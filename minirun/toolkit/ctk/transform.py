"""A spec whose paths begin elsewhere: `nvidia-ctk cdi transform root`.

A spec that was made in a container, where the host's root is at /host, or the driver's at
/run/nvidia/driver, names paths that the engine does not see so. Relative to the host, the host's
paths are changed: of nodes, mounts, and hooks that run in the runtime's namespaces. Relative to the
container, the paths in it: of nodes, mounts, and what hooks that run in it are given.
"""

from __future__ import annotations

from minirun.gpu.cdi.check import raised_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RELATIVE = ("host", "container")
_INSIDE = ("createContainer", "startContainer")


class Move:
    """The roots: paths that begin with `old` begin with `new` afterwards."""

    def __init__(self, old: str, new: str) -> None:
        self.old = old
        self.new = new

    def path(self, path: str) -> str:
        """Return where a path is now."""
        if not path.startswith(self.old):
            return path
        rest = path.removeprefix(self.old).lstrip("/")
        return f"{self.new.rstrip('/')}/{rest}".rstrip("/") if self.new else f"/{rest}"

    def word(self, word: str) -> str:
        """Return an argument of a hook: a path, or `target::link`, which is two."""
        return "::".join(self.path(part) for part in word.split("::", 1))


def root(spec: dict[str, Any], move: Move, relative: str) -> dict[str, Any]:
    """Return the spec with its paths moved, relative to one of RELATIVE."""
    if move.old == move.new:
        return spec
    moved = dict(spec)
    if "containerEdits" in spec:
        moved["containerEdits"] = _edits(spec["containerEdits"], move, relative)
    moved["devices"] = [
        row | {"containerEdits": _edits(row["containerEdits"], move, relative)}
        for row in spec["devices"]
    ]
    return moved | {"cdiVersion": raised_version(moved)}  # a node may have a hostPath only now


def _edits(edits: dict[str, Any], move: Move, relative: str) -> dict[str, Any]:
    change = {"deviceNodes": _node, "hooks": _hook, "mounts": _mount}
    return {
        key: [change[key](row, move, relative) for row in rows] if key in change else rows
        for key, rows in edits.items()
    }


def _node(node: dict[str, Any], move: Move, relative: str) -> dict[str, Any]:
    if relative == "container":
        return node | {"path": move.path(node["path"])}
    return node | {"hostPath": move.path(node.get("hostPath") or node["path"])}


def _mount(mount: dict[str, Any], move: Move, relative: str) -> dict[str, Any]:
    key = "hostPath" if relative == "host" else "containerPath"
    return mount | {key: move.path(mount[key])}


def _hook(hook: dict[str, Any], move: Move, relative: str) -> dict[str, Any]:
    """The program of startContainer is the container's, that of all others the host's."""
    inside = relative == "container"
    name = hook["hookName"]
    moved = dict(hook)
    if (name == "startContainer") == inside:
        moved["path"] = move.path(hook["path"])
    if "args" in hook and (name in _INSIDE) == inside:
        moved["args"] = [move.word(word) for word in hook["args"]]
    return moved
