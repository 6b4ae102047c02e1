"""A new network namespace has one interface, lo, and it is down: network_namespaces(7).

What happens: init, in stage 1's new namespace, sets it up; 127.0.0.1 and ::1 come with that, from
the kernel. Without it even a program that talks to itself gets "Network is unreachable".

What the real stack does: runc brings lo up in its init through netlink; engines that want more
(a bridge, a veth pair) do it from outside, in a hook or before start. minirun does it in stage 1,
while init builds its root filesystem, for `run IMAGE` alone: an engine's bundle gets none of it.
With `--network none` lo is all; with `--network host` there is no new namespace at all.

    attach       the networks of one container: it gets them in stage 1, and gives them back
    plans        what a container gets of each network, before any of it is done
    network      a network, kept in the store: its name, bridge and subnet
    leases       what a container has on a network: address, veth pair, ports, names
    upkeep       rules that another program has removed, leases of containers that are gone
    links        the bridge, the veth pairs, addresses and routes
    forwarding   the host forwards packets
    rtnetlink    the requests for them to the kernel, by pyroute2, each an event
    firewall     the table of nftables: NAT, published ports, walls between networks
    nft          the program nft
    docker_user  rules in the chain that docker keeps for others
    firewalld    addresses in firewalld's zone
    conntrack    connections of UDP that the kernel remembers, and should not
    ruleset      the rules of nftables, everyone's: what they do with one packet
    rule_words   a rule of them in words
    dropping     what of others' rules is certain to drop a container's packets
    ports        what -p means; who holds a port of the host
    helpers      processes that serve one container, and have no rights: the two of these names
    relay        minirun:ports, which holds published ports and serves ::1
    userspace    without root: pasta, slirp4netns
    names        hosts, hostname, resolv.conf
    resolver     names by DNS at 127.0.0.11: when a container has a process for it
    nameserver   minirun:names, that process, when it is asked
    neighbours   what a network's containers know of each other
    devices      linux.netDevices: interfaces of the host that move into the container
    interfaces   which links and addresses a network namespace has
"""

import ctypes
import os
from ctypes import c_int, c_ulong, c_void_p

from minirun.core.container import Extra
from minirun.core.kernel import libc

AF_UNIX, SOCK_DGRAM, SOCK_CLOEXEC = 1, 2, 0o2000000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 0x1

_socket = libc.bind("socket", c_int, c_int, c_int)
_ioctl = libc.bind("ioctl", c_int, c_ulong, c_void_p)


class IfReq(ctypes.Structure):
    """struct ifreq of netdevice(7), with the member for flags."""

    _fields_ = [("name", ctypes.c_char * 16), ("flags", ctypes.c_short), ("_", ctypes.c_char * 22)]


class Loopback(Extra):
    """The interface lo of one container's network namespace."""

    def inside(self) -> None:
        """Set lo up in a new network namespace. Raises OSError."""
        if self.config.new_namespace("network"):
            set_up("lo", why="a new network namespace has only lo, and lo starts down")


def set_up(name: str, *, why: str = "") -> None:
    """Set IFF_UP on the interface `name` of this network namespace: netdevice(7). Raises OSError.

    Any socket will do for these ioctls; a Unix one needs no protocol of the network.
    """
    fd = libc.check("socket", _socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))
    try:
        request = IfReq(name=name.encode())
        address = ctypes.addressof(request)
        libc.check("ioctl", _ioctl(fd, SIOCGIFFLAGS, address), name)
        request.flags |= IFF_UP
        shown = {"fd": fd, "request": "SIOCSIFFLAGS", "name": name, "flags": "IFF_UP"}
        libc.logged("ioctl", _ioctl, (fd, SIOCSIFFLAGS, address), shown, name, why)
    finally:
        os.close(fd)
