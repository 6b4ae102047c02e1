"""A network for a user without root: a program passes packets on between a tap and its own sockets.

No bridge, no firewall, no address of the host's is needed: the container's eth0 is a tap device,
tun(4). Behind it a process of the user's reads each packet, opens an ordinary socket to where the
packet goes, and writes the answers back as packets. It listens on the published ports too.

    pasta         Debian's passt, podman's choice since 5.0: the container has the host's address
    slirp4netns   podman's before, and rootless docker's: 10.0.2.100, behind a NAT in the program

Offline the host has no interface whose address pasta could take; slirp4netns needs none. So without
--network each that is installed is tried, in this order; a warning says if the first has failed.

Both join the container's user and network namespace by init's pid, in stage 1, once the id maps are
written. The host's 127.0.0.1 cannot be reached by either. The process ends with the container.

Sources: pasta(1), slirp4netns(1).
"""

from __future__ import annotations

import os
import socket

from minirun.common.network_request import USERSPACE
from minirun.core import events
from minirun.core.container import Container
from minirun.core.keeping import jsonlite, places, state, state_file
from minirun.core.keeping.visible import clean, warn
from minirun.core.kernel import namespaces, process
from minirun.core.lazy import lazy
from minirun.net.network import NetworkError
from minirun.net.nft import FOLDERS

with lazy:
    from minirun.net import helpers, ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from minirun.common.network_request import NetworkRequest
    from minirun.core.keeping.container_record import ProcessIdentity
    from minirun.net.ports import Port

HINT = "apt install passt"
NEITHER = "neither pasta nor slirp4netns is installed (apt install passt)"
_PID_FILE, _SOCKET = "pasta.pid", "slirp4netns.sock"
"""In the container's directory, beside hosts and resolv.conf."""
_GUEST = "10.0.2.100"
"""The container's address behind slirp4netns: slirp4netns(1)."""
_MTU = "65520"
"""podman's: the link is memory, and large packets cost less."""


def find(name: str = "") -> str:
    """Return the path of a program, or of the first one installed; empty if there is none."""
    names = (name,) if name else USERSPACE
    found = (f"{folder}/{each}" for each in names for folder in FOLDERS)
    return next((path for path in found if os.access(path, os.X_OK)), "")


def attach(container: Container, asked: NetworkRequest, pid: int) -> NetworkRequest:
    """Start the program for the container whose init is `pid`; return what the record keeps.

    Raises NetworkError, which holds what the program says, or names who has a port; OSError.
    """
    if not container.stays_dumpable:
        text = (
            "init, which shares a pid namespace, is closed to a program that would pass packets on"
        )
        raise NetworkError(text, "--network container:ID, too, or --network none")
    rows = [ports.Port(*row) for row in asked.ports]
    numbers = _free(rows)
    rows = [row._replace(first=n, last=n) for row, n in zip(rows, numbers, strict=True)]
    folder = f"{container.directory}/{places.NETWORK_FILES}"
    name, helper, reason = start(asked, folder, rows, pid)
    if reason:
        text = f"{reason}; {name} is used; --network {name} says so at once"
        warn(text)
        events.emit("note", "warning", {"text": text}, why="the other program needs less")
    published = tuple(
        {"port": row.port, "protocol": row.protocol, "host_ip": row.host_ip,
         "host_port": row.first}
        for row in rows
    )  # fmt: skip
    shown = {"network": name, "interface": "eth0", "pid": helper["pid"]}
    text = f"eth0 is a tap: {name} passes its packets on by sockets of its own"
    if listed := ", ".join(ports.shown(list(published))):
        shown["ports"] = listed
        text += f"; {listed}"
    events.emit("note", "network", shown, why=text)
    return asked._replace(program=name, published=published, helper=helper)


def _programs(asked: NetworkRequest) -> list[str]:
    """Return the paths of the programs to try, in order. Raises NetworkError if there is none."""
    names = USERSPACE if asked.any_program else (asked.program,)
    found = [path for name in names if (path := find(name))]
    if not found:
        raise NetworkError(f"the program {names[0]} is not installed", HINT)
    return found


def start(
    asked: NetworkRequest, folder: str, rows: list[Port], pid: int
) -> tuple[str, ProcessIdentity, str]:
    """Start the first program that can do it for the network namespace of process `pid`.

    Return its name, its process, and why those before it could not. It keeps its files in `folder`.
    Raises NetworkError, OSError.
    """
    reasons: list[str] = []
    for program in _programs(asked):
        name = program.rpartition("/")[2]
        try:
            helper = {"pasta": _pasta, "slirp4netns": _slirp4netns}[name](
                program, folder, rows, pid
            )
            return name, helper, "; ".join(reasons)
        except NetworkError as error:
            last = error
            reasons.append(str(error))
    raise NetworkError("; ".join(reasons), last.hint)


def plan(asked: NetworkRequest, pid: int) -> list[str]:
    """Return the command lines that :func:`attach` would try, and a line for each port.

    Raises NetworkError.
    """
    rows = [ports.Port(*row) for row in asked.ports]
    found: list[str] = []
    for program in _programs(asked):
        name = program.rpartition("/")[2]
        before = "if that fails: " if found else ""
        if name == USERSPACE[0]:
            found.append(" ".join([f"{before}{name}", *_pasta_words(rows, pid)]))
        else:
            calls = [jsonlite.dumps(_forwarding(row)) for row in rows]
            found += [" ".join([f"{before}{name}", *_slirp4netns_words(pid)]), *calls]
    return found


def _free(rows: list[Port]) -> list[int]:
    """Return a free port of the host for each row: bound, and let go again for the program.

    Raises NetworkError, OSError.
    """
    held: list[ports.Held] = []
    try:
        for row in rows:
            held.append(ports.bind(row))
        return [each.number for each in held]
    finally:
        for each in held:
            each.bound.close()


def _pasta(program: str, folder: str, rows: list[Port], pid: int) -> ProcessIdentity:
    """Start pasta; it goes into the background once the network is there."""
    words = _pasta_words(rows, pid)
    child, output = _start(program, words, folder)
    try:
        said = state_file.read_on(output).decode(errors="replace")
    finally:
        os.close(output)
    _check(program, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said)
    return state.identity(int(state.read_text(f"{folder}/{_PID_FILE}")))


def _pasta_words(rows: list[Port], pid: int) -> list[str]:
    """Return pasta's arguments: ports, and nothing from the container to the host's loopback."""
    words = ["--quiet", "--config-net", "--ns-ifname", "eth0", "--no-map-gw", "--pid", _PID_FILE]
    for protocol, flag in (("tcp", "-t"), ("udp", "-u")):
        given = [row for row in rows if row.protocol == protocol]
        for row in given:
            at = f"{row.host_ip}/" if row.host_ip else ""
            words += [flag, f"{at}{row.first or 'PORT'}:{row.port}"]
        words += [] if given else [flag, "none"]
    return [*words, "-T", "none", "-U", "none", str(pid)]


def _slirp4netns(program: str, folder: str, rows: list[Port], pid: int) -> ProcessIdentity:
    """Start slirp4netns, wait until it is ready, and publish the ports through its socket."""
    ready, written = os.pipe2(os.O_CLOEXEC)
    words = ["--ready-fd", str(written), *_slirp4netns_words(pid)]
    try:
        child, output = _start(program, words, folder, written)
        os.close(written)
        written = -1
        if os.read(ready, 1) != b"1":  # its end
            said = state_file.read_on(output).decode(errors="replace")
            _check(program, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or 1, said)
        os.close(output)
    finally:
        os.close(ready)
        if written >= 0:
            os.close(written)
    helper = state.identity(child)
    try:
        for row in rows:
            _forward(folder, row)
    except BaseException:
        helpers.release(helper)
        raise
    return helper


def _slirp4netns_words(pid: int) -> list[str]:
    return [
        "--configure", "--mtu", _MTU, "--disable-host-loopback", "--api-socket", _SOCKET,
        "--userns-path", f"/proc/{pid}/ns/user", "--netns-type", "path", f"/proc/{pid}/ns/net",
        "eth0",
    ]  # fmt: skip


def _forward(folder: str, row: Port) -> None:
    """Let slirp4netns listen on a port: its API is a line of JSON each way. Raises NetworkError."""
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as api:
            api.connect(f"/proc/self/fd/{directory}/{_SOCKET}")  # a path may be too long: unix(7)
            api.sendall(jsonlite.dumps(_forwarding(row)).encode())
            api.shutdown(socket.SHUT_WR)
            said = api.makefile().read()
    finally:
        os.close(directory)
    if '"error"' in said:
        where = f"{row.host_ip or '0.0.0.0'}:{row.first}/{row.protocol}"
        raise NetworkError(f"slirp4netns cannot publish {where}: {clean(said.strip())[:200]}")


def _forwarding(row: Port) -> dict[str, Any]:
    """Return a request of slirp4netns' API."""
    return {
        "execute": "add_hostfwd",
        "arguments": {
            "proto": row.protocol, "host_addr": row.host_ip or "0.0.0.0", "host_port": row.first,
            "guest_addr": _GUEST, "guest_port": row.port,
        },
    }  # fmt: skip


def _check(program: str, status: int, said: str) -> None:
    """Raise NetworkError if the program has failed, with its last line."""
    if status:
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
        name = program.rpartition("/")[2]
        other = "--network slirp4netns" if find("slirp4netns") else "apt install slirp4netns"
        hint = f"slirp4netns needs none: {other}" if "interface" in last else ""
        text = f"{name} failed with exit status {status}: {clean(last.strip())[:200]}"
        raise NetworkError(text, hint)


def _start(program: str, words: list[str], folder: str, *kept: int) -> tuple[int, int]:
    """Start a program in `folder`; return its pid, and a pipe of what it writes.

    `kept`: descriptors that it inherits. Raises OSError.
    """
    output, stdout = os.pipe2(os.O_CLOEXEC)
    why = "it passes packets on between the container's tap and its own sockets"
    pid, pidfd = namespaces.clone3(0, why=why)
    if pid == 0:
        _become(program, words, folder, stdout, kept)
    os.close(stdout)
    os.close(pidfd)
    return pid, output


def _become(
    program: str, words: list[str], folder: str, stdout: int, kept: tuple[int, ...]
) -> NoReturn:
    """In the child: turn into the program. Never returns."""
    try:
        events.become("runtime", int(os.readlink("/proc/self")))
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd, target in ((null, 0), (stdout, 1), (stdout, 2)):
            os.dup2(fd, target)
        for fd in kept:
            os.set_inheritable(fd, True)
        os.chdir(folder)
        process.restore_signals()
        name = program.rpartition("/")[2]
        process.execve(program, [name, *words], {"PATH": ":".join(FOLDERS), "LC_ALL": "C"})
    finally:
        os._exit(127)
