"""The simulated driver: what a host with NVIDIA GPUs looks like from outside, on one without.

Real files (tiny ELF libraries with the right SONAMEs, scripts, /proc entries) are made once below
the store and then mounted like a real driver's; device nodes are real nodes made with mknod. What
no file can simulate is not there: open() of a node gives ENXIO where the device cgroup allows it
and EPERM where it does not. SIMULATED stands in everything that can be read, and no measurement is
ever invented. The real stack has nothing of the kind: without a driver it fails.

This module is the warm path: it reads one JSON file. minirun.gpu.simulated.build makes the files.

    spec     MINIRUN_SIM: how many GPUs, which model, which driver
    files    names and contents of the driver's files; elf: a shared object of 700 bytes
    build    the files are made, once
"""

from __future__ import annotations

import os
from binascii import crc32

from minirun.core.errors import GPUError, UsageError
from minirun.core.keeping import jsonlite, places
from minirun.core.keeping.state import read_text
from minirun.core.kernel.architecture import NATIVE
from minirun.core.lazy import lazy
from minirun.gpu.inventory import ControlNode, Gpu, HostFile, Inventory, Mig

with lazy:
    from minirun.gpu.simulated import build  # once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LAYOUT = 7
"""Counts up when the files change, so that a store never serves those of an older minirun."""
FILES = ("libraries", "libraries32", "binaries", "firmware", "sockets")
"""Fields of Inventory that are rows of HostFile."""


def inventory(store: str, simulation: str = "") -> Inventory:
    """Return the simulated host, whose files are made at the first call.

    `simulation` says what it is to look like; "" for what $MINIRUN_SIM or the store says.
    Raises UsageError for a bad specification, GPUError where the store is broken, OSError.
    """
    root = driver_root(store, simulation)
    path = f"{root}/inventory.json"
    try:
        text = read_text(path)
    except FileNotFoundError:
        build.make(root, *in_force(store, simulation))
        text = read_text(path)
    try:
        return _records(jsonlite.loads(text), root)
    except (ValueError, KeyError, TypeError) as error:
        hint = f"remove {root}: it is made anew"
        raise GPUError(f"simulated driver is broken: {path}: {error}", hint) from None


def in_force(store: str, simulation: str = "") -> tuple[str, str]:
    """Return (the specification, the file that says it or ""). Raises UsageError, OSError."""
    if text := simulation or os.environ.get("MINIRUN_SIM", ""):
        return text, ""
    path = f"{store}/{places.DRIVERS}/simulated.json"
    try:
        return read_text(path), path
    except FileNotFoundError:
        return "", ""
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def driver_root(store: str, simulation: str = "") -> str:
    """Return the folder of the files of a specification, which is a valid one if that is there."""
    text, _ = in_force(store, simulation)
    key = crc32(f"{LAYOUT} {NATIVE.machine} {text}".encode())
    return f"{os.path.abspath(store)}/{places.DRIVERS}/simulated-{key:08x}"


def _records(values: dict[str, Any], root: str) -> Inventory:
    """Return an Inventory from the values of a specification."""
    kinds: dict[str, Any] = {"nodes": ControlNode, **dict.fromkeys(FILES, HostFile)}
    rows = {key: tuple(kind(*row) for row in values[key]) for key, kind in kinds.items()}
    cards = [Gpu(*row) for row in values["gpus"]]
    gpus = tuple(gpu._replace(migs=tuple(Mig(*mig) for mig in gpu.migs)) for gpu in cards)
    return Inventory(**{**values, **rows, "gpus": gpus, "root": root})
