"""Who uses which GPU: Figure 1, computed from what each running container was given.

A GPU that one container has is dedicated to it, one that several have is shared among them
(time-slicing; nothing in the driver keeps them apart). What counts is what stage 5 recorded in
each container's edits.json, not what was asked for. Pure functions: they look at nothing else.
"""

from minirun.gpu.inventory import Inventory
from minirun.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Use(Record):
    """A GPU, or a MIG device (`name` is then N:M), and the containers that have it."""

    name: str
    uuid: str
    model: str
    containers: "tuple[str, ...]"

    @property
    def kind(self) -> str:
        """One of free, dedicated, shared."""
        return ("free", "dedicated")[len(self.containers)] if len(self.containers) < 2 else "shared"


def who_uses(states: "list[dict[str, Any]]", inventory: "Inventory | None" = None) -> "list[Use]":
    """Return a row for each GPU that a container has, by index.

    Each state is a dictionary with `id` and `edits` (minirun.gpu.edits.Edits.as_json; empty for a
    container without GPUs). With an inventory, GPUs that nobody uses have a row too.
    """
    users: "dict[tuple[str, str, str], list[str]]" = {}
    for gpu in inventory.gpus if inventory else ():
        users[(str(gpu.number), gpu.uuid, gpu.model)] = []
    for state in states:
        for given in state.get("edits", {}).get("gpus", []):
            key = (given["index"], given["uuid"], given["model"])
            users.setdefault(key, []).append(state["id"])
    rows = [Use(*key, tuple(ids)) for key, ids in users.items()]
    return sorted(rows, key=lambda row: [int(part) for part in row.name.split(":")])


def table(rows: "list[Use]") -> "list[str]":
    """Return the lines of `minirun gpu ps`."""
    if not rows:
        return ["no running container has a gpu"]
    cells = [("GPU", "USE", "CONTAINERS", "UUID", "MODEL")]
    for row in rows:
        cells.append((row.name, row.kind, ", ".join(row.containers) or "-", row.uuid, row.model))
    return _columns(cells)


def gpu_table(inventory: Inventory) -> "list[str]":
    """Return the lines of `minirun gpu list`: the driver, then each GPU and its MIG devices."""
    version = f"driver {inventory.driver}"
    cuda = f", CUDA {inventory.cuda}" if inventory.cuda else ""
    mark = " (SIMULATED: there is no driver)" if inventory.simulated else ""
    cells = [("GPU", "NODE", "BUS", "UUID", "MODEL")]
    for gpu in inventory.gpus:
        cells.append((str(gpu.number), gpu.node, gpu.bus_id, gpu.uuid, gpu.model))
        for at, mig in enumerate(gpu.migs):
            name = f"gi{mig.gi}/ci{mig.ci}"
            cells.append((f"{gpu.number}:{at}", gpu.node, name, mig.uuid, "MIG device"))
    return [f"{version}{cuda}{mark}", *_columns(cells)]


def _columns(cells: "list[tuple[str, str, str, str, str]]") -> "list[str]":
    """Align the cells of each column."""
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
