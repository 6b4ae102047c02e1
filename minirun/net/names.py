"""hosts, hostname, resolv.conf: files of the container's directory, bound over the image's.

    ROOT/ID/network/hosts          this container's names, and on a user's network its neighbours'
    ROOT/ID/network/hostname       one line
    ROOT/ID/network/resolv.conf    which DNS servers: the host's, without those on loopback

They are regular files of the host, bound one by one: so hosts is rewritten in place (the same
inode) when a neighbour comes or goes, and every container sees it at once. No daemon answers.

The real stack: docker writes the same three files, and answers on a user's network from 127.0.0.11
in the container's namespace; podman runs aardvark-dns on the bridge's address. Both know more: SRV,
reverse look-ups, and programs that read hosts only once see a new neighbour.
"""

from __future__ import annotations

import os

from minirun.core.errors import UsageError
from minirun.core.keeping import places, state
from minirun.core.lazy import lazy

with lazy:
    import ipaddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from minirun.net.leases import Lease
    from minirun.net.request import NetworkRequest

FILES = ("hosts", "hostname", "resolv.conf")
_LOOPBACK = (
    "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::\tip6-localnet", "ff00::\tip6-mcastprefix", "ff02::1\tip6-allnodes",
    "ff02::2\tip6-allrouters",
)  # fmt: skip
"""docker's first lines of hosts."""
_PUBLIC = ("8.8.8.8", "8.8.4.4")
"""Where the host has no server that a container can reach: docker's and podman's choice."""
_HOST_RESOLV = ("/run/systemd/resolve/resolv.conf", "/etc/resolv.conf")
"""Of these the first that has a server off loopback: systemd-resolved's own list comes first."""
_LARGEST = 1 << 20


def paths(directory: str) -> dict[str, str]:
    """Return file of a container's directory → where it is bound."""
    return {f"{directory}/{places.NETWORK_FILES}/{name}": f"/etc/{name}" for name in FILES}


def make(directory: str, request: NetworkRequest, hostname: str) -> None:
    """Make the files of a new container's directory. Raises OSError."""
    folder = f"{directory}/{places.NETWORK_FILES}"
    os.mkdir(folder, 0o755)
    texts = (hosts(request, hostname, [], []), f"{hostname}\n", resolv_conf(request))
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
    own_names = " ".join(filter(None, (request.fqdn(hostname), hostname)))
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


def resolv_conf(request: NetworkRequest) -> str:
    """Return the text of resolv.conf(5): --dns … first, else what the host has. Raises OSError."""
    servers, search, options = _of_resolver(keep_loopback=request.mode == "host")
    servers = list(request.dns) or servers or list(_PUBLIC)
    search = [name for name in request.dns_search if name != "."] if request.dns_search else search
    options = list(request.dns_options) or options
    rows = [f"nameserver {server}" for server in servers]
    rows += [f"search {' '.join(search)}"] if search else []
    rows += [f"options {' '.join(options)}"] if options else []
    return "\n".join(rows) + "\n"


def _of_resolver(*, keep_loopback: bool) -> tuple[list[str], list[str], list[str]]:
    """Return servers, search domains and options of the host's resolv.conf."""
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    for path in _HOST_RESOLV[1:] if keep_loopback else _HOST_RESOLV:
        try:
            lines = state.read_text(path)[:_LARGEST].splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        found = ([], [], [])
        for words in (line.split() for line in lines):
            if words[:1] == ["nameserver"] and (keep_loopback or not _is_loopback(words[1:2])):
                found[0].extend(words[1:2])
            elif words[:1] in (["search"], ["domain"]):
                found[1][:] = words[1:]
            elif words[:1] == ["options"]:
                found[2].extend(words[1:])
        if found[0]:
            break
    return found


def _is_loopback(words: list[str]) -> bool:
    """Return True for a server that a container cannot reach: its 127.0.0.1 is another one."""
    try:
        address = ipaddress.ip_address(words[0].partition("%")[0])
    except (IndexError, ValueError):
        return True
    return address.is_loopback or "%" in words[0]


def rewrite(directory: str, text: str) -> None:
    """Write a container's hosts in place: it is bound in there, so it stays the same inode.

    Do nothing if the container is gone. Raises OSError.
    """
    path = f"{directory}/{places.NETWORK_FILES}/hosts"
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
