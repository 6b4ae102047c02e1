"""A machine of QEMU's as a place to type in, by an ssh login: v2/machine.py boots it."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "v2")]

import machine  # noqa: E402

CONTAINERS = "set -eo pipefail; minirun ps --all --quiet | sed 's/^/container /'"
STATE = f"""{CONTAINERS}
ls /sys/class/net | sed 's/^/link /'
awk '/minirun/ {{ print "mount", $5 }}' /proc/self/mountinfo
find /sys/fs/cgroup -type d -name '*minirun*' -printf 'cgroup %p\\n'"""


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
        """Return the links, minirun's mounts and cgroups, and the containers of both users."""
        found: dict[str, set[str]] = defaultdict(set)
        for line in (*self._said("root", STATE), *self._said(machine.USER, CONTAINERS)):
            kind, _, name = line.partition(" ")
            found[kind].add(name)
        return found

    def _said(self, user: str, command: str) -> list[str]:
        done = self.booted.ssh(user, command)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout.splitlines()

    def end_all_but(self, before: dict[str, set[str]]) -> None:
        """Nothing: the machine is thrown away."""


@contextmanager
def booted(suite: str) -> Iterator[VirtualMachine]:
    """Boot one, with this checkout's files as they are in the last commit, and the user's image."""
    with machine.booted(suite) as made:
        done = made.ssh(machine.USER, "minirun images build busybox")
        assert done.returncode == 0, done.stderr
        yield VirtualMachine(made)
