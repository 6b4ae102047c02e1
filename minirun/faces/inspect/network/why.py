"""`minirun network why`: a packet's way, step by step, and the first thing that stops it.

The steps are found by questions alone: what the kernel has of links, routes and rules, who
listens, and, for a way that is named, a look-up and a connection. Nothing is changed.
"""

from __future__ import annotations

from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.keeping.record import Record
from minirun.faces.inspect.network import facts
from minirun.faces.inspect.network.facts import LinkFacts, NamespaceLinks
from minirun.net import leases, network, ruleset
from minirun.net.leases import Lease
from minirun.net.network import Network, NetworkError
from minirun.net.ruleset import Ruleset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OK, STOPS, PARTLY, UNKNOWN = "ok", "STOPS", "partly", "unknown"
"""PARTLY: some packets, such as those of other hosts, large ones, or those of IPv6."""
NOT_LOOKED_AT = (
    "not looked at: tc, XDP and other eBPF programs, tables of family netdev, IPsec, "
    "and what other hosts do"
)


class WayStep(Record):
    """One step of a packet's way."""

    name: str
    verdict: str
    text: str
    advice: str = ""
    """What to do, if it does not pass."""


class PacketWay(Record):
    """The way of one kind of packet."""

    title: str
    steps: tuple[WayStep, ...]


class Scene(Record):
    """What the steps are read from."""

    container: Container
    pid: int
    store: str
    own: tuple[tuple[Network, Lease], ...]
    """The container's networks, and what it has on each."""
    host: NamespaceLinks
    inner: NamespaceLinks
    rules: Ruleset
    inner_rules: Ruleset
    """Of the container's own namespace."""

    @property
    def out_link(self) -> LinkFacts | None:
        """The link of the host's default route."""
        route = self.host.default() or self.host.default(6)
        return self.host.link(route.link) if route else None

    def by_link(self, name: str) -> tuple[Network, Lease] | None:
        """Return the network that a link of the container is on."""
        return next((one for one in self.own if one[1].interface == name), None)


def scene(container: Container) -> Scene:
    """Return what is so now, of a running container. Raises MinirunError, OSError."""
    store, record = container.settings.store, container.record
    own = []
    for attachment in docker_record.of(record).attachments:
        net = network.load(store, attachment.network)
        mine = [one for one in leases.all_of(store, net.name) if one.container == record.directory]
        own += [(net, lease) for lease in mine]
    if not own:
        text = f"container {container.name} is on no network any more"
        raise NetworkError(text, f"minirun network connect bridge {container.name}")
    rules = ruleset.read() or Ruleset([])
    host, inner = facts.namespace(), facts.namespace(record.pid)
    own_rules = ruleset.read_of(record.pid)
    return Scene(container, record.pid, store, tuple(own), host, inner, rules, own_rules)


def first(ways: list[PacketWay]) -> tuple[PacketWay, WayStep] | None:
    """Return the first step that stops a packet, with its way; else the first that stops some, or
    may stop it; None if all pass.
    """
    steps = [(way, step) for way in ways for step in way.steps]
    for verdict in (STOPS, PARTLY, UNKNOWN):
        for way, step in steps:
            if step.verdict == verdict:
                return way, step
    return None


def lines(container_id: str, ways: list[PacketWay]) -> list[str]:
    """Return the ways as text: a page for each, then the first thing that stops a packet."""
    width = max(len(step.name) for way in ways for step in way.steps)
    found = []
    for way in ways:
        found.append(way.title)
        found += [f"  {step.verdict:<7} {step.name:<{width}}  {step.text}" for step in way.steps]
        found.append("")
    stopped = first(ways)
    if stopped is None:
        free = f"nothing stops a packet of {container_id}, as far as this host can see"
        return [*found, free, NOT_LOOKED_AT]
    way, step = stopped
    heads = {STOPS: "the first thing that stops it", PARTLY: "nothing stops all; some are stopped",
             UNKNOWN: "nothing is sure to stop it; not known"}  # fmt: skip
    found.append(f"{heads[step.verdict]} ({way.title}):")
    found.append(f"{step.name}: {step.text}")
    return [*found, f"what to do: {step.advice}"] if step.advice else found


def document(container_id: str, ways: list[PacketWay]) -> dict[str, Any]:
    """Return the same for --json."""
    rows = [{"title": way.title, "steps": [one._asdict() for one in way.steps]} for way in ways]
    stopped = first(ways)
    shown = {"way": stopped[0].title, **stopped[1]._asdict()} if stopped else None
    return {"id": container_id, "ways": rows, "first": shown, "not_looked_at": NOT_LOOKED_AT}
