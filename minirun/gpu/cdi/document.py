"""Devices and common edits → one spec: names sorted, `all` among them, the least version."""

from minirun.gpu.cdi.registry import SIMULATED
from minirun.gpu.nvidia.ctk.recipe import Recipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WHY = "no driver is behind these devices"


def document(
    named: "dict[str, dict[str, Any]]",
    rest: "dict[str, Any]",
    recipe: Recipe,
    *,
    simulated: bool = False,
) -> "dict[str, Any]":
    """Return a spec of these devices (name → edits), sorted by name, with `all` among them."""
    if not recipe.gids:
        named = {name: _without_groups(edits) for name, edits in named.items()}
        rest = _without_groups(rest)
    if recipe.every and named and "all" not in named:
        named = named | {"all": merged(list(named.values()))}
    rows = [{"name": name, "containerEdits": named[name]} for name in sorted(named)]
    marked = {"annotations": {SIMULATED: f"SIMULATED: {_WHY}"}} if simulated else {}
    made = {"cdiVersion": "", "kind": recipe.kind, **marked, "devices": rows}
    if rest:
        made["containerEdits"] = rest
    return made | {"cdiVersion": least_version(made)}


def _without_groups(edits: "dict[str, Any]") -> "dict[str, Any]":
    return {key: rows for key, rows in edits.items() if key != "additionalGids"}


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


def merged(parts: "list[dict[str, Any]]") -> "dict[str, Any]":
    """Return one containerEdits of all of these, each row once, nodes sorted."""
    found: "dict[str, Any]" = {}
    for part in parts:
        for key, rows in part.items():
            known = found.setdefault(key, [])
            known += [row for row in rows if row not in known]
    return in_order(found)


def in_order(edits: "dict[str, Any]") -> "dict[str, Any]":
    """Sort nodes and mounts, by depth and then by path."""
    for key, name in (("deviceNodes", "path"), ("mounts", "containerPath")):
        if key in edits:
            edits[key] = sorted(edits[key], key=lambda row: (row[name].count("/"), row[name]))
    return edits
