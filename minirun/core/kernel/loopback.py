"""A new network namespace has one interface, lo, and it is down: network_namespaces(7).

What happens: init, in stage 1's new namespace, sets it up; 127.0.0.1 and ::1 come with that, from
the kernel. Without it even a program that talks to itself gets "Network is unreachable".

What the real stack does: runc brings lo up in its init through netlink; engines that want more
(a bridge, a veth pair) do it from outside, in a hook or before start. So does minirun: with
`--network none` this is all, and with `--network host` there is no new namespace at all.
"""

from minirun.core.kernel import net


def up() -> None:
    """Set `lo` up in the current network namespace, as root of it. Raises OSError."""
    net.set_up("lo", why="a new network namespace has only lo, and lo starts down")
