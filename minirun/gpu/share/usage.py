"""Who uses which GPU: Figure 1, computed from what each running container was given.

A GPU that one container has is dedicated to it, one that several have is shared among them (their
processes take turns: time-slicing), and an exclusive one is dedicated and stays so. What counts is
what stage 5 wrote down (minirun.gpu.share.sharing), not what was asked for. Pure functions: they
look at nothing else.
"""

from minirun.core.record import Record
from minirun.gpu.inventory import Inventory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.share.sharing import Holder

SHARED = "shared: their processes take turns (minirun gpu timeslice), but for clients of MPS"


class Use(Record):
    """A GPU, or a MIG device (`name` is then N:M), and the containers that have it."""

    name: str
    uuid: str
    model: str
    containers: "tuple[str, ...]"
    exclusive: bool = False

    @property
    def kind(self) -> str:
        """One of free, dedicated, shared, exclusive."""
        if self.exclusive:
            return "exclusive"
        return ("free", "dedicated")[len(self.containers)] if len(self.containers) < 2 else "shared"


def who_uses(holders: "list[Holder]", inventory: "Inventory | None" = None) -> "list[Use]":
    """Return a row for each GPU that a container has, by driver and index.

    With an inventory, GPUs that nobody uses have a row too.
    """
    users: "dict[tuple[str, str, str, str], list[Holder]]" = {}
    for gpu in inventory.gpus if inventory else ():
        driver = "simulated" if inventory and inventory.simulated else "nvidia"
        users[(driver, str(gpu.number), gpu.uuid, gpu.model)] = []
    for row in holders:
        users.setdefault((row.driver, row.gpu, row.uuid, row.model), []).append(row)
    return [
        Use(*key[1:], tuple(row.container for row in rows), any(row.exclusive for row in rows))
        for key, rows in sorted(users.items(), key=_order)
    ]


def _order(item: "tuple[tuple[str, ...], object]") -> "tuple[str, list[int]]":
    driver, name = item[0][:2]
    return driver, [int(part) for part in name.split(":")]


def table(rows: "list[Use]") -> "list[str]":
    """Return the lines of `minirun gpu ps`."""
    if not rows:
        return ["no running container has a gpu"]
    cells = [("GPU", "USE", "CONTAINERS", "UUID", "MODEL")]
    for row in rows:
        cells.append((row.name, row.kind, ", ".join(row.containers) or "-", row.uuid, row.model))
    said = [SHARED] if any(row.kind == "shared" for row in rows) else []
    return [*_columns(cells), *said]


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
