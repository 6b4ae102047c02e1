"""The surroundings in which journeys are made: what each has, and what it lacks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from journeys import virtual  # noqa: E402
from journeys.cells import CLONE, USER, DebianCell, Place  # noqa: E402
from journeys.reader import Journey  # noqa: E402

MACHINE_USER = virtual.machine.USER
STATIC = "apt-get install --yes --quiet=2 busybox-static > /dev/null"
TMPFS = "mkdir -p {1}; mount -t tmpfs -o mode={0},nosuid,nodev tmpfs {1}\n"


class Surrounding(NamedTuple):
    """One column of the table."""

    name: str
    words: str
    user: str = "root"
    suite: str = "bookworm"
    is_online: bool = True
    mounts: str = ""
    """A shell's, when the cell starts: its folder is the root to be."""
    prepared: str = ""
    """What root types first, while there is a network."""
    images: tuple[str, ...] = ()
    """Made while there is a network."""
    between: str = ""
    """What happens before each command."""
    is_booted: bool = False
    """It is a machine of QEMU's, and the user logs in by ssh."""
    in_every_test: bool = False
    """`make test` plays it."""
    few: tuple[str, ...] = ()
    """Numbers of the journeys that it makes; empty: all but those for others only."""

    @property
    def patience(self) -> int:
        """How many times longer than in a cell something may take."""
        return 6 if self.is_booted else 1

    def makes(self, journey: Journey) -> bool:
        """Return True if a journey is made here."""
        if self.few and journey.name.partition("-")[0] not in self.few:
            return False
        return not journey.only or self.name in journey.only


OVERLAY = """
d=$(mktemp -d -p run); mkdir $d/upper $d/work
mount -t overlay -o lowerdir=var/lib/minirun,upperdir=$d/upper,workdir=$d/work none var/lib/minirun
"""
EXT4 = """
truncate --size=4G ../ext4; mkfs.ext4 -q ../ext4
mkdir ../other; mount -o loop ../ext4 ../other
cp -a var/lib/minirun ../other/minirun; mkdir -m 1777 ../other/tmp
mount --bind ../other/minirun var/lib/minirun
mount --bind ../other/tmp tmp
"""
NETWORKS = ("02", "18", "19", "20", "27", "42")
"""The journeys that a host's firewall and settings can change."""
ON_OVERLAY = ("01", "03", "08", "09", "12", "13", "15", "16", "21", "37", "41", "49")
"""Some of those that mount a container's root, which all end in the same way, and the others."""
FEW = (
    "03", "04", "05", "06", "07", "12", "14", "16", "17", "18", "19", "28", "29", "34", "39", "66",
)  # fmt: skip
"""For machines in which QEMU translates each instruction: fifteen, and the one of their logins."""
FIREWALL = """
add table inet wall
add chain inet wall forward {
  type filter hook forward priority filter + 10; policy accept;
}
add rule inet wall forward ct state { established, related } accept
add rule inet wall forward ct status dnat accept
add rule inet wall forward iifname "lo" accept
add rule inet wall forward reject with icmpx admin-prohibited
"""
"""A wall that minirun has no words with: firewalld's rules without its daemon, or rules by hand."""
NOT_BRIDGED = "echo 0 2> /dev/null > /proc/sys/net/bridge/bridge-nf-call-iptables || true"
"""What a bridge passes on is no matter of the wall, whether or not br_netfilter is loaded here."""
FIREWALLD = """
apt-get install --yes --quiet=2 --no-install-recommends dbus firewalld netbase > /dev/null
mkdir -p /run/dbus; dbus-daemon --system --fork > /dev/null
firewalld > /dev/null 2>&1
timeout 60 sh -c 'until firewall-cmd --state > /dev/null 2>&1; do sleep 0.1; done'
"""
"""netbase has /etc/protocols: without it firewalld ends at once."""

SURROUNDINGS = (
    Surrounding("root", "Debian 12 after `make setup`, as root", in_every_test=True),
    Surrounding("user", "the same, as an ordinary user", USER, in_every_test=True),
    Surrounding(
        "offline", "the same, as root, without any network", is_online=False,
        prepared=STATIC, images=("busybox",), in_every_test=True,
    ),
    Surrounding(
        "offline-user", "the same, as a user", USER, is_online=False, prepared=STATIC,
        images=("busybox",),
    ),
    Surrounding(
        "tmpfs", "as root; the containers' folder and /tmp are a tmpfs, mounted nosuid and nodev",
        mounts=TMPFS.format("0700", "var/lib/minirun/containers") + TMPFS.format("1777", "tmp"),
    ),
    Surrounding(
        "overlay", "as root; /var/lib/minirun is on an OverlayFS, as in a container",
        mounts=OVERLAY, prepared=STATIC, images=("busybox",), few=ON_OVERLAY,
    ),
    Surrounding(
        "ext4", "as root; /var/lib/minirun and /tmp are on an ext4 of their own, in a loop device",
        mounts=EXT4,
    ),
    Surrounding(
        "forwarding-off", "as root; ip_forward is 0",
        prepared="echo 0 > /proc/sys/net/ipv4/ip_forward", few=NETWORKS,
    ),
    Surrounding(
        "flushed", "as root; before each command `nft flush ruleset`, as a firewall's reload does",
        between="nft flush ruleset", few=NETWORKS,
    ),
    Surrounding(
        "firewalld", "as root; firewalld runs, with its zones as Debian's package has them",
        prepared=FIREWALLD, few=NETWORKS,
    ),
    Surrounding(
        "foreign-firewall", "as root; rules that reject what they do not name, of no known program",
        prepared=f"{NOT_BRIDGED}\nnft -f - << 'END'\n{FIREWALL}END\n", few=NETWORKS,
    ),
    Surrounding(
        "booted", "Debian 13 that systemd has started, cgroup version 2 alone, as root, by ssh",
        suite="trixie", is_booted=True, few=FEW,
    ),
    Surrounding(
        "booted-user", "the same, as a user", MACHINE_USER, "trixie", is_booted=True, few=FEW,
    ),
    Surrounding(
        "booted-noble", "Ubuntu 24.04 that systemd has started, as root, by ssh",
        suite="noble", is_booted=True, few=FEW,
    ),
    Surrounding(
        "booted-noble-user", "the same, as a user: Ubuntu's AppArmor allows it no namespaces",
        MACHINE_USER, "noble", is_booted=True, few=FEW,
    ),
    Surrounding(
        "python-3.14", "Debian sid, whose Python is 3.14, as root", suite="sid",
    ),
)  # fmt: skip


@contextmanager
def entered(where: Surrounding, packages: Iterable[str] = ()) -> Iterator[Place]:
    """Make a surrounding that is a cell; it goes with this."""
    cell = DebianCell(where.suite, where.mounts, packages)
    try:
        runtime = "/run/user/1000"  # as logind makes it
        options = "mode=700,uid=1000,gid=1000"
        cell.run("sh", "-euc", f"mkdir -p {runtime}; mount -t tmpfs -o {options} tmpfs {runtime}")
        cell.connect()
        if where.prepared:
            cell.run("sh", "-euc", where.prepared)
        for image in where.images:
            minirun = f"/{CLONE}/.venv/bin/minirun"
            cell.run(minirun, "images", "build", image, user=where.user)
        if not where.is_online:
            cell.disconnect()
        yield cell
    finally:
        cell.close()
