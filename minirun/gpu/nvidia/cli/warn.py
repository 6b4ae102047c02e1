"""Warnings for faults that NVIDIA's stack ignores: one line each, on stderr and in the log.

The real nvidia-container-cli ends with status 0 and an unusable container where kernel module and
libraries are of different versions, where ld.so.cache does not list the libraries, where
/dev/nvidia-uvm is missing, and where the host has no GPU (facts sheet, "fails silently"). Here each
of these is a Notice. The program under NVIDIA's own name prints them and ends as the real one
does; in-line, a fatal one is an error: `minirun run --gpus` gives what was asked for, or nothing.

What costs nothing is looked at always (the inventory knows it); the libraries of a driver only
where a real one is (minirun.gpu.nvidia.cli.skew).
"""

from __future__ import annotations

from minirun.core import events
from minirun.core.errors import GPUError
from minirun.core.keeping import visible
from minirun.core.lazy import lazy
from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.inventory import Inventory, Notice
from minirun.gpu.nvidia.shared import catalog

with lazy:
    from minirun.gpu.nvidia.cli import skew  # and ldcache: of real drivers

MODPROBE = "nvidia-modprobe -u -c 0 makes it"


def check(found: Inventory, request: NvidiaRequest, cache: str = "") -> list[Notice]:
    """Return what is wrong with a host. Raises GPUError if `cache`, its ld.so.cache, is damaged."""
    said: list[Notice] = []
    if any(request.devices) and not found.gpus:
        said.append(Notice(*found.why_no_gpu(), fatal=True))
    wanted = frozenset(request.capabilities) if not found.store else frozenset()
    if not found.simulated and wanted:
        said += skew.find_mismatches(found, wanted, cache or catalog.LD_SO_CACHE)
    there = [node.path for node in found.nodes]
    for path, _, _, needs in catalog.NODES:
        if path not in there and wanted & frozenset(needs.split()):
            said.append(Notice(f"{path} does not exist on this host", MODPROBE))
    return said


def report_notices(notices: list[Notice]) -> None:
    """Print warnings for the user, and write them into the log. Raises GPUError for a fatal one."""
    for one in refuse_fatal(notices):
        events.emit("note", "warning", {"text": one.text}, why=one.hint)
        visible.warn(str(one))


def refuse_fatal(notices: list[Notice]) -> list[Notice]:
    """Return the notices, or raise GPUError for the first fatal one."""
    for one in notices:
        if one.fatal:
            raise GPUError(one.text, one.hint)
    return notices
