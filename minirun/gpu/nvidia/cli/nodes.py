"""A device node of the driver's as a step, and how what is bound below /proc is mounted."""

from __future__ import annotations

from minirun.gpu.inventory import Inventory
from minirun.gpu.steps import DeviceNode

PROC_FILE = ("ro", "nosuid", "nodev", "noexec")
"""Options of what is mounted below /proc."""


def node_of(
    inventory: Inventory, path: str, major: int, minor: int, mode: int = 0o666
) -> DeviceNode:
    """Return a node: the host's own, to bind; if the driver is simulated, a node to make."""
    host_path = "" if inventory.simulated else inventory.dev_root + path
    return DeviceNode(path, "c", major, minor, mode, host_path=host_path)
