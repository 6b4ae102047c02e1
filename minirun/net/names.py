"""hosts, hostname, resolv.conf: files of the container's directory, bound over the image's.

    ROOT/ID/network/hosts          this container's names, and on a user's network its neighbours'
    ROOT/ID/network/hostname       one line
    ROOT/ID/network/resolv.conf    which DNS servers: the host's, without those on loopback; on a
                                   user's network 127.0.0.11, which is minirun.net.resolver

They are regular files of the host, bound one by one: so hosts is rewritten in place (the same
inode) when a neighbour comes or goes, and every container sees it at once.

The real stack: docker writes the same three files, and answers on a user's network from 127.0.0.11
in the container's namespace; podman runs aardvark-dns on the bridge's address.
"""

from __future__ import annotations

import os
import sys

from minirun.common.network_request import DEFAULT
from minirun.core.errors import UsageError
from minirun.core.keeping import places, state
from minirun.core.lazy import lazy

with lazy:
    import ipaddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from minirun.common.network_request import NetworkRequest
    from minirun.net.leases import Lease

FILES = ("hosts", "hostname", "resolv.conf")
RESOLVER = "127.0.0.11"
"""The address of minirun:names in a container's network namespace: docker's."""
KNOWN = "names"
"""Beside these files: what minirun:names answers."""
_MOST = 3
"""Servers that are asked: MAXNS of resolv.conf(5)."""
_LOOPBACK = (
    "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::\tip6-localnet", "ff00::\tip6-mcastprefix", "ff02::1\tip6-allnodes",
    "ff02::2\tip6-allrouters",
)  # fmt: skip
"""docker's first lines of hosts."""
_PUBLIC = ("8.8.8.8", "8.8.4.4")
"""Where the host has no server that a container can reach: docker's and podman's choice."""
_HOST_RESOLV = "/etc/resolv.conf"
_RESOLVED = ("/run/systemd/resolve/resolv.conf", "127.0.0.53")
"""Which servers systemd-resolved asks; its own address, where it answers: systemd-resolved(8)."""
_WORDS = ("nameserver", "search", "sortlist", "options")
_LARGEST = 1 << 20


def paths(directory: str) -> dict[str, str]:
    """Return file of a container's directory → where it is bound."""
    return {f"{directory}/{places.NETWORK_FILES}/{name}": f"/etc/{name}" for name in FILES}


def make(directory: str, request: NetworkRequest, hostname: str) -> None:
    """Make the files of a new container's directory. Raises OSError."""
    folder = f"{directory}/{places.NETWORK_FILES}"
    os.mkdir(folder, 0o755)
    resolv = resolv_conf(request, by_resolver=asks_resolver(request))
    texts = (hosts(request, hostname, [], []), f"{hostname}\n", resolv)
    for name, text in zip(FILES, texts, strict=True):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(f"{folder}/{name}", flags, 0o644)
        try:
            os.fchmod(fd, 0o644)
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def hosts(
    request: NetworkRequest, hostname: str, own: Iterable[Lease], others: Iterable[Lease],
    gateway: str = "",
) -> str:  # fmt: skip
    """Return the text of hosts: loopback, what --add-host says, itself, its neighbours.

    `gateway`: what the word host-gateway stands for.
    """
    rows = [_of_host()] if request.mode == "host" else list(_LOOPBACK)
    for name, address in request.hosts:
        address = gateway if address == HOST_GATEWAY else address
        if address:
            rows.append(f"{address}\t{name}")
    own_names = request.own_names(hostname)
    for lease in own:
        rows += [f"{at}\t{own_names}" for at in (lease.address, lease.address6) if at]
    for lease in others:
        names = " ".join(lease.names)
        rows += [f"{at}\t{names}" for at in (lease.address, lease.address6) if at and names]
    return "\n".join(rows) + "\n"


HOST_GATEWAY = "host-gateway"


def _of_host() -> str:
    try:
        return state.read_text("/etc/hosts")[:_LARGEST].rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return "\n".join(_LOOPBACK)


def library() -> str:
    """Return the path of dnspython, by which the resolver reads packets; empty without it."""
    paths = (f"{folder}/dns/message.py" for folder in sys.path)
    return next((path for path in paths if os.path.exists(path)), "")


def asks_resolver(request: NetworkRequest) -> bool:
    """Return True if a container is to ask 127.0.0.11: one of its networks is a user's."""
    own = any(each.network != DEFAULT for each in request.networks)
    return request.mode == "networks" and own and bool(library())


def upstream(request: NetworkRequest) -> tuple[list[str], bool]:
    """Return the servers that the resolver asks what it does not know, docker's choice.

    True as the second: they are on the host's loopback, so they are asked from the host's network
    namespace; all others, those of --dns too, from the container's. Raises OSError.
    """
    if request.dns:
        return list(request.dns)[:_MOST], False
    found = _of_host_resolver(keep_loopback=True)["nameserver"]
    if found and all(map(_is_loopback, found)):
        return found[:_MOST], True
    return (_of_host_resolver(keep_loopback=False)["nameserver"] or list(_PUBLIC))[:_MOST], False


def resolv_conf(request: NetworkRequest, *, by_resolver: bool = False) -> str:
    """Return the text of resolv.conf(5): --dns … first, else what the host has. Raises OSError.

    `by_resolver`: it names 127.0.0.11, and ndots:0, so that a name without a dot is asked for as it
    is; docker's.
    """
    host = _of_host_resolver(keep_loopback=request.mode == "host")
    servers = list(request.dns) or host["nameserver"] or list(_PUBLIC)
    search = host["search"]
    if request.dns_search:
        search = [name for name in request.dns_search if name != "."]
    options = list(request.dns_options) or host["options"]
    if by_resolver:
        servers = [RESOLVER]
        options += [] if any(each.startswith("ndots:") for each in options) else ["ndots:0"]
    rows = [f"nameserver {server}" for server in servers]
    lists = {"search": search, "sortlist": host["sortlist"], "options": options}
    rows += [f"{word} {' '.join(values)}" for word, values in lists.items() if values]
    return "\n".join(rows) + "\n"


def _of_host_resolver(*, keep_loopback: bool) -> dict[str, list[str]]:
    """Return what the host's resolv.conf says, by its first words: resolv.conf(5).

    If 127.0.0.53 is the one server there, it is what systemd-resolved says of its own.
    """
    path, its_address = _RESOLVED
    found = _read_resolv(_HOST_RESOLV)
    if found["nameserver"] == [its_address] and not keep_loopback:
        of_resolved = _read_resolv(path)
        found = of_resolved if of_resolved["nameserver"] else found
    if not keep_loopback:
        found["nameserver"] = [*filter(_is_reachable, found["nameserver"])]
    return found


def _read_resolv(path: str) -> dict[str, list[str]]:
    """Return what a resolv.conf says; nothing if it cannot be read."""
    found: dict[str, list[str]] = {word: [] for word in _WORDS}
    try:
        lines = state.read_text(path)[:_LARGEST].splitlines()
    except (OSError, UnicodeDecodeError):
        return found
    for word, *values in filter(None, (line.split() for line in lines)):
        if word == "nameserver":
            found[word] += values[:1]
        elif word == "options":
            found[word] += values
        elif word in ("search", "domain"):
            found["search"] = values
        elif word == "sortlist":
            found[word] = values
    return found


def _is_loopback(server: str) -> bool:
    """Return True for a server of the host's own, 127.0.0.1 or ::1: a container's is another.

    By its text: each run asks this of each server, and ipaddress takes 5 ms to import.
    """
    *others, last = server.split(":")
    return last.startswith("127.") or (last.lstrip("0") == "1" and not "".join(others).strip("0"))


def _is_reachable(server: str) -> bool:
    """Return True for a server that a container can reach: no loopback, no link (%) of the host."""
    looks_so = ("." in server or ":" in server) and not server.strip("0123456789abcdefABCDEF.:")
    return looks_so and not _is_loopback(server)


def follow(directory: str, request: NetworkRequest, *, by_resolver: bool) -> None:
    """Let resolv.conf name 127.0.0.11, or no longer; one that was changed by hand stays.

    Raises OSError.
    """
    path = f"{directory}/{places.NETWORK_FILES}/resolv.conf"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        text = os.read(fd, _LARGEST)  # it is the container's: of whatever size
    finally:
        os.close(fd)
    is_so = f"nameserver {RESOLVER}\n".encode() in text
    if is_so != by_resolver and text == resolv_conf(request, by_resolver=is_so).encode():
        rewrite(directory, resolv_conf(request, by_resolver=by_resolver), "resolv.conf")


def rewrite(directory: str, text: str, name: str = "hosts") -> None:
    """Write one of a container's files in place: it is bound in there, and stays the same inode.

    Do nothing if the container is gone. Raises OSError.
    """
    path = f"{directory}/{places.NETWORK_FILES}/{name}"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        data = text.encode()
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def check_host(text: str) -> tuple[str, str]:
    """Return name and address of --add-host NAME:ADDRESS. Raises UsageError, in docker's words."""
    name, separator, address = text.partition("=" if "=" in text else ":")
    address = address.removeprefix("[").removesuffix("]")
    hint = "--add-host NAME:ADDRESS, or NAME:host-gateway"
    if not separator or not name or not address or set(name) & set(" \t\n#"):
        raise UsageError(f"bad format for add-host: {text!r}", hint)
    if address != HOST_GATEWAY:
        check_address(address, "add-host", hint)
    return name, address


def check_address(text: str, where: str, hint: str = "") -> str:
    """Return an IP address as it is written shortest. Raises UsageError."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise UsageError(f"invalid IP address in {where}: {text!r}", hint) from None


def check_name(text: str, where: str) -> str:
    """Return a name of DNS: labels of letters, digits, '-' and '_'. Raises UsageError."""
    letters = text.removesuffix(".").replace("-", "").replace("_", "").split(".")
    sizes = map(len, text.removesuffix(".").split("."))
    safe = all(map(str.isalnum, letters)) and text.isascii() and max(sizes) < 64
    if not safe or len(text) > 253:
        raise UsageError(f"invalid name in {where}: {text!r}", "letters, digits, '-', '_', '.'")
    return text
