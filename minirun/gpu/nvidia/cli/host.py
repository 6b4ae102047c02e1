"""The host of stage 5 with a real driver: found, completed, and checked.

What it has: minirun.gpu.nvidia.shared.real; what is wrong with it: minirun.gpu.nvidia.cli.warn.
"""

from __future__ import annotations

import os

from minirun.core import events
from minirun.core.lazy import lazy
from minirun.gpu import driverroot, trusted
from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.inventory import Inventory, Notice
from minirun.gpu.nvidia.cli import warn
from minirun.gpu.nvidia.shared import nvml, real

with lazy:
    from minirun.gpu.nvidia.cli import kmods  # once after boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.choices import Choices

_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
"""If one of them is missing the driver is not ready: after boot none loads nvidia-uvm."""


def find(options: NvidiaRequest, request: NvidiaRequest, chosen: Choices) -> Inventory:
    """Return what the host has: `options` say where, `request` what it is for.

    If the user chose it, modules are loaded even if all nodes are there. Modules and nodes are
    looked for below one root. Raises GPUError, OSError.
    """
    root = trusted.check(options.root) or real.driver_root(options.ldcache)
    asked = chosen.dev_root
    dev_root = trusted.check(asked) if asked else driverroot.dev_root(root)
    complete = all(os.path.exists(dev_root + path) for path in _NODES) or driverroot.is_wsl()
    if request.load_kmods and (chosen.load_kmods or not complete):
        _load_modules(dev_root, request)
    user = nvml.user_of(options.user)
    found = real.inventory(root, options.ldcache, user=user, dev_root=dev_root)
    warn.report_notices(warn.check(found, request))
    return found


def _load_modules(root: str, request: NvidiaRequest) -> None:
    """Load what is missing of the real driver, and make its nodes. Raises GPUError."""
    channels = () if request.no_create_imex_channels else request.imex_channels
    if missing := kmods.load(root, channels, _log):
        text = f"could not load kernel module {', '.join(missing)}"
        hint = "modprobe -v says why; it must be of the running kernel, and no other driver's"
        warn.report_notices([Notice(text, hint)])


def _log(text: str) -> None:
    events.emit("note", "kernel modules", {"text": text}, why="as nvidia-modprobe would")
