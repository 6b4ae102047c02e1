"""GPUs of one vendor other than NVIDIA: found, chosen, and as Edits or a CDI spec."""

from __future__ import annotations

import os

from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy
from minirun.gpu import driverroot, trusted
from minirun.gpu.cdi import container_edits
from minirun.gpu.edits import Edits, GivenGpu
from minirun.gpu.steps import DeviceNode, Link
from minirun.gpu.vendors.signs import KINDS, NOTHING, OTHER_VENDORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from minirun.gpu.steps import Step

_CDI_VERSION = "0.7.0"  # the first with additionalGids


class Card(Record):
    """A GPU or accelerator: `number` is its index; `nodes` and `links` are what it consists of."""

    number: int
    uuid: str
    bus_id: str
    model: str
    nodes: tuple[DeviceNode, ...]
    links: tuple[Link, ...] = ()
    """Other names of its nodes."""
    names: tuple[str, ...] = ()
    """Other names of its CDI device."""


class Cards(Record):
    """What a host has of one vendor; `common` are the nodes that come with every card."""

    vendor: str
    driver: str
    cards: tuple[Card, ...]
    common: tuple[DeviceNode, ...] = ()
    simulated: bool = False
    root: str = ""
    """The driver root, checked."""

    @property
    def kind(self) -> str:
        """Its CDI kind."""
        return KINDS[self.vendor]


def find_cards(vendor: str, root: str = "") -> Cards:
    """Return what the host has, by the sysfs and the nodes below `root`. Raises GPUError."""
    root = trusted.check(root)
    found: Cards = lazy.load(f"minirun.toolkit.vendors.{vendor}").cards(root)
    return found._replace(root=root)


def present_vendors(root: str = "") -> list[str]:
    """Return the vendors that the host has at least one card of. Raises GPUError for a bad root."""
    root = trusted.check(root)
    found = []
    for vendor in OTHER_VENDORS:
        try:
            found += [vendor] if find_cards(vendor, root).cards else []
        except GPUError:
            pass
    return found


def vendor_of_kind(kind: str) -> str:
    """Return the vendor of a CDI kind; "" if it is none of these."""
    return next((vendor for vendor, own in KINDS.items() if own == kind), "")


def choose(found: Cards, names: tuple[str, ...]) -> tuple[Card, ...]:
    """Return the cards that selectors mean, by number: all, 0, 0-3, 0xUUID, a PCI id, a CDI name.

    Raises GPUError (`device error: X: unknown device`).
    """
    chosen: dict[int, Card] = {}
    for name in names:
        word = name.strip()
        if word.lower() in NOTHING:
            continue
        cards = [card for card in found.cards if _means(word.lower(), card)]
        first, last = map(whole, (*word.split("-", 1), "")[:2])
        if not cards and first is not None and last is not None:
            cards = [card for card in found.cards if first <= card.number <= last]
            if len(cards) != last - first + 1:
                cards = []
        if not cards and word.lower() != "all":
            there = ", ".join(str(card.number) for card in found.cards)
            hint = f"this host has {there}" if there else f"this host has no {found.vendor} gpu"
            raise GPUError(f"device error: {word}: unknown device", hint)
        chosen |= {card.number: card for card in cards}
    return tuple(chosen[number] for number in sorted(chosen))


def _means(word: str, card: Card) -> bool:
    names = {str(card.number), card.bus_id.lower(), *(name.lower() for name in card.names)}
    uuid = card.uuid.lower()
    return word == "all" or word in names or word in (uuid, uuid.removeprefix("0x"))


def plan(found: Cards, names: tuple[str, ...]) -> Edits:
    """Return all that the cards of these selectors add to a container. Raises GPUError."""
    cards = choose(found, names)
    steps: list[Step] = []
    for card in cards:
        steps += [*card.nodes, *card.links]
    if cards:
        steps += found.common
    groups = sorted({step.gid for step in steps if isinstance(step, DeviceNode) and step.gid})
    return Edits(
        steps=tuple(steps), gpus=_given(found, cards), driver=found.driver, driver_root=found.root,
        groups=tuple(groups),
    )  # fmt: skip


def require_nodes(edits: Edits) -> None:
    """Raise GPUError if a node is missing in /dev: udev has not made it, or has removed it."""
    for one in edits.device_nodes:
        if not driverroot.exists(edits.driver_root, one.path):
            hint = "the driver is loaded, its node is missing: udevadm trigger"
            raise GPUError(f"{one.host_path}: no such device", hint)


def gpus_of_nodes(found: Cards, numbers: frozenset[tuple[int, int]]) -> tuple[GivenGpu, ...]:
    """Name the cards one of whose nodes, by major and minor, is among `numbers`."""
    own = [c for c in found.cards if any((n.major, n.minor) in numbers for n in c.nodes)]
    return _given(found, own)


def _given(found: Cards, cards: Iterable[Card]) -> tuple[GivenGpu, ...]:
    """Name what the container gets."""
    return tuple(
        GivenGpu(str(c.number), c.nodes[-1].minor if c.nodes else 0, c.uuid, c.model, found.vendor)
        for c in cards
    )


def spec(found: Cards, *, mapped: bool = False) -> dict[str, Any]:
    """Return the CDI spec of a vendor's cards: by index, by their other names, and `all`.

    `mapped`: without groups, for a container with a user namespace.
    """
    rows: dict[str, dict[str, Any]] = {}
    for card in found.cards:
        edits = _container_edits(plan(found, (str(card.number),)), mapped=mapped)
        rows |= dict.fromkeys((str(card.number), *card.names), edits)
    rows["all"] = _container_edits(plan(found, ("all",)), mapped=mapped)
    listed = [{"name": name, "containerEdits": edits} for name, edits in rows.items() if edits]
    return {"cdiVersion": _CDI_VERSION, "kind": found.kind, "devices": listed}


def _container_edits(edits: Edits, *, mapped: bool) -> dict[str, Any]:
    """Write Edits in CDI's words, with the access that the vendors' own tools give.

    It has no word for a link: another name of a node is a node, too.
    """
    own = {node.path: node for node in edits.device_nodes}
    others = [
        own[os.path.normpath(f"{os.path.dirname(link.path)}/{link.target}")]._replace(
            path=link.path
        )
        for link in edits.links
    ]
    nodes = tuple(
        node._replace(
            permissions="rwm", host_path="" if node.host_path == node.path else node.host_path
        )
        for node in (*own.values(), *others)
    )
    return container_edits.dump(Edits(steps=nodes, groups=() if mapped else edits.groups))
