"""Addresses of minirun's networks in firewalld's zone trusted, while firewalld drops their packets.

firewalld rejects what comes from a link of no zone and is to be forwarded, and an accept in
minirun's own table does not overrule that: nft(8). Its rules are its own; it is asked, by its own
program, and until the network goes: firewall-cmd(1), without --permanent.

    firewall-cmd --zone=trusted --add-source=10.88.0.0/16

    STORE/networks/.firewalld     the addresses that were added; written before they are

It is asked only if its table is there and is certain to drop the packets. What is in a zone already
stays where it is.

The real stack: netavark adds its networks to the same zone; docker makes a zone of its own, docker.
As with them, a container then reaches all ports of the host.
"""

from __future__ import annotations

import os

from minirun.core import events
from minirun.core.keeping import jsonlite, state
from minirun.net import dropping, links, nft, ruleset
from minirun.net.network import Network, folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.net.rtnetlink import Route

_TABLE = ("inet", "firewalld")
_NOTE = ".firewalld"
"""In the store's folder of networks: what was added to the zone."""
_PROGRAM = "firewall-cmd"
_ZONE = "trusted"
_ALREADY = "ZONE_ALREADY_SET"


def needed(route: Route, networks: list[Network], chains: str) -> list[str]:
    """Return the addresses of networks whose packets firewalld is certain to drop.

    `chains`: those of all tables, as `nft list chains` says them. Empty if firewalld does not run.
    Raises NetworkError, OSError.
    """
    if f"table {' '.join(_TABLE)} " not in chains or not nft.find(_PROGRAM):
        return []
    rules, link_out = ruleset.read(*_TABLE), links.way_out(route)[0]
    found = []
    for net in networks if rules else ():
        pairs = ((net.subnet, net.gateway), (net.subnet6, net.gateway6))
        for subnet, address in ((one, at) for one, at in pairs if one):
            packet = dropping.packet_of(net, address, link_out)
            if packet and rules and rules.judge("forward", packet).word == ruleset.DROP:
                found.append(subnet)
    return found if found and not _call("--state") else []


def keep(route: Route, store: str, networks: list[Network], chains: str) -> None:
    """Let these networks' addresses be in the zone if they have to, and no others of this store.

    `chains`: empty: addresses go, and none is added. The caller holds the lock. Raises
    NetworkError, OSError.
    """
    file = f"{folder(store)}/{_NOTE}"
    noted = _read(file)
    used = {one for net in networks for one in (net.subnet, net.subnet6) if one}
    lost = needed(route, networks, chains)
    stay = [one for one in noted if one in used]
    for subnet in [one for one in noted if one not in used]:
        _change("--remove-source", subnet)
    for subnet in lost:
        kept = [*stay, *([subnet] if subnet not in stay else [])]
        _write(file, kept)
        if _change("--add-source", subnet):
            stay = kept
    if noted or stay:
        _write(file, stay)


def command(verb: str, subnet: str) -> list[str]:
    """Return the words after firewall-cmd that add or remove a network's addresses."""
    return [f"--zone={_ZONE}", f"{verb}={subnet}"]


def _change(verb: str, subnet: str) -> bool:
    """Ask firewalld; return True if it has done it. What it says is in the log."""
    words = command(verb, subnet)
    why = "firewalld drops what this network's bridge forwards"
    said = nft.run(words, program=_PROGRAM) if nft.find(_PROGRAM) else nft.Ended(127, "")
    shown = {"arguments": words, "status": said.status, "said": said.output.strip()[:200]}
    events.emit("note", _PROGRAM, shown, why=why)
    return not said.status and _ALREADY not in said.output


def _call(*words: str) -> int:
    return nft.run([*words], program=_PROGRAM).status


def _read(file: str) -> list[str]:
    """Return the addresses that a file keeps; none if it cannot be read."""
    try:
        return [str(one) for one in jsonlite.loads(state.read_text(file))]
    except (OSError, ValueError, TypeError):
        return []


def _write(file: str, subnets: list[str]) -> None:
    if subnets:
        state.replace(file, jsonlite.dumps(subnets), f"{file}.{os.getpid()}")
    elif os.path.exists(file):
        os.unlink(file)
