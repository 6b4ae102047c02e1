"""`minirun network …`: networks, and who is on them. Those about one container: network_of."""

from __future__ import annotations

from minirun.cli import group, words
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import docker_record, screen
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.docker.kinds import Kind, Listed, Removed, ls, rm
from minirun.faces.show.text import network_picture
from minirun.net import leases, network
from minirun.net.leases import Lease
from minirun.net.network import Network, NetworkError

with lazy:
    from minirun.docker import docker_form, filters
    from minirun.faces.inspect.network import facts, passages
    from minirun.faces.show.figures import network as network_figure
    from minirun.faces.show.template import values
    from minirun.net import attach, links, rtnetlink, upkeep  # pyroute2: 130 ms
    from minirun.running import listing, moments

_HERE, _OF_ONE = "minirun.docker.network", "minirun.docker.network_of"
COMMANDS = {
    **{name: f"{_HERE}.main_{name}" for name in ("create", "ls", "rm")},
    "inspect": "minirun.docker.inspecting.main_of_network",
    "prune": "minirun.docker.prune.main_of_networks",
    **{name: f"{_OF_ONE}.main_{name}" for name in ("connect", "disconnect")},
    "reload": f"{_HERE}.main_reload", "why": f"{_OF_ONE}.main_why",
}  # fmt: skip
FIELDS = {
    "ID": "NETWORK ID", "Name": "NAME", "Driver": "DRIVER", "Scope": "SCOPE", "IPv6": "IPV6",
    "Internal": "INTERNAL", "Labels": "LABELS", "CreatedAt": "CREATED AT", "Subnet": "SUBNET",
    "Bridge": "BRIDGE",
}  # fmt: skip
"""Fields of --format, and what stands above each as a column. Subnet and Bridge are minirun's."""
_DRIVERS = {"host": "host", "none": "null"}
"""Networks without a bridge → what docker calls their driver."""
_ALWAYS = (network.DEFAULT, *_DRIVERS)
"""Networks that no user has created, and that stay. The first is in the store once it is used."""
_MTU = ("mtu", "com.docker.network.driver.mtu")
"""--opt: the size of a packet, by podman's name and by docker's."""
_ICC = "com.docker.network.bridge.enable_icc"
"""--opt: false if its containers are not to reach each other."""


class NetworkCommand(Flags):
    """Manage networks."""

    command, mixed = "network", False


class NetworkCreate(Flags):
    """Create a network."""

    command = "network create"
    subnet: list[str]
    gateway: list[str]
    ip_range: str
    ipv6: bool
    internal: bool
    label: list[str]
    opt: list[str] = flag("-o")
    driver: str = flag("-d", default="bridge")


class NetworkLs(Listed):
    """List networks."""

    command = "network ls"
    no_trunc: bool


class NetworkRm(Removed):
    """Remove networks."""

    command = "network rm"


class NetworkReload(Flags):
    """Draw the rules of all networks anew."""

    command = "network reload"


def main_network(args: list[str], settings: Settings) -> int:
    """Run one of the `network` commands; return its exit status."""
    return group(NetworkCommand(args), COMMANDS, settings)


def need_root() -> None:
    """Raise MinirunError unless bridges can be made on this host."""
    if not attach.owns_network():
        raise MinirunError("networks need root: a bridge is made on the host", "sudo", status=1)


def main_create(args: list[str], settings: Settings) -> int:
    """Create a network; print its id."""
    flags = NetworkCreate(args)
    flags.takes(1)
    name = flags.args[0]
    _check_driver(flags.driver)
    if not network.is_name(name):
        raise UsageError(f"invalid network name {name!r}", "letters, digits, '_', '.', '-'")
    if name in (*network.RESERVED, network.DEFAULT):
        text = f"operation is not permitted on predefined {name} network"
        raise UsageError(text, "another name: this one has a meaning of its own with --network")
    need_root()
    subnet4, subnet6 = _by_version(flags.subnet, "--subnet")
    gateway4, gateway6 = _by_version(flags.gateway, "--gateway")
    if flags.ipv6 and not subnet6:
        subnet6 = network.local_prefix(name)
    if gateway6 and not subnet6:
        raise UsageError(f"--gateway {gateway6} without an IPv6 subnet", "--subnet fd00:99::/64")
    mtu, separate = _options(flags.opt)
    with network.locked(settings.store), rtnetlink.Route() as route:
        if name in network.names(settings.store):
            raise NetworkError(f"network with name {name} already exists", "another name", status=1)
        made = network.make(
            settings.store, name, links.in_use(route), subnet=subnet4, gateway=gateway4,
            ip_range=flags.ip_range, subnet6=subnet6, gateway6=gateway6, internal=flags.internal,
            mtu=mtu, labels=words.labels(flags.label, []), separate=separate,
        )  # fmt: skip
        network.save(settings.store, made)
    return show([made.id])


def _check_driver(name: str) -> None:
    """Raise NetworkError, docker's words and status, for another kind of network than a bridge."""
    if name in ("host", "none"):
        kind = "null" if name == "none" else name
        text = f'only one instance of "{kind}" network is allowed'
        raise NetworkError(text, f"run --network {name}", 1)
    if name != "bridge":
        text = f"plugin {name!r} not found: minirun has bridges alone"
        raise NetworkError(text, "--driver bridge", 1)


def _by_version(texts: list[str], where: str) -> tuple[str, str]:
    """Return the value for IPv4 and that for IPv6: at most one each. Raises UsageError."""
    found = {4: "", 6: ""}
    for text in texts:
        version = 6 if ":" in text else 4
        if found[version]:
            raise UsageError(f"{where} {text}: one for IPv{version} is given already")
        found[version] = text
    return found[4], found[6]


def _options(options: list[str]) -> tuple[int, bool]:
    """Return the MTU, 0 without one, and True for a network whose containers are separate.

    Raises UsageError.
    """
    mtu, separate = 0, False
    for text in options:
        key, _, value = text.partition("=")
        number = whole(value, 0, 65535) if key in _MTU else None
        if number is not None:
            network.check_mtu(number)
            mtu = number
        elif key == _ICC and value.lower() in ("1", "t", "true", "0", "f", "false"):
            separate = value.lower() in ("0", "f", "false")
        else:
            raise UsageError(f"invalid --opt {text!r}", f"--opt mtu=1400, --opt {_ICC}=false")
    return mtu, separate


def _names(store: str) -> list[str]:
    """Return the names of all networks: those in the store, and those that are always there."""
    always = _ALWAYS if attach.owns_network() else _DRIVERS
    return sorted({*network.names(store), *always})


def load(store: str, name: str) -> Network:
    """Return a network, also one that is always there. Raises NetworkError, UsageError, OSError."""
    if name in network.names(store) or name not in _names(store):
        return network.load(store, name)
    bridge = network.bridge_of(name) if name == network.DEFAULT else ""
    return Network(name, bridge, "", "", created=docker_form.NEVER, id=network.id_by_name(name))


def named(store: str, text: str) -> str:
    """Return the name of the network that has this name, or the only id that begins so.

    If there is none, the text. Raises NetworkError if several ids begin so.
    """
    found = network.named(store, text)
    if found != text or not text or text in (there := _names(store)):
        return found
    return next((name for name in there if load(store, name).id.startswith(text)), text)


def _driver(net: Network) -> str:
    return _DRIVERS.get(net.name, "bridge")


def main_ls(args: list[str], settings: Settings) -> int:
    """List networks, and how many containers are on each."""
    flags = NetworkLs(args)
    return ls(_WHOLE if flags.no_trunc else NETWORK, flags, settings)


def main_rm(args: list[str], settings: Settings) -> int:
    """Remove networks that no container is on; print their names."""
    return rm(NETWORK, NetworkRm(args), settings)


def _row(net: Network, settings: Settings) -> tuple[str, ...]:
    """Return a network's row in the table of `network ls`."""
    subnets = ", ".join(filter(None, (net.subnet, net.subnet6)))
    internal, on_it = "yes" if net.internal else "-", len(_containers(settings, net))
    bridge = net.bridge or "-"
    return (state.short(net.id), net.name, subnets or "-", bridge, internal, str(on_it))


def _whole_row(net: Network, settings: Settings) -> tuple[str, ...]:
    return (net.id, *_row(net, settings)[1:])


def _whole_fields(net: Network, settings: Settings) -> values.Fields:
    return values.Fields(_fields(net, settings) | {"ID": net.id})


def _fits(net: Network, wanted: dict[str, list[str]]) -> bool:
    """Return True if the filters that networks alone have let the network through."""
    kind = "builtin" if net.name in _ALWAYS else "custom"
    others = {"driver": _driver(net), "scope": "local", "type": kind}
    return any(net.id.startswith(part) for part in wanted.get("id", [""])) and all(
        value in wanted.get(key, [value]) for key, value in others.items()
    )


def _fields(net: Network, _settings: Settings) -> values.Fields:
    """Return what a template sees of a network."""
    return values.Fields({
        "ID": state.short(net.id), "Name": net.name, "Driver": _driver(net), "Scope": "local",
        "IPv6": bool(net.subnet6), "Internal": net.internal,
        "Labels": ",".join(f"{key}={value}" for key, value in sorted(net.labels.items())),
        "CreatedAt": moments.shown(net.created), "Subnet": net.subnet, "Bridge": net.bridge,
    })  # fmt: skip


def _live(store: str, net: Network) -> list[Lease]:
    return [lease for lease in leases.all_of(store, net.name) if leases.is_live(lease)]


def _containers(settings: Settings, net: Network) -> dict[str, values.Fields]:
    """Return id → what docker says of each container that is on a network, and lives."""
    if net.name in _DRIVERS:
        return {
            record.id: values.Fields(
                Name=state.name_of(record.directory), EndpointID="", MacAddress="", IPv4Address="",
                IPv6Address="",
            )
            for record in listing.records(settings.root)
            if record.status in (state.RUNNING, state.PAUSED)
            and (asked := docker_record.of(record).network) and asked.mode == net.name
        }  # fmt: skip
    return {
        lease.id: values.Fields(
            Name=lease.called, EndpointID=lease.link, MacAddress=lease.mac,
            IPv4Address=f"{lease.address}/{net.subnet.rpartition('/')[2]}",
            IPv6Address=f"{lease.address6}/{net.subnet6.rpartition('/')[2]}"
            if lease.address6 else "",
            Interface=lease.interface, HostInterface=lease.link, Names=list(lease.names),
            Ports=list(lease.ports),
        )
        for lease in _live(settings.store, net)
    }  # fmt: skip


def document(settings: Settings, net: Network) -> values.Fields:
    """Return a network with docker's names: what `network inspect` prints."""
    first = values.Fields(Subnet=net.subnet, IPRange=net.ip_range, Gateway=net.gateway)
    config = [first.optionally(IPRange=net.ip_range)] if net.subnet else []
    if net.subnet6:
        second = values.Fields(Subnet=net.subnet6, IPRange="", Gateway=net.gateway6)
        config.append(second.optionally(IPRange=""))
    return values.Fields(
        Name=net.name, Id=net.id, Created=net.created, Scope="local", Driver=_driver(net),
        Bridge=net.bridge, EnableIPv4=True, EnableIPv6=bool(net.subnet6),
        IPAM=values.Fields(Driver="default", Options={}, Config=config),
        Internal=net.internal, Attachable=False, Ingress=False,
        ConfigFrom=values.Fields(Network=""), ConfigOnly=False,
        Containers=_containers(settings, net), Options=_shown_options(net), Labels=net.labels,
    )  # fmt: skip


def _shown_options(net: Network) -> dict[str, str]:
    found = {"mtu": str(net.mtu)} if net.mtu else {}
    return found | ({_ICC: "false"} if net.separate else {})


def draw(names: list[str], settings: Settings, *, svg: bool) -> int:
    """Print the picture of networks as the kernel has them; of all if none is named.

    Raises MinirunError, OSError.
    """
    need_root()
    store = settings.store
    named = [network.named(store, name) for name in names]
    found = facts.read(store, named or network.names(store))
    if svg:
        return write(network_figure.document(found, passages.read(found)))
    if not found:
        return show(["no network: the first container makes the default one"])
    unicode = screen.speaks_unicode()
    pages = [
        network_picture.lines(each, unicode=unicode, is_first=each is found[0]) for each in found
    ]
    if there := passages.read(found):
        pages.append(network_picture.between(there, unicode=unicode))
    return write("\n\n".join("\n".join(page) for page in pages) + "\n")


def _remove(settings: Settings, name: str) -> None:
    """Remove a network. Raises NetworkError if a container is on it, or if there is none."""
    store = settings.store
    with network.locked(store):
        name = named(store, name)
        if name in _ALWAYS and not _is_damaged(store, name):
            text = f"{name} is a pre-defined network and cannot be removed"
            raise NetworkError(text, "it takes no room while no container is on it", 1)
        if name not in network.names(store):
            raise NetworkError(f"network {name} not found", "minirun network ls", 1)
        if users := [lease.called for lease in leases.all_of(store, name) if leases.is_live(lease)]:
            text = f"network {name} is in use by {', '.join(sorted(users))}"
            raise NetworkError(text, f"minirun network disconnect {name} {users[0]}", 1)
        upkeep.take_back_all(store, name)
        network.forget(store, name)


def _is_damaged(store: str, name: str) -> bool:
    """Return True for a network that is there, and cannot be read: its file may go."""
    try:
        network.load(store, name)
    except NetworkError:
        return name in network.names(store)
    return False


def prune(settings: Settings, wanted: dict[str, list[str]]) -> list[str]:
    """Remove the networks that no container is on, of those that the filters label and until let
    through; return their names. Raises MinirunError, OSError."""
    store, removed = settings.store, []
    latest = filters.until(wanted["until"]) if "until" in wanted else float("inf")
    for net in NETWORK.all(store):
        young = latest < float("inf") and moments.moment(net.created) > latest
        if _live(store, net) or young or net.name in _ALWAYS:
            continue
        if "label" in wanted and not words.has_labels(net.labels, wanted["label"]):
            continue
        _remove(settings, net.name)
        removed.append(net.name)
    return removed


def main_reload(args: list[str], settings: Settings) -> int:
    """Draw the rules of all networks that are in use; print their names."""
    NetworkReload(args).none()
    need_root()
    return show(upkeep.reload(settings.store))


NETWORK = Kind(
    names=_names, load=load, labels=lambda net: net.labels,
    in_use=lambda net, settings: net.name in _ALWAYS or bool(_containers(settings, net)),
    filters=("dangling", "driver", "id", "label", "name", "scope", "type"), fits=_fits,
    headings=FIELDS, fields=_fields,
    heads=("NETWORK ID", "NAME", "SUBNET", "BRIDGE", "INTERNAL", "CONTAINERS"), row=_row,
    remove=_remove, id=lambda net: state.short(net.id), named=named,
)  # fmt: skip
_WHOLE = NETWORK._replace(row=_whole_row, fields=_whole_fields, id=lambda net: net.id)
"""The same with whole ids: --no-trunc."""
