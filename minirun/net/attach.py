"""A container gets its networks in stage 1, and gives them back at its end.

Who and when: the runtime, from outside, after clone, while init builds its root filesystem. The
order is that of a crash: first the lease, which names all that follows; then bridge, veth pair,
ports, firewall; then the names. Whatever is cut off in between, `gc` finds by the lease.
"""

from __future__ import annotations

import os

from minirun.common import docker_record
from minirun.common.network_request import NetworkRequest
from minirun.core import events
from minirun.core.container import Container, Extra
from minirun.core.errors import MinirunError, from_os
from minirun.core.keeping import state
from minirun.core.keeping.settings import unprivileged
from minirun.core.keeping.visible import clean, warn
from minirun.core.lazy import lazy

with lazy:  # after clone, while init builds its root filesystem
    import fcntl
    import select

    from minirun.net import (
        dropping,
        firewall,
        forwarding,
        helpers,
        leases,
        links,
        neighbours,
        network,
        nft,
        plans,
        ports,
        resolver,
        rtnetlink,
        upkeep,
        userspace,
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.common.network_request import Attachment
    from minirun.core.handshake import Init
    from minirun.net import docker_user
    from minirun.net.leases import Lease
    from minirun.net.network import Network
    from minirun.net.plans import LinkPlan
    from minirun.net.ports import Held
    from minirun.net.rtnetlink import Route


_MADE = ("networks", "userspace")
"""Modes of a request for which something is made: minirun.common.network_request."""
_END = 50
"""Milliseconds: a namespace ends a little before its process can be waited for."""
_NS_GET_USERNS = 0xB701
"""Which user namespace owns a namespace: ioctl_ns(2)."""


class Networks(Extra):
    """The networks of one container."""

    def from_outside(self, init: Init) -> None:
        """Put init's network namespace on its networks. Raises MinirunError, OSError."""
        asked = docker_record.of(self.container.record).network
        if not asked or asked.mode not in _MADE:
            return
        try:
            if asked.mode == "userspace":
                asked = userspace.attach(self.container, asked, init.pid)
                _note(self.container, asked)
                return
            store = self.container.settings.store
            lazy.load("minirun.net.rtnetlink")  # the slow part, before the lock is held
            with network.locked(store), rtnetlink.Route() as route:
                _attach(route, store, self.container, asked, init.pid)
        except (network.NetworkError, OSError) as error:
            if _has_ended(init):
                return  # it says why itself, in the handshake; what was made goes with the record
            if not asked.default:
                raise
            leave(self.container)
            _note(self.container, asked._replace(mode="none", networks=()))
            text = fall_back(error)
            warn(text)
            why = "the default network cannot be made here"
            events.emit("note", "warning", {"text": text}, why=why)

    def ended(self) -> None:
        """Give all of it back; see :func:`leave`."""
        leave(self.container)


def _has_ended(init: Init) -> bool:
    """Return True if init has failed: of its namespace, which went with it, no error is told."""
    poll = select.poll()
    poll.register(init.pidfd, select.POLLIN)
    return bool(poll.poll(_END))


def fall_back(error: MinirunError | OSError) -> str:
    """Return the line that says why a container has no network: it asked for none by name."""
    return no_network((from_os(error) if isinstance(error, OSError) else error).line())


def no_network(reason: str) -> str:
    """Return the same line for a reason in words."""
    return f"no network: {reason}; --network none says so at once"


def owns_network() -> bool:
    """Return True if this process may make links in its network namespace.

    That is root, and root of a user namespace with a network namespace of its own, such as that of
    an engine without root: user_namespaces(7).
    """
    if not unprivileged():
        return True
    if os.geteuid() != 0:
        return False
    fds = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "net")]
    try:
        fds.append(fcntl.ioctl(fds[1], _NS_GET_USERNS))
        return os.path.sameopenfile(fds[0], fds[2])
    except OSError:  # EPERM: its owner is outside of this user namespace
        return False
    finally:
        for fd in fds:
            os.close(fd)


def why_no_bridge() -> str:
    """Return why this process can make no bridge; empty if it perhaps can."""
    if not owns_network():
        lacking = "" if userspace.find() else f", and {userspace.NEITHER}"
        return f"a bridge needs root{lacking}"
    if not nft.find():
        return f"{nft.MISSING} ({nft.HINT})"
    return ""


def _record(store: str, each: LinkPlan) -> None:
    """Write the network and the lease, before what they name is made; take back dead leases.

    Raises NetworkError, OSError.
    """
    if each.is_new:
        network.save(store, each.network)
    if each.is_next:
        leases.save_last(store, each.network, each.lease.address)
    leases.save(store, each.lease)
    for dead in each.dead:
        upkeep.take_back(store, each.network, dead)


def _attach(
    route: Route, store: str, container: Container, asked: NetworkRequest, pid: int
) -> None:
    """Put init on its networks; the caller holds the lock. Raises MinirunError, OSError."""
    begun = resolver.begin(container.directory, asked, pid)
    planned = plans.plan(route, store, container, asked, pid)
    networks = [each.network for each in planned]
    for each in planned:
        _record(store, each)
        links.carry_out(route, each.outside)
        links.carry_out_inside(each.inside, networks if each is planned[-1] else [], pid)
    own = [(each.network, each.lease) for each in planned]
    forwarding.switch_on(route, store, networks)
    upkeep.take_back_dead(store, but=container.directory)  # a dead one's port is another's now
    held = _bind(store, asked) if publisher(own) is not None else []
    own = _publish(store, own, held, pid)
    chains = upkeep.draw(route, store)
    for _, lease in own:
        upkeep.forget_earlier(route, lease)
    if text := why_no_way_out(route, container.name, own, chains):
        warn(text)
        events.emit("note", "warning", {"text": text}, why="another program's rules drop packets")
    neighbours.introduce(store, container, asked, own)
    resolver.finish(begun, container.directory, asked)
    for net, lease in own:
        _log_summary(net, lease)


def _bind(store: str, asked: NetworkRequest) -> list[Held]:
    """Bind the ports on the host. Raises NetworkError, which names who has one, OSError."""
    held: list[Held] = []
    try:
        for row in asked.ports:
            held.append(ports.bind(ports.Port(*row)))
    except BaseException as error:
        for each in held:
            each.bound.close()
        if isinstance(error, ports.PortInUse):
            raise by_container(store, error) from None
        raise
    return held


def by_container(store: str, error: ports.PortInUse) -> ports.PortInUse:
    """Return an error that names the container that has the port, if it is one of minirun's."""
    found = (lease for name in network.names(store) for lease in leases.all_of(store, name))
    holders = {lease.holder["pid"]: lease.called for lease in found if lease.holder}
    return error.by(f"the container {holders[error.pid]}") if error.pid in holders else error


def _publish(
    store: str, own: list[tuple[Network, Lease]], held: list[Held], pid: int
) -> list[tuple[Network, Lease]]:
    """Let a process hold the ports; return the leases with the ports in the first that leads out.

    Raises NetworkError, OSError.
    """
    first = publisher(own)
    if not held or first is None:
        return own
    try:
        net, lease = own[first]
        lease = lease._replace(ports=tuple(each.port.row(each.number) for each in held))
        leases.save(store, lease)
        lease = lease._replace(holder=ports.hold(held, lease.address, pid))
        leases.save(store, lease)
        return [*own[:first], (net, lease), *own[first + 1 :]]
    finally:
        for each in held:
            each.bound.close()


def publisher(own: list[tuple[Network, Lease]]) -> int | None:
    """Return which network ports are published by: the first that leads out.

    None if none does: then nothing is published, as with docker, until the container is connected
    to one.
    """
    return next((n for n, (net, _) in enumerate(own) if not net.internal), None)


def why_no_way_out(
    route: Route, name: str, own: list[tuple[Network, Lease]], chains: str,
    planned: list[docker_user.PassRule] | None = None,
) -> str:  # fmt: skip
    """Return the line that says which rules of another program drop a container's packets.

    Empty if none is certain to. `chains`: those of all tables, as nft lists them: only tables that
    have a filter on the forward hook are asked for their rules. `planned`: minirun's rules in
    docker's chain, if they are not there yet. Raises NetworkError, OSError.
    """
    tables = firewall.others(chains)
    if not tables or not own:
        return ""
    net, lease = next((each for each in own if not each[0].internal), own[0])
    packet = dropping.packet_of(net, lease.address, links.way_out(route)[0])
    if not packet:
        return ""
    lost = "to a neighbour on" if net.internal else "out of"
    found = dropping.dropped(tables, packet, [rule.planned for rule in planned or ()])
    if not found:
        return ""
    by = f"{found.where} drops its packets ({clean(found.rule)})"
    return f"no way {lost} network {net.name}: {by}; minirun network why {name}"


def _log_summary(net: Network, lease: Lease) -> None:
    """Write the one line that views show for a network."""
    length = net.subnet.rpartition("/")[2]
    out = "no way out" if net.internal else f"default via {net.gateway}"
    published = ", ".join(ports.shown(list(lease.ports)))
    shown = {
        "network": net.name, "interface": lease.interface, "address": f"{lease.address}/{length}",
        "link": lease.link, "bridge": net.bridge, "gateway": net.gateway,
    }  # fmt: skip
    shown |= {"ports": published} if published else {}
    text = f"veth pair: {lease.interface} {shown['address']} ↔ {net.bridge}, {out}"
    events.emit("note", "network", shown, why=f"{text}; {published}" if published else text)


def _note(container: Container, asked: NetworkRequest | None) -> None:
    """Write to the container's record what it has of networks now. Raises OSError."""
    docker = docker_record.of(container.record)._replace(network=asked)
    container.save(docker_record.put(container.record, docker))


def leave(container: Container) -> None:
    """Give back all that a container has of networks, whatever there is of it. Idempotent.

    What cannot be removed is warned of, and stays for `gc`. Raises OSError.
    """
    asked = docker_record.of(container.record).network
    if not asked or asked.mode not in _MADE:
        return
    helpers.release(asked.helper)
    resolver.stop(container.directory)
    store = container.settings.store
    try:
        with network.locked(store):
            for name in dict.fromkeys(each.network for each in asked.networks):
                for lease in leases.all_of(store, name):
                    if lease.container == container.directory:
                        upkeep.take_back(store, network.load(store, name), lease)
    except (MinirunError, LookupError, TypeError) as error:
        warn(f"the network of {container.name} is left for gc: {error}")


def connect(container: Container, attachment: Attachment) -> None:
    """Put a container on one more network; one that does not run, from its next start on.

    Raises MinirunError, OSError.
    """
    asked = docker_record.of(container.record).network or NetworkRequest()
    store, pid = container.settings.store, container.record.pid
    if attachment.network != network.DEFAULT or attachment.network in network.names(store):
        plans.check_address(network.load(store, attachment.network), attachment)
    runs = container.record.status in (state.RUNNING, state.PAUSED)
    if any(each.network == attachment.network for each in asked.networks):
        if not runs:
            return
        text = f"container {container.name} is on network {attachment.network} already"
        hint = f"minirun network disconnect {attachment.network} {container.name}"
        raise network.NetworkError(text, hint)
    more = asked._replace(networks=(*asked.networks, attachment), ports=())
    if container.record.status == state.STOPPED:
        _note(container, more._replace(ports=asked.ports))
        return
    with network.locked(store), rtnetlink.Route() as route:
        taken = {lease.interface for lease in _own(store, container, asked)}
        number = next(n for n in range(len(taken) + 1) if f"eth{n}" not in taken)
        one = plans.of_one(route, store, container, attachment, f"eth{number}", pid)
        net, lease = one.network, one.lease
        try:
            _record(store, one)
            links.carry_out(route, one.outside)
            links.carry_out_inside(one.inside, [net], pid)
            forwarding.switch_on(route, store, [net])
            upkeep.draw(route, store)
            ((_, lease),) = _publish_missing(route, container, asked, [(net, lease)])
        except BaseException:
            upkeep.take_back(store, net, lease)
            raise
        asked = more._replace(ports=asked.ports)
        _note(container, asked)
        for each in asked.networks:
            neighbours.update(store, network.load(store, each.network))
        neighbours.write(store, lease)


def disconnect(container: Container, name: str) -> None:
    """Take a container off a network. Raises MinirunError, OSError."""
    asked = docker_record.of(container.record).network or NetworkRequest()
    store = container.settings.store
    if name not in network.names(store):
        raise network.NetworkError(f"network {name} not found", "minirun network ls")
    if container.record.status == state.STOPPED and any(e.network == name for e in asked.networks):
        left = tuple(each for each in asked.networks if each.network != name)
        _note(container, asked._replace(networks=left))
        return
    with network.locked(store), rtnetlink.Route() as route:
        own = [each for each in _own(store, container, asked) if each.network == name]
        if not own:
            text = f"container {container.name} is not connected to network {name}"
            raise network.NetworkError(text, "minirun network inspect shows who is")
        upkeep.take_back(store, network.load(store, name), own[0])
        left = tuple(each for each in asked.networks if each.network != name)
        asked = asked._replace(networks=left)
        others = [network.load(store, each.network) for each in left]
        links.carry_out_inside([], others, container.record.pid)
        _note(container, asked)
        neighbours.write(store, own[0])
        on = {each.network: each for each in _own(store, container, asked)}
        _publish_missing(route, container, asked, [(net, on[net.name]) for net in others])


def _publish_missing(
    route: Route, container: Container, asked: NetworkRequest, own: list[tuple[Network, Lease]]
) -> list[tuple[Network, Lease]]:
    """Publish a running container's ports if no network of it does; return `own` with the ports.

    A port that the kernel has chosen is chosen anew. The caller holds the lock.
    Raises MinirunError, OSError.
    """
    store = container.settings.store
    published = any(lease.ports for lease in _own(store, container, asked))
    if published or not any(not net.internal for net, _ in own):
        return own
    own = _publish(store, own, _bind(store, asked), container.record.pid)
    upkeep.draw(route, store)
    for _, lease in own:
        upkeep.forget_earlier(route, lease)
    return own


def _own(store: str, container: Container, asked: NetworkRequest) -> list[Lease]:
    """Return the leases of a container."""
    found = (lease for each in asked.networks for lease in leases.all_of(store, each.network))
    return [lease for lease in found if lease.container == container.directory]
