"""IMEX channels: the right to share GPU memory between the machines of one NVLink domain.

A channel is a device node, /dev/nvidia-caps-imex-channels/channelN, whose major is in /proc/devices
and whose minor is N. The container gets those it asks for; there is nothing else to them.
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.cli.nodes import node_of
from minirun.gpu.nvidia.shared.catalog import IMEX_FOLDER
from minirun.gpu.steps import DeviceNode

_MOST = 1 << 20
"""Minors of a device: makedev(3)."""


def numbers(channels: tuple[str, ...]) -> list[int]:
    """Return the channels of --imex-channel. Raises GPUError for what is no number."""
    found = []
    for channel in filter(None, channels):
        number = whole(channel, most=_MOST - 1)
        if number is None:
            raise GPUError(
                f"error parsing IMEX info: {channel}: invalid channel id", "as in --imex-channel=0"
            )
        found.append(number)
    return list(dict.fromkeys(found))


def path(channel: int) -> str:
    """Return the node of a channel."""
    return f"{IMEX_FOLDER}/channel{channel}"


def plan(inventory: Inventory, channels: tuple[str, ...]) -> list[DeviceNode]:
    """Return the nodes of the channels. Raises GPUError."""
    wanted = numbers(channels)
    if wanted and not inventory.imex_major:
        hint = "the driver has no nvidia-caps-imex-channels in /proc/devices"
        raise GPUError("mount error: no IMEX channels on this host", hint)
    return [node_of(inventory, path(channel), inventory.imex_major, channel) for channel in wanted]
