"""`minirun gpu …`: what GPUs there are, who uses which (Figure 1), and how they are shared.

A table of commands as in minirun.cli: name → (module in minirun.cli, one line of help). The module
has `main_NAME(args, settings)` or `main(args, settings)`, and is imported when it is called.
"""

import sys

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core.choices import OTHER_VENDORS
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.core.visible import clean
from minirun.engines import roots
from minirun.gpu import driverroot, drivers, vendors
from minirun.gpu.inventory import Inventory
from minirun.gpu.share import sharing
from minirun.gpu.share import usage as usage_of
from minirun.show.columns import aligned

COMMANDS = {
    "list": ("gpu", "what the host has: driver, GPUs, MIG devices"),
    "ps": ("gpu", "who uses which GPU: dedicated, shared or exclusive"),
    "timeslice": ("gpu_share", "how long one process keeps a GPU while others wait for it"),
    "mps": ("gpu_share", "NVIDIA's MPS daemon: several containers on a GPU at the same time"),
    "why": ("gpu_why", "what a container was asked for, given, and has in force now"),
    "diff": ("gpu_diff", "the same request in legacy and in cdi mode, side by side"),
}
DRIVER = Flag(
    ("--gpu-driver",), "NAME", "nvidia, amd, intel, gaudi or simulated (default: what there is)"
)
FLAGS = (DRIVER, HELP)
LIST_FLAGS = (DRIVER, Flag(("--driver-root",), "DIR", "where the driver is, if not in /"), HELP)


def main(args: "list[str]", settings: Settings) -> int:
    """Call the command of the table that `args` names; flags may stand before its name."""
    before = parse("gpu", FLAGS, args)
    if before.help or not before.args:
        sys.stdout.write(usage("gpu", "COMMAND …", _summary(), FLAGS))
        return 0 if before.help else 1
    name, rest = before.args[0], before.args[1:]
    if name not in COMMANDS:
        raise UsageError(f"unknown command 'gpu {name}'", f"one of {', '.join(COMMANDS)}", 1)
    if before.gpu_driver:
        rest = ["--gpu-driver", before.gpu_driver, *rest]
    module = __import__(f"minirun.cli.{COMMANDS[name][0]}", fromlist=["main"])
    entry = getattr(module, f"main_{name}", None) or module.main
    return int(entry(rest, settings))


def _summary() -> str:
    rows = [f"  {name:<11}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["Show GPUs and the containers that use them.", "", *rows])


def main_list(args: "list[str]", settings: Settings) -> int:
    """Print what the host has."""
    flags = parse("gpu list", LIST_FLAGS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("gpu list", "", "Show what GPUs the host has.", LIST_FLAGS))
        return 0
    root, driver = flags.driver_root, flags.gpu_driver
    others = (
        [driver] if driver in OTHER_VENDORS else [] if driver else vendors.present_vendors(root)
    )
    lines = [line for vendor in others for line in vendor_table(vendors.find_cards(vendor, root))]
    if not others or (not driver and driverroot.is_loaded(root)):
        found = drivers.inventory(driver or "auto", settings.store, root)
        lines = gpu_table(found) + lines
    return _print(lines)


def main_ps(args: "list[str]", settings: Settings) -> int:
    """Print who uses which GPU."""
    flags = parse("gpu ps", FLAGS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("gpu ps", "", "Show who uses which GPU (Figure 1).", FLAGS))
        return 0
    rows = [row for root in roots.known(settings) for row in sharing.holders(root)]
    return _print(use_table(usage_of.who_uses(rows)))


def use_table(rows: "list[usage_of.Use]") -> "list[str]":
    """Return the lines of `minirun gpu ps`."""
    if not rows:
        return ["no running container has a gpu"]
    cells = [("GPU", "USE", "CONTAINERS", "UUID", "MODEL")]
    for row in rows:
        cells.append((row.name, row.kind, ", ".join(row.containers) or "-", row.uuid, row.model))
    said = [usage_of.SHARED] if any(row.kind == "shared" for row in rows) else []
    return [*aligned(cells), *said]


def gpu_table(found: Inventory) -> "list[str]":
    """Return the lines of `minirun gpu list`: the driver, then each GPU and its MIG devices."""
    version = f"driver {found.driver}"
    cuda = f", CUDA {found.cuda}" if found.cuda else ""
    mark = " (SIMULATED: there is no driver)" if found.simulated else ""
    cells = [("GPU", "NODE", "BUS", "UUID", "MODEL")]
    for gpu in found.gpus:
        cells.append((str(gpu.number), gpu.node, gpu.bus_id, gpu.uuid, gpu.model))
        for at, mig in enumerate(gpu.migs):
            name = f"gi{mig.gi}/ci{mig.ci}"
            cells.append((f"{gpu.number}:{at}", gpu.node, name, mig.uuid, "MIG device"))
    return [f"{version}{cuda}{mark}", *aligned(cells)]


def vendor_table(found: vendors.Cards) -> "list[str]":
    """Return the lines of `minirun gpu list`: the driver, then each card with its nodes."""
    rows = [("GPU", "BUS", "UUID", "MODEL", "NODES")]
    for card in found.cards:
        nodes = " ".join(node.path for node in card.nodes)
        rows.append((str(card.number), card.bus_id, card.uuid or "-", card.model, nodes))
    return [f"driver {found.driver} ({found.kind})", *aligned(rows)]


def _print(lines: "list[str]") -> int:
    sys.stdout.write("".join(f"{clean(line)}\n" for line in lines))
    return 0
