"""docker's groups: `container ls` is `ps`, `system info` is `info`; a row of a table for each verb.

`image` and `network` are groups with commands of their own.
"""

from __future__ import annotations

from minirun.cli import COMMANDS, group
from minirun.cli.flags import Flags
from minirun.core.keeping.settings import Settings
from minirun.image import workshop

_SAME = (
    "attach", "commit", "cp", "create", "diff", "exec", "export", "kill", "logs", "pause", "port",
    "rename", "restart", "rm", "run", "start", "stats", "stop", "top", "unpause", "update",
    "wait",
)  # fmt: skip
CONTAINER = {
    "ls": "minirun.docker.ps.main_ls", "list": "minirun.docker.ps.main_ls",
    "ps": "minirun.docker.ps.main_ls",
    "inspect": "minirun.docker.inspecting.main_of_container",
    "prune": "minirun.docker.prune.main_of_containers",
    **{name: name for name in _SAME if name in COMMANDS},
}  # fmt: skip
"""Verb → the command that it is, or the function that does it."""
SYSTEM = {
    "df": "minirun.docker.groups.main_df", "events": "events", "info": "info",
    "prune": "minirun.docker.prune.main_of_system",
}  # fmt: skip


class ContainerCommand(Flags):
    """Manage containers."""

    command, mixed = "container", False


class SystemCommand(Flags):
    """The machine and the store as a whole."""

    command, mixed = "system", False


def main_container(args: list[str], settings: Settings) -> int:
    """Run one of the `container` commands; return its exit status."""
    return group(ContainerCommand(args), CONTAINER, settings)


def main_system(args: list[str], settings: Settings) -> int:
    """Run one of the `system` commands; return its exit status."""
    return group(SystemCommand(args), SYSTEM, settings)


def main_df(args: list[str], settings: Settings) -> int:
    """Say what takes room on the disk: the workshop's."""
    return int(workshop.call("df")(args, settings))
