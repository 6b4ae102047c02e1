"""A host of its own for tests of networks: a network namespace, with another host outside.

    outside 192.0.2.1, 2001:db8:7::1  ── e0 ─────── e0 ──  host 192.0.2.2, 2001:db8:7::2
                                                           minirun's bridges, in a store of its own

Nothing leaves this machine. minirun is called in the host's namespace; images are the shared
store's, by links.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import STORE, Program

HOST, OUTSIDE = "192.0.2.2", "192.0.2.1"
HOST6, OUTSIDE6 = "2001:db8:7::2", "2001:db8:7::1"


def ip(*words: str) -> str:
    """Call ip(8)."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Host(Program):
    """minirun on a host of its own."""

    def __init__(self, path: str, folder: Path, name: str) -> None:
        super().__init__(path, folder / "containers")
        self.store = folder / "store"
        self.name, self.outside = name, f"{name}-out"
        self.store.mkdir()
        for each in ("images", "layers", "blobs"):
            (self.store / each).symlink_to(f"{STORE}/{each}")

    def argv(self, *args: str) -> list[str]:
        words = [self.path, "--root", str(self.root), "--store", str(self.store), *args]
        return [*self.inside(), *words]

    def inside(self, name: str = "") -> list[str]:
        """Return the beginning of a command line that runs on the host, or on another one."""
        return ["env", "-u", "MINIRUN_NETWORK", "nsenter", f"--net=/run/netns/{name or self.name}"]

    def shell(self, text: str, *, outside: bool = False, timeout: float = 20) -> str:
        """Run a line of sh on the host, or outside; return what it writes, to both streams."""
        where = self.inside(self.outside if outside else "")
        done = subprocess.run(
            [*where, "sh", "-c", text], text=True, check=False, timeout=timeout,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.stdout.strip()

    def run(self, *args: str, **options: object) -> str:
        """Run minirun, which has to succeed; return its standard output."""
        done = self(*args, **options)
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout.strip()

    def state(self) -> dict[str, object]:
        """Return what a container may not leave changed: links, rules, routes, sysctls, leases."""
        links = self.shell("ip -brief link")
        leases = self.store.glob("networks/*/leases/[!.]*")
        return {
            "links": sorted(re.sub(r"@\S+", "", line.split()[0]) for line in links.splitlines()),
            "firewall": self.shell("nft list ruleset"),
            "rules": self.shell("ip rule; ip -6 rule"),
            "routes": self.shell("ip route; ip -6 route | grep -v fe80"),
            "sysctls": self.shell("sysctl net.ipv4.conf.all net.ipv4.conf.e0 net.ipv6.conf.all"),
            "leases": sorted(path.name for path in leases),
            "processes": self.shell(
                f"ip netns pids {self.name} | xargs -r ps -o comm= -p | grep minirun"
            ),
        }


@contextmanager
def host(path: str, folder: Path, name: str) -> Iterator[Host]:
    """Make a host and the one outside; remove both afterwards. `name`: of its namespace."""
    made = Host(path, folder, name)
    try:
        for each in (name, made.outside):
            ip("netns", "add", each)
            ip("-n", each, "link", "set", "lo", "up")
        ip("link", "add", "e0", "netns", name, "type", "veth", "peer", "e0", "netns", made.outside)
        for each, address, address6 in (
            (name, HOST, HOST6), (made.outside, OUTSIDE, OUTSIDE6)
        ):  # fmt: skip
            ip("-n", each, "address", "add", f"{address}/24", "dev", "e0")
            ip("-n", each, "address", "add", f"{address6}/64", "dev", "e0", "nodad")
            ip("-n", each, "link", "set", "e0", "up")
        ip("-n", name, "route", "add", "default", "via", OUTSIDE)
        ip("-n", name, "-6", "route", "add", "default", "via", OUTSIDE6)
        made.shell("sysctl -q net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0")
        yield made
        made.clean()
    finally:
        for each in (name, made.outside):
            if os.path.exists(f"/run/netns/{each}"):
                ip("netns", "del", each)
