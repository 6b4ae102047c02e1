"""A host of its own for tests of networks: a network namespace, with another host outside.

    outside 192.0.2.1, 2001:db8:7::1  ── e0 ─────── e0 ──  host 192.0.2.2, 2001:db8:7::2
                                                           minirun's bridges, in a store of its own

Nothing leaves this machine. minirun is called in the host's namespace; images are the shared
store's, by links. A process holds each namespace: ip-netns(8) would mount it, for all to see.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import STORE, Program

HOST, OUTSIDE = "192.0.2.2", "192.0.2.1"
HOST6, OUTSIDE6 = "2001:db8:7::2", "2001:db8:7::1"


def ip(pid: int, *words: str) -> str:
    """Call ip(8) in the network namespace of a process."""
    words = ("nsenter", f"--net=/proc/{pid}/ns/net", "ip", *words)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


@contextmanager
def namespace() -> Iterator[int]:
    """Give a process that is alone in a new network namespace, with lo up."""
    script = "ip link set lo up && echo up && exec sleep infinity"
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script], text=True, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout and process.stdout.readline() == "up\n"
            yield process.pid
        finally:
            process.kill()


def cable(pid: int, other: int) -> None:
    """Put two network namespaces on a cable, e0, with the addresses of the host and of outside."""
    ip(pid, "link", "add", "e0", "type", "veth", "peer", "e0", "netns", str(other))
    for each, address, address6 in ((pid, HOST, HOST6), (other, OUTSIDE, OUTSIDE6)):
        ip(each, "address", "add", f"{address}/24", "dev", "e0")
        ip(each, "address", "add", f"{address6}/64", "dev", "e0", "nodad")
        ip(each, "link", "set", "e0", "up")
    ip(pid, "route", "add", "default", "via", OUTSIDE)
    ip(pid, "-6", "route", "add", "default", "via", OUTSIDE6)


class Host(Program):
    """minirun on a host of its own; `pid`, `outside`: the processes that hold the namespaces."""

    def __init__(
        self, path: str, folder: Path, pid: int, outside: int, *, has_images: bool = True
    ) -> None:
        super().__init__(path, folder / "containers")
        self.store = folder / "store"
        self.pid, self.outside = pid, outside
        self.store.mkdir()
        for each in ("images", "layers", "blobs") if has_images else ():
            (self.store / each).symlink_to(f"{STORE}/{each}")

    def argv(self, *args: str) -> list[str]:
        words = [self.path, "--root", str(self.root), "--store", str(self.store), *args]
        return [*self.inside(), *words]

    def inside(self, pid: int = 0) -> list[str]:
        """Return the beginning of a command line that runs on the host, or where `pid` is."""
        return ["env", "-u", "MINIRUN_NETWORK", "nsenter", f"--net=/proc/{pid or self.pid}/ns/net"]

    def processes(self) -> list[str]:
        """Return the names of the processes on the host that are not this test's own, sorted."""
        own, found = os.stat(f"/proc/{self.pid}/ns/net").st_ino, []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino == own:
                    found.append(Path(f"/proc/{pid}/comm").read_text().strip())
            except OSError:  # it has ended, or is a zombie
                continue
        return sorted(found)

    def shell(self, text: str, *, outside: bool = False, timeout: float = 20) -> str:
        """Run a line of sh on the host, or outside; return what it writes, to both streams."""
        where = self.inside(self.outside if outside else 0)
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

    def state(self) -> dict[str, Any]:
        """Return what a container may not leave changed: links, rules, routes, sysctls, leases.

        The kernel notes late that a link has no carrier, or has one.
        """
        links = self.shell("ip -brief link")
        leases = self.store.glob("networks/*/leases/[!.]*")
        return {
            "links": sorted(re.sub(r"@\S+", "", line.split()[0]) for line in links.splitlines()),
            "firewall": self.shell("nft list ruleset"),
            "rules": self.shell("ip rule; ip -6 rule"),
            "routes": self.shell("ip route; ip -6 route | grep -v fe80").replace(" linkdown", ""),
            "sysctls": self.shell("sysctl net.ipv4.conf.all net.ipv4.conf.e0 net.ipv6.conf.all"),
            "leases": sorted(path.name for path in leases),
            "processes": [name for name in self.processes() if name.startswith("minirun")],
        }


@contextmanager
def host(path: str, folder: Path, *, has_images: bool = True) -> Iterator[Host]:
    """Make a host and the one outside; they end with this. `has_images`: the shared store's."""
    with namespace() as pid, namespace() as outside:
        made = Host(path, folder, pid, outside, has_images=has_images)
        cable(pid, outside)
        made.shell("sysctl -q net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0")
        yield made
        made.clean()
