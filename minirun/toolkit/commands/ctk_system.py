"""`minirun nvidia-ctk system`: nodes of the driver in /dev, and the links to them in /dev/char."""

from __future__ import annotations

from minirun.cli.flags import flag
from minirun.core.keeping.settings import Settings
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.commands.ctk import CtkFlags, unknown
from minirun.toolkit.ctk import devchar


class Symlinks(CtkFlags):
    """Link /dev/char/MAJOR:MINOR to the nodes."""

    command = "nvidia-ctk system create-dev-char-symlinks"
    create_all: bool
    driver_root: str = flag(default="/")
    dev_char_path: str = flag(default="/dev/char")
    dry_run: bool


class CreateDeviceNodes(CtkFlags):
    """Make the driver's control nodes."""

    command = "nvidia-ctk system create-device-nodes"
    control_devices: bool
    driver_root: str = flag(default="/")
    dry_run: bool


def main(words: list[str], log: ToolkitLog, settings: Settings) -> int:
    """Run one of the commands. Raises MinirunError, OSError."""
    if words[:1] == ["create-dev-char-symlinks"]:
        return _symlinks(Symlinks(words[1:]), log)
    if words[:1] != ["create-device-nodes"]:
        raise unknown(["system", *words[:1]])
    flags = CreateDeviceNodes(words[1:])
    if flags.control_devices:
        log.info(f"Creating control device nodes at {flags.driver_root}")
        devchar.make_nodes(flags.driver_root.rstrip("/"), log, dry_run=flags.dry_run)
    return 0


def _symlinks(flags: Symlinks, log: ToolkitLog) -> int:
    root = flags.driver_root.rstrip("/")
    nodes = devchar.possible_nodes(root) if flags.create_all else devchar.existing_nodes(root)
    if not nodes:
        log.info(f"No NVIDIA devices found in {flags.driver_root}")
    devchar.link(nodes, flags.dev_char_path, log, dry_run=flags.dry_run)
    return 0
