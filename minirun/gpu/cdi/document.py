"""Devices and common edits → one spec: names sorted, `all` among them, the least version."""

from minirun.gpu.cdi.container_edits import dump
from minirun.gpu.cdi.inject import join
from minirun.gpu.cdi.registry import SIMULATED
from minirun.gpu.edits import Edits
from minirun.gpu.nvidia.ctk.recipe import Recipe
from minirun.gpu.steps import BindMount, DeviceNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WHY = "no driver is behind these devices"


def document(
    named: "dict[str, Edits]", rest: Edits, recipe: Recipe, *, simulated: bool = False
) -> "dict[str, Any]":
    """Return a spec of these devices (name → edits), sorted by name, with `all` among them."""
    if not recipe.gids:
        named = {name: edits._replace(groups=()) for name, edits in named.items()}
        rest = rest._replace(groups=())
    if recipe.every and named and "all" not in named:
        named = named | {"all": merged(list(named.values()))}
    rows = [{"name": name, "containerEdits": dump(named[name])} for name in sorted(named)]
    marked = {"annotations": {SIMULATED: f"SIMULATED: {_WHY}"}} if simulated else {}
    made = {"cdiVersion": "", "kind": recipe.kind, **marked, "devices": rows}
    if common := dump(rest):
        made["containerEdits"] = common
    return made | {"cdiVersion": least_version(made)}


def least_version(made: "dict[str, Any]") -> str:
    """Return the oldest version of the specification that knows all that is in a spec."""
    edits = [made.get("containerEdits", {}), *(row["containerEdits"] for row in made["devices"])]
    nodes = [node for part in edits for node in part.get("deviceNodes", ())]
    if any("additionalGids" in part for part in edits):
        return "0.7.0"
    if "annotations" in made or "." in made["kind"].partition("/")[2]:
        return "0.6.0"
    if any("hostPath" in node for node in nodes):
        return "0.5.0"
    return "0.5.0" if any(row["name"][0].isdigit() for row in made["devices"]) else "0.3.0"


def merged(parts: "list[Edits]") -> Edits:
    """Return one Edits of all of these, each row once, nodes sorted."""
    found = join(parts)
    return in_order(
        found._replace(
            steps=tuple(dict.fromkeys(found.steps)), env=tuple(dict.fromkeys(found.env)),
            hooks=tuple(dict.fromkeys(found.hooks)), groups=tuple(dict.fromkeys(found.groups)),
        )
    )  # fmt: skip


def in_order(edits: Edits) -> Edits:
    """Sort nodes and mounts, by depth and then by path."""
    return edits._replace(steps=(*_sorted(edits.device_nodes), *_sorted(edits.mounts)))


def _sorted(
    rows: "tuple[DeviceNode, ...] | tuple[BindMount, ...]",
) -> "list[DeviceNode | BindMount]":
    return sorted(rows, key=lambda row: (row.path.count("/"), row.path))
