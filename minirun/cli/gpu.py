"""`minirun gpu …`: what GPUs there are, who uses which (Figure 1), and how they are shared.

A table of commands as in minirun.cli: name → (module of minirun, one line of
help). The module has `main_NAME(args, settings)`, and is imported when it is called.
"""

from minirun.cli import entry_of
from minirun.cli.flags import Flags, flag, show
from minirun.core.choices import OTHER_VENDORS
from minirun.core.directories import make_root
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.engines import roots
from minirun.gpu import driverroot, drivers, select, vendors
from minirun.gpu.inventory import Gpu, Inventory
from minirun.gpu.selector import parse_gpus
from minirun.gpu.share import mps, sharing, timeslice
from minirun.gpu.share import usage as usage_of
from minirun.show.columns import aligned

COMMANDS = {
    "list": ("cli.gpu", "what the host has: driver, GPUs, MIG devices"),
    "ps": ("cli.gpu", "who uses which GPU: dedicated, shared or exclusive"),
    "timeslice": ("cli.gpu", "how long one process keeps a GPU while others wait for it"),
    "mps": ("cli.gpu", "NVIDIA's MPS daemon: several containers on a GPU at the same time"),
    "why": ("cli.inspect", "what a container was asked for, given, and has in force now"),
    "diff": ("cli.inspect", "the same request in legacy and in cdi mode, side by side"),
}
DRIVER = flag(
    "--gpu-driver NAME", "nvidia, amd, intel, gaudi or simulated (default: what there is)"
)
GPUS = flag("--gpus --gpu GPUS", "which: all, or indices, or uuids", default="all")


class GpuCommand(Flags):
    """Show GPUs and the containers that use them."""

    command, arguments, mixed = "gpu", "COMMAND …", False
    summary = "\n".join(
        ["Show GPUs and the containers that use them.", ""]
        + [f"  {name:<11}{text}" for name, (_, text) in COMMANDS.items()]
    )
    gpu_driver: str = DRIVER


class GpuList(Flags):
    """Show what GPUs the host has."""

    command = "gpu list"
    gpu_driver: str = DRIVER
    driver_root: str = flag("--driver-root DIR", "where the driver is, if not in /")


class GpuPs(Flags):
    """Show who uses which GPU (Figure 1)."""

    command = "gpu ps"
    gpu_driver: str = DRIVER


class Timeslice(Flags):
    """The time slice."""

    command, arguments = "gpu timeslice", f"[{'|'.join(timeslice.SLICES)}]"
    summary = """Set how long one process keeps a GPU while others wait; no word: show it.

It is set with nvidia-smi, for the whole host, until the driver is unloaded."""
    gpus: str = GPUS
    gpu_driver: str = DRIVER


class Mps(Flags):
    """NVIDIA's MPS daemon."""

    command, arguments = "gpu mps", "start|stop|status"
    summary = """Run NVIDIA's MPS daemon, so that containers use a GPU at the same time.

  start    start it, for all GPUs or those of --gpus
  stop     let it end
  status   say whether it runs, and who its clients are; 1 where it does not

A container is its client with: minirun run --gpus 0 --gpu-mps[=THREADS%,MEMORY] …"""
    gpus: str = GPUS
    gpu_driver: str = DRIVER


def main(args: "list[str]", settings: Settings) -> int:
    """Call the command of the table that `args` names; flags may stand before its name."""
    before = GpuCommand(args)
    if not before.args:
        return before.show_help()
    name, rest = before.args[0], before.args[1:]
    if name not in COMMANDS:
        raise UsageError(f"unknown command 'gpu {name}'", f"one of {', '.join(COMMANDS)}", 1)
    if before.gpu_driver:
        rest = ["--gpu-driver", before.gpu_driver, *rest]
    return entry_of(name, COMMANDS)(rest, settings)


def main_list(args: "list[str]", settings: Settings) -> int:
    """Print what the host has."""
    flags = GpuList(args)
    root, driver = flags.driver_root, flags.gpu_driver
    others = (
        [driver] if driver in OTHER_VENDORS else [] if driver else vendors.present_vendors(root)
    )
    lines = [line for vendor in others for line in vendor_table(vendors.find_cards(vendor, root))]
    if not others or (not driver and driverroot.is_loaded(root)):
        found = drivers.inventory(driver or "auto", settings.store, root)
        lines = gpu_table(found) + lines
    return show(lines)


def main_ps(args: "list[str]", settings: Settings) -> int:
    """Print who uses which GPU."""
    GpuPs(args)
    rows = [row for root in roots.known(settings) for row in sharing.holders(root)]
    return show(use_table(usage_of.who_uses(rows)))


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


def main_timeslice(args: "list[str]", settings: Settings) -> int:
    """Set or show the time slice."""
    flags = Timeslice(args)
    if len(flags.args) > 1 or not set(flags.args) <= set(timeslice.SLICES):
        hint = f"one of {', '.join(timeslice.SLICES)}"
        raise UsageError(f"invalid time slice {' '.join(flags.args)!r}", hint, 1)
    found = drivers.inventory(flags.gpu_driver or "auto", settings.store)
    if flags.args:
        lines = timeslice.set_slice(found, _gpus(flags, found), flags.args[0])
    else:
        lines = timeslice.show(found)
    return show(lines)


def main_mps(args: "list[str]", settings: Settings) -> int:
    """Start, stop or ask the MPS daemon."""
    flags = Mps(args)
    if flags.args not in (["start"], ["stop"], ["status"]):
        raise UsageError(
            f"unknown command 'gpu mps {' '.join(flags.args)}'", "start, stop or status", 1
        )
    if flags.args == ["start"]:
        make_root(settings.root)
        visible: tuple[str, ...] = ()
        if "gpus" in flags.given:
            found = drivers.inventory(flags.gpu_driver or "auto", settings.store)
            visible = tuple(gpu.uuid for gpu in _gpus(flags, found))
        return show([f"mps daemon started: pid {mps.start(settings.root, visible)}"])
    if flags.args == ["stop"]:
        mps.stop(settings.root)
        return show(["mps daemon stopped"])
    if not mps.daemon(settings.root):
        show(["the mps daemon does not run"])
        return 1
    return show(mps.status(settings.root))


def _gpus(flags: "Timeslice | Mps", found: Inventory) -> "tuple[Gpu, ...]":
    """Return the whole GPUs that --gpus names. Raises UsageError, GPUError."""
    selector = parse_gpus(flags.gpus)
    more = selector.amount or selector.exclusive or selector.capabilities
    if more or any(":" in device for device in selector.devices):
        raise UsageError(f"--gpus {flags.gpus}: name whole gpus here", "all, 0,1, or uuids", 1)
    return select.choose(found, selector.devices)
