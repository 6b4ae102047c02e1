"""--network, -p, --dns and their kin of `run`: a NetworkRequest of flags, in docker's words."""

from __future__ import annotations

import os

from minirun.common.network_request import DEFAULT, USERSPACE, Attachment, NetworkRequest
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import places
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy

with lazy:
    from minirun.net import attach, names, network, ports, userspace
    from minirun.running import joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.cli.run.run_flags import ConfigFlags
    from minirun.common.network_request import AskedPorts
    from minirun.oci.run_config import RunOptions

_PORT_FLAGS = frozenset(("publish", "publish_all"))
_ADDRESS_FLAGS = frozenset(("ip", "ip6", "mac_address", "network_alias"))
_ENDPOINT = ("name", "alias", "ip", "ip6", "mac-address")
"""Keys of --network in its long form."""
_MOST_PORTS = 1000
"""Of an image that -P publishes all ports of: each is a socket that is held."""


def add(
    run: RunOptions, flags: ConfigFlags, words: list[str], settings: Settings, container_id: str
) -> RunOptions:
    """Return the options with what the flags ask of networks; `words` are those of --network.

    Without words the default is the bridge, if one can be made here. Without a container (`spec`)
    host is the host's, and all else a namespace with lo alone. Raises MinirunError, OSError.
    """
    is_default = not words
    asked = [_endpoint(word) for word in words or [DEFAULT]]
    words = [each.network for each in asked]
    if not container_id:
        return run._replace(host_network=words == ["host"])
    alone = ("none", "host", *USERSPACE)
    if len(words) > 1 and (only := [w for w in words if w in alone or ":" in w]):
        raise UsageError(f"--network {only[0]} is the only network of a container")
    kind, _, rest = words[0].partition(":")
    if words[0] in (*alone, DEFAULT, "default") or kind == "container":
        _refuse_of_endpoint(asked[0])
    if words[0] in ("none", "host") or kind == "container":
        _refuse(flags, words[0], kind)
    if words[0] == "host":
        return _with_names(run._replace(host_network=True), flags, NetworkRequest("host"))
    if kind == "container":
        return _of_container(run, rest, settings)
    if words[0] == "none":
        return _with_names(run, flags, NetworkRequest("none"))
    if words[0] in USERSPACE or (is_default and not attach.owns_network() and userspace.find()):
        return _by_program(run, flags, [] if is_default else words)
    reason = attach.why_no_bridge()
    if is_default and reason:
        _refuse_without_bridge(flags, reason)
        text = attach.no_network(reason)
        warn(text)
        run = run._replace(warnings=(*run.warnings, text))
        return _with_names(run, flags, NetworkRequest("none"))
    if reason:
        raise MinirunError(f"--network {words[0]}: {reason}", "--network none or host")
    request = NetworkRequest(
        "networks", _attachments(flags, asked, settings.store), _ports(flags, run),
        default=is_default and not flags.given & (_PORT_FLAGS | _ADDRESS_FLAGS),
    )  # fmt: skip
    _check_hostname(flags)
    return _with_names(run, flags, request)


def _by_program(run: RunOptions, flags: ConfigFlags, words: list[str]) -> RunOptions:
    """Return the options with a network for a user without root; without words the first there is.

    Raises UsageError, MinirunError.
    """
    found = userspace.find(*words[:1])
    name = words[0] if words else found.rpartition("/")[2]
    if not unprivileged():
        raise UsageError(f"--network {name} is for users without root", "--network bridge")
    if not found:
        raise MinirunError(f"--network {name}: the program is not installed", userspace.HINT)
    if given := sorted(flags.given & _ADDRESS_FLAGS):
        flag = f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{flag} needs a network of root's, and not {name}")
    if any(text.endswith(names.HOST_GATEWAY) for text in flags.add_host):
        text = f"--add-host: {name} has no {names.HOST_GATEWAY}"
        raise UsageError(text, "an address of the host")
    published = _ports(flags, run)
    if any("sctp" in port for port in published):
        raise UsageError(f"{name} publishes no ports of SCTP", "tcp or udp")
    default = not words and not published
    request = NetworkRequest(
        "userspace", ports=published, program=name, any_program=not words, default=default
    )
    _check_hostname(flags)
    return _with_names(run, flags, request)


def _refuse_without_bridge(flags: ConfigFlags, reason: str) -> None:
    """Raise MinirunError if a flag needs the network that there is not."""
    asked = sorted(flags.given & (_PORT_FLAGS | _ADDRESS_FLAGS))
    if asked:
        name = asked[0].replace("_", "-")
        raise MinirunError(f"--{name} needs a network: {reason}", "--network host")


def _refuse(flags: ConfigFlags, word: str, kind: str) -> None:
    """Raise UsageError for flags that this network cannot heed; docker discards -p with a line."""
    if kind == "container":
        for given, what in (
            (_PORT_FLAGS, "port publishing"), ({"dns", "dns_search", "dns_option"}, "dns"),
            ({"add_host"}, "custom host-to-IP mapping"), ({"hostname", "domainname"}, "hostname"),
            ({"mac_address"}, "mac-address"),
        ):  # fmt: skip
            if flags.given & given:
                text = f"conflicting options: {what} and the container type network mode"
                raise UsageError(text, "that container's own are used")
    for name in sorted(flags.given & _ADDRESS_FLAGS):
        flag = f"--{name.replace('_', '-')}"
        raise UsageError(f"{flag} needs a network with addresses, and not {word}")
    if flags.given & _PORT_FLAGS:
        warn(f"published ports are discarded with --network {word}")


def _endpoint(word: str) -> Attachment:
    """Return what one --network says: NAME, or name=NAME,alias=A,ip=ADDRESS. Raises UsageError."""
    if "=" not in word:
        return Attachment(word)
    given: dict[str, str] = {}
    aliases = []
    for field in word.split(","):
        key, equals, value = (part.strip() for part in field.partition("="))
        key = key.lower()
        if not equals or key not in _ENDPOINT:
            what = f"invalid field key {key}" if equals else f"{field!r} is no KEY=VALUE"
            hint = f"name=NAME,{','.join(f'{each}=…' for each in _ENDPOINT[1:])}"
            raise UsageError(f"--network {word}: {what}", hint)
        if key == "alias":
            aliases.append(value)
        else:
            given[key] = value
    if not given.get("name"):
        raise UsageError(f"--network {word}: network name/id is not specified", "name=NAME")
    return Attachment(
        given["name"], given.get("ip", ""), given.get("ip6", ""), given.get("mac-address", ""),
        tuple(aliases),
    )  # fmt: skip


def _refuse_of_endpoint(asked: Attachment) -> None:
    """Raise UsageError if a network that has no names or addresses to choose is asked for some."""
    if asked.aliases:
        text = "network-scoped aliases are only supported for user-defined networks"
        raise UsageError(f"--network {asked.network}: {text}", "minirun network create NAME")
    mac = asked.network not in (DEFAULT, "default") and asked.mac
    if asked.address or asked.address6 or mac:
        text = f"--network {asked.network}: user specified IP address is supported on user defined"
        raise UsageError(f"{text} networks only", "minirun network create --subnet … NAME")


def _attachments(flags: ConfigFlags, asked: list[Attachment], store: str) -> tuple[Attachment, ...]:
    """Return what the container is on. Raises UsageError, NetworkError."""
    found: list[Attachment] = []
    for each in asked:
        word = each.network
        name = DEFAULT if word == "default" else network.named(store, word)
        if name in (one.network for one in found):
            continue
        if not network.is_name(name) or name in ("none", "host"):
            hint = "none, host, bridge, container:ID, or a name of minirun network ls"
            raise UsageError(f"invalid network {word!r}", hint)
        if name != DEFAULT:
            network.load(store, name)
        elif flags.given & {"ip", "ip6", "network_alias"}:
            what = "aliases" if "network_alias" in flags.given else "--ip and --ip6"
            text = f"{what} are for networks that you have created, and not {name}"
            raise UsageError(text, "minirun network create NAME; docker says the same")
        _refuse_both(flags, each)
        first = not found
        aliases = each.aliases or flags.network_alias
        found.append(
            Attachment(
                name, _address(each.address or (flags.ip if first else ""), 4),
                _address(each.address6 or (flags.ip6 if first else ""), 6),
                _mac(each.mac or (flags.mac_address if first else "")),
                tuple(names.check_name(one, "--network-alias") for one in aliases),
            )
        )  # fmt: skip
    return tuple(found)


def _refuse_both(flags: ConfigFlags, asked: Attachment) -> None:
    """Raise UsageError if a flag says what this --network says itself."""
    for key, own, what in (
        ("network_alias", asked.aliases, "alias"), ("ip", asked.address, "IPv4 address"),
        ("ip6", asked.address6, "IPv6 address"), ("mac_address", asked.mac, "MAC address"),
    ):  # fmt: skip
        if own and key in flags.given:
            flag = f"--{key.replace('_', '-')}"
            text = f"conflicting options: cannot specify both {flag} and per-network {what}"
            raise UsageError(text, "one of them")


def _address(text: str, version: int) -> str:
    """Return the address of --ip or --ip6; "" without one. Raises UsageError."""
    if not text:
        return ""
    where = "--ip" if version == 4 else "--ip6"
    found = names.check_address(text, where)
    if (":" in found) != (version == 6):
        raise UsageError(f"invalid IP address in {where}: {text!r}", f"of version {version}")
    return found


def _mac(text: str) -> str:
    """Return a hardware address that one interface may have. Raises UsageError."""
    parts = text.lower().replace("-", ":").split(":")
    valid = len(parts) == 6 and all(
        len(part) == 2 and set(part) <= set("0123456789abcdef") for part in parts
    )
    if text and (not valid or int(parts[0], 16) & 1 or set(parts) == {"00"}):
        hint = "six pairs of hexadecimal digits, the first of them even: 02:42:0a:58:00:07"
        raise UsageError(f"invalid MAC address {text!r}", hint)
    return ":".join(parts) if text else ""


def _ports(flags: ConfigFlags, run: RunOptions) -> AskedPorts:
    """Return the ports to publish, each once. Raises UsageError."""
    found = [port for text in flags.publish for port in ports.parse(text)]
    if flags.publish_all:
        taken = {(port.port, port.protocol) for port in found}
        for text in run.declared.get("ports", ()):
            if ":" in text:  # it says which port is published, and not where
                raise UsageError(f"the image exposes {text[:40]!r}, which is no port", "-p PORT")
            found += [port for port in ports.parse(text) if (port.port, port.protocol) not in taken]
            if len(found) > _MOST_PORTS:
                raise UsageError(f"more than {_MOST_PORTS} ports to publish", "-p for some of them")
    seen = set()
    for port in found:
        key = (port.host_ip, port.first, port.protocol)
        if port.first and port.first == port.last and key in seen:
            where = f"{port.host_ip or '0.0.0.0'}:{port.first}/{port.protocol}"
            raise UsageError(f"host port {where} is published twice", "each one once")
        seen.add(key)
    return tuple(dict.fromkeys(found))


def _check_hostname(flags: ConfigFlags) -> None:
    """Raise UsageError for a host name that cannot stand in its neighbours' hosts."""
    if flags.hostname:
        names.check_name(flags.hostname, "--hostname")


def _with_names(run: RunOptions, flags: ConfigFlags, request: NetworkRequest) -> RunOptions:
    """Return the options with a request that says the names too. Raises UsageError."""
    if flags.domainname:
        names.check_name(flags.domainname, "--domainname")
    hint = "--dns 1.1.1.1"
    request = request._replace(
        hosts=tuple(map(names.check_host, flags.add_host)),
        dns=tuple(names.check_address(text, "--dns", hint) for text in flags.dns),
        dns_search=tuple(
            text if text == "." else names.check_name(text, "--dns-search")
            for text in flags.dns_search
        ),
        dns_options=tuple(_option(text) for text in flags.dns_option),
        domainname=flags.domainname,
    )
    return run._replace(network=request, domainname=flags.domainname)


def _option(text: str) -> str:
    """Return an option of resolv.conf(5). Raises UsageError."""
    if not text or not text.replace(":", "").replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"invalid --dns-option {text!r}", "ndots:2, timeout:1, rotate")
    return text


def _of_container(run: RunOptions, name: str, settings: Settings) -> RunOptions:
    """Return the options with the network namespace, and the names, of another container."""
    other = joined.running(f"container:{name}", settings, "network")
    own = f"{other.directory}/{places.NETWORK_FILES}"
    shared = tuple(
        (f"{own}/{file}", f"/etc/{file}", ())
        for file in names.FILES
        if os.path.exists(f"{own}/{file}")
    )
    given = {destination for _, destination, _ in run.mounts}
    rows = tuple(row for row in shared if row[1] not in given)
    hostname = str(other.config.raw.get("hostname") or run.hostname)
    return run._replace(
        network_path=joined.path(other, "network"), mounts=(*rows, *run.mounts),
        hostname=hostname, joined=run.joined | {"network": other.id},
    )  # fmt: skip
