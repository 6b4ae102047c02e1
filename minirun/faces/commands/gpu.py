"""`minirun gpu …`: what GPUs there are, who uses which (Figure 1), and how they are shared.

A table of commands as in minirun.cli: a module is imported when its command is called.
"""

from __future__ import annotations

from minirun.cli import entry_of, verb
from minirun.cli.flags import Flags
from minirun.cli.output import write
from minirun.common import table
from minirun.core.keeping.settings import Settings
from minirun.engines import holders
from minirun.gpu import driverroot, drivers
from minirun.gpu.inventory import Inventory
from minirun.gpu.share import usage as usage_of
from minirun.gpu.vendors import discovery
from minirun.gpu.vendors.signs import OTHER_VENDORS

_GPU, _INSPECT = "minirun.faces.commands.gpu", "minirun.faces.commands.inspect"
_SHARING = "minirun.toolkit.commands.sharing"
COMMANDS = {
    "list": _GPU, "ps": _GPU, "timeslice": _SHARING, "mps": _SHARING,
    "why": _INSPECT, "diff": _INSPECT,
}  # fmt: skip


class GpuCommand(Flags):
    """Show GPUs and the containers that use them."""

    command, mixed = "gpu", False
    gpu_driver: str


class GpuList(Flags):
    """Show what GPUs the host has."""

    command = "gpu list"
    gpu_driver: str
    driver_root: str


class GpuPs(Flags):
    """Show who uses which GPU (Figure 1)."""

    command = "gpu ps"


def main(args: list[str], settings: Settings) -> int:
    """Call the command of the table that `args` names; flags may stand before its name."""
    before = GpuCommand(args)
    name, rest = verb(before, COMMANDS)
    if before.gpu_driver:
        rest = ["--gpu-driver", before.gpu_driver, *rest]
    return entry_of(name, COMMANDS)(rest, settings)


def main_list(args: list[str], settings: Settings) -> int:
    """Print what the host has."""
    flags = GpuList(args)
    flags.none()
    root, driver = flags.driver_root, flags.gpu_driver
    others = [driver] if driver in OTHER_VENDORS else []
    if not driver:
        others = discovery.present_vendors(root)
    page = "".join(vendor_table(discovery.find_cards(vendor, root)) for vendor in others)
    if not others or (not driver and driverroot.is_loaded(root)):
        found = drivers.inventory(driver or "auto", settings.store, root)
        page = gpu_table(found) + page
    return write(page)


def main_ps(args: list[str], settings: Settings) -> int:
    """Print who uses which GPU."""
    GpuPs(args).none()
    return write(use_table(usage_of.who_uses(holders.holders(settings))))


def use_table(rows: list[usage_of.Use]) -> str:
    """Return what `minirun gpu ps` prints."""
    if not rows:
        return "no running container has a gpu\n"
    cells = [("GPU", "USE", "CONTAINERS", "UUID", "MODEL")]
    for row in rows:
        cells.append((row.name, row.kind, ", ".join(row.containers) or "-", row.uuid, row.model))
    said = f"{usage_of.SHARED}\n" if any(row.kind == "shared" for row in rows) else ""
    return table.text(cells) + said


def gpu_table(found: Inventory) -> str:
    """Return what `minirun gpu list` prints: the driver, then each GPU and its MIG devices."""
    version = f"driver {found.driver}"
    cuda = f", CUDA {found.cuda}" if found.cuda else ""
    mark = " (SIMULATED: there is no driver)" if found.simulated else ""
    cells = [("GPU", "NODE", "BUS", "UUID", "MODEL")]
    for gpu in found.gpus:
        cells.append((str(gpu.number), gpu.node, gpu.bus_id, gpu.uuid, gpu.model))
        for at, mig in enumerate(gpu.migs):
            name = f"gi{mig.gi}/ci{mig.ci}"
            cells.append((f"{gpu.number}:{at}", gpu.node, name, mig.uuid, "MIG device"))
    return table.title(f"{version}{cuda}{mark}") + table.text(cells)


def vendor_table(found: discovery.Cards) -> str:
    """Return what `minirun gpu list` prints: the driver, then each card with its nodes."""
    rows = [("GPU", "BUS", "UUID", "MODEL", "NODES")]
    for card in found.cards:
        nodes = " ".join(node.path for node in card.nodes)
        rows.append((str(card.number), card.bus_id, card.uuid or "-", card.model, nodes))
    return table.title(f"driver {found.driver} ({found.kind})") + table.text(rows)
