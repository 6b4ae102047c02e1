"""`minirun network connect`, `disconnect`, `why`, and `minirun port`: one container's networks."""

from __future__ import annotations

import ipaddress
import json

from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import docker_record, screen, table
from minirun.common.network_request import Attachment
from minirun.common.ports import port
from minirun.core.container import Container
from minirun.core.errors import MinirunError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.docker.network import need_root
from minirun.engines import roots
from minirun.net import leases, names, network
from minirun.running import lookup

with lazy:
    from minirun.faces.inspect.network import way_to, ways, why
    from minirun.net import attach  # pyroute2: 130 ms


class NetworkConnect(Flags):
    """Put a container on one more network."""

    command = "network connect"
    ip: str
    ip6: str
    alias: list[str]


class NetworkDisconnect(Flags):
    """Take a container off a network."""

    command = "network disconnect"
    force: bool = flag("-f")


class NetworkWhy(Flags):
    """Say what stops a packet to a container, or out of it."""

    command = "network why"
    json: bool


class PortFlags(Flags):
    """Show which ports of the host lead to a container."""

    command = "port"


def main_connect(args: list[str], settings: Settings) -> int:
    """Put a container on one more network."""
    flags = NetworkConnect(args)
    flags.takes(2)
    name = network.named(settings.store, flags.args[0])
    container = _with_networks(settings, flags.args[1], name)
    aliases = tuple(names.check_name(one, "--alias") for one in flags.alias)
    ip = names.check_address(flags.ip, "--ip") if flags.ip else ""
    ip6 = names.check_address(flags.ip6, "--ip6") if flags.ip6 else ""
    attach.connect(container, Attachment(name, ip, ip6, "", aliases))
    return 0


def main_disconnect(args: list[str], settings: Settings) -> int:
    """Take a container off a network."""
    flags = NetworkDisconnect(args)
    flags.takes(2)
    name = network.named(settings.store, flags.args[0])
    attach.disconnect(_with_networks(settings, flags.args[1], name), name)
    return 0


def main_why(args: list[str], settings: Settings) -> int:
    """Print a packet's way step by step; return 1 if something stops it."""
    flags = NetworkWhy(args)
    flags.takes(1, 2)
    target = _target(flags.args[1]) if len(flags.args) == 2 else None
    container = _running(settings, flags.args[0])
    scene = why.scene(container)
    found = [way_to.way_to(scene, *target)] if target else ways.general(scene)
    stopped = why.first(found)
    if flags.json:
        write(json.dumps(why.document(container.name, found), indent=2) + "\n")
    else:
        unicode = screen.speaks_unicode()
        write(table.page(why.lines(container.name, found), unicode=unicode))
    return int(stopped is not None and stopped[1].verdict == why.STOPS)


def _target(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT. Raises UsageError."""
    host, _, number = text.rpartition(":")
    host, there = host.removeprefix("[").removesuffix("]"), port(number)
    if not host or there is None:
        raise UsageError(f"invalid HOST:PORT {text!r}", "deb.debian.org:80, or [2001:db8::1]:80")
    return host, there


def _running(settings: Settings, name: str) -> Container:
    """Return a container that runs and has networks. Raises StateError, UsageError."""
    container = _with_networks(settings, name)
    if container.record.status not in (state.RUNNING, state.CREATED, state.PAUSED):
        raise StateError("container not running")
    return container


def _with_networks(settings: Settings, name: str, network: str = "") -> Container:
    """Return a container that has networks, and may have this one. Raises MinirunError."""
    need_root()
    if network in ("host", "none"):
        text = f"container cannot be connected to {network}, nor disconnected from it"
        raise UsageError(text, f"run it with --network {network}")
    container = lookup.load(*roots.locate(settings, name))
    docker = docker_record.of(container.record)
    if not docker.network or docker.network.mode != "networks":
        text = f"container {container.name} has no networks of minirun's: it was started with none"
        raise UsageError(f"{text}, host or another's", "run it with --network NAME")
    return container


def main_port(args: list[str], settings: Settings) -> int:
    """Show which ports of the host lead to a container's: 80/tcp -> 0.0.0.0:8080."""
    flags = PortFlags(args)
    flags.takes(1, 2)
    container = lookup.load(*roots.locate(settings, flags.args[0]))
    rows = [
        (f"{port['port']}/{port['protocol']}", f"{_shown(port['host_ip'])}:{port['host_port']}")
        for port in leases.published(settings.store, container.record)
    ]
    if len(flags.args) == 1:
        return show(f"{inside} -> {outside}" for inside, outside in rows)
    wanted = flags.args[1] if "/" in flags.args[1] else f"{flags.args[1]}/tcp"
    found = [outside for inside, outside in rows if inside == wanted]
    if not found:
        text = f"no public port '{wanted}' published for {container.name}"
        raise MinirunError(text, f"minirun port {container.name} lists them", status=1)
    return show(found)


def _shown(address: str) -> str:
    if not address:
        return "0.0.0.0"
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
