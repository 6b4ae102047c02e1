"""`minirun gpu timeslice` and `gpu mps`: how GPUs of NVIDIA are shared."""

from __future__ import annotations

import os

from minirun.cli.flags import Flags, flag
from minirun.cli.output import show
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings
from minirun.gpu import drivers
from minirun.gpu.asked import select
from minirun.gpu.asked.select import parse_gpus
from minirun.gpu.inventory import Gpu, Inventory
from minirun.toolkit import mps, timeslice


class Timeslice(Flags):
    """The time slice."""

    command = "gpu timeslice"
    gpus: str = flag("--gpu", default="all")
    gpu_driver: str


class Mps(Timeslice):
    """NVIDIA's MPS daemon."""

    command = "gpu mps"


def main_timeslice(args: list[str], settings: Settings) -> int:
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


def main_mps(args: list[str], settings: Settings) -> int:
    """Start, stop or ask the MPS daemon."""
    flags = Mps(args)
    if flags.args not in (["start"], ["stop"], ["status"]):
        text = f"unknown command 'gpu mps {' '.join(flags.args)}'"
        raise UsageError(text, "start, stop or status", 1)
    if flags.args == ["start"]:
        os.makedirs(settings.root, mode=0o711, exist_ok=True)
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


def _gpus(flags: Timeslice, found: Inventory) -> tuple[Gpu, ...]:
    """Return the whole GPUs that --gpus names. Raises UsageError, GPUError."""
    selector = parse_gpus(flags.gpus)
    more = selector.amount or selector.exclusive or selector.capabilities
    if more or any(":" in device for device in selector.devices):
        raise UsageError(f"--gpus {flags.gpus}: name whole gpus here", "all, 0,1, or uuids", 1)
    return select.choose(found, tuple(name for name in selector.devices if name != "none"))
