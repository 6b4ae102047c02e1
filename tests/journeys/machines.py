"""A machine of QEMU's as a place to type in, by an ssh login: v2/machine.py boots it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "v2")]

import machine  # noqa: E402


class VirtualMachine:
    """A Debian that systemd has started, of cgroup version 2 alone."""

    def __init__(self, booted: machine.Machine) -> None:
        self.booted = booted

    def argv(self, *words: str, user: str = "root") -> list[str]:
        """Return the command line that logs in and runs `words`."""
        return [*self.booted.login(user), shlex.join(words)]

    def enter_cgroups(self) -> None:
        """Nothing: sshd has its own."""

    def state(self) -> dict[str, set[str]]:
        """Return the links, and the containers of root and of the user."""
        links = self._said("root", "ls /sys/class/net")
        containers = "".join(
            self._said(user, "minirun ps --all --quiet") for user in ("root", machine.USER)
        )
        return {"link": {*links.split()}, "container": {*containers.split()}}

    def _said(self, user: str, command: str) -> str:
        return self.booted.ssh(user, command).stdout

    def end_all_but(self, before: dict[str, set[str]]) -> None:
        """Nothing: the machine is thrown away."""


@contextmanager
def booted(suite: str) -> Iterator[VirtualMachine]:
    """Boot one, with this checkout's files as they are in the last commit."""
    with machine.booted(suite) as made:
        yield VirtualMachine(made)
