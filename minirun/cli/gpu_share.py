"""`minirun gpu timeslice` and `minirun gpu mps`: the two ways in which containers share a GPU."""

import sys

from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.cli.gpu import DRIVER
from minirun.core.directories import make_root
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.core.visible import clean
from minirun.gpu import drivers, select
from minirun.gpu.selector import parse_gpus
from minirun.gpu.share import mps, timeslice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.inventory import Gpu, Inventory

GPUS = Flag(("--gpus", "--gpu"), "GPUS", "which: all, or indices, or uuids", default="all")
TIMESLICE = (GPUS, DRIVER, HELP)
TIMESLICE_SUMMARY = """Set how long one process keeps a GPU while others wait; no word: show it.

It is set with nvidia-smi, for the whole host, until the driver is unloaded."""
MPS = (GPUS, DRIVER, HELP)
MPS_SUMMARY = """Run NVIDIA's MPS daemon, so that containers use a GPU at the same time.

  start    start it, for all GPUs or those of --gpus
  stop     let it end
  status   say whether it runs, and who its clients are; 1 where it does not

A container is its client with: minirun run --gpus 0 --gpu-mps[=THREADS%,MEMORY] …"""


def main_timeslice(args: "list[str]", settings: Settings) -> int:
    """Set or show the time slice."""
    flags = parse("gpu timeslice", TIMESLICE, args, mixed=True)
    if flags.help:
        words = f"[{'|'.join(timeslice.SLICES)}]"
        sys.stdout.write(usage("gpu timeslice", words, TIMESLICE_SUMMARY, TIMESLICE))
        return 0
    if len(flags.args) > 1 or not set(flags.args) <= set(timeslice.SLICES):
        hint = f"one of {', '.join(timeslice.SLICES)}"
        raise UsageError(f"invalid time slice {' '.join(flags.args)!r}", hint, 1)
    found = drivers.inventory(flags.gpu_driver or "auto", settings.store)
    if flags.args:
        lines = timeslice.set_slice(found, _gpus(flags, found), flags.args[0])
    else:
        lines = timeslice.show(found)
    return _print(lines)


def main_mps(args: "list[str]", settings: Settings) -> int:
    """Start, stop or ask the MPS daemon."""
    flags = parse("gpu mps", MPS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("gpu mps", "start|stop|status", MPS_SUMMARY, MPS))
        return 0
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
        return _print([f"mps daemon started: pid {mps.start(settings.root, visible)}"])
    if flags.args == ["stop"]:
        mps.stop(settings.root)
        return _print(["mps daemon stopped"])
    if not mps.daemon(settings.root):
        _print(["the mps daemon does not run"])
        return 1
    return _print(mps.status(settings.root))


def _gpus(flags: Parsed, found: "Inventory") -> "tuple[Gpu, ...]":
    """Return the whole GPUs that --gpus names. Raises UsageError, GPUError."""
    selector = parse_gpus(flags.gpus)
    more = selector.amount or selector.exclusive or selector.capabilities
    if more or any(":" in device for device in selector.devices):
        raise UsageError(f"--gpus {flags.gpus}: name whole gpus here", "all, 0,1, or uuids", 1)
    return select.choose(found, selector.devices)


def _print(lines: "list[str]") -> int:
    sys.stdout.write("".join(f"{clean(line)}\n" for line in lines))
    return 0
