"""The program nft(8), which changes and lists the rules of nftables: netavark calls it too.

It is the host's own, found in the folders of root's programs alone, with an environment that says
nothing but that. What it is given comes from minirun: names of links, addresses and numbers that
have been checked.
"""

from __future__ import annotations

import os

from minirun.core import events
from minirun.core.keeping import state_file
from minirun.core.keeping.record import Record
from minirun.core.kernel import namespaces, process
from minirun.net.network import NetworkError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
MISSING = "the program nft is not installed"
HINT = "apt install nftables"
_NOT_FOUND = 127
PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
"""What nft lists as a number where /etc/protocols is missing: the package netbase has that file."""


class Ended(Record):
    """What came of one call."""

    status: int
    """Its exit status, -n for signal n."""
    output: str
    """What it wrote, to either stream."""


def find(program: str = "nft") -> str:
    """Return the path of a program of root's; empty if it is not installed."""
    paths = (f"{folder}/{program}" for folder in FOLDERS)
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def run(words: list[str], text: str = "", program: str = "nft") -> Ended:
    """Run nft, or another program of the firewall, with `text` on its standard input.

    Raises NetworkError if it is missing, OSError.
    """
    path = find(program)
    if not path:
        raise NetworkError(MISSING, HINT)
    stdin, given = os.pipe2(os.O_CLOEXEC)
    said, stdout = os.pipe2(os.O_CLOEXEC)
    try:
        pid, pidfd = namespaces.clone3(0, why=f"{program} changes or lists the firewall's rules")
        if pid == 0:
            _become(path, [program, *words], stdin, stdout)
        os.close(pidfd)
        os.close(stdout)
        stdout = -1
        data = text.encode()
        while data:
            data = data[os.write(given, data) :]
        os.close(given)
        given = -1
        output = state_file.read_on(said).decode(errors="replace")
        return Ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output)
    finally:
        for fd in (stdin, given, said, stdout):
            if fd >= 0:
                os.close(fd)


def _become(path: str, argv: list[str], stdin: int, stdout: int) -> NoReturn:
    """In the child: turn into the program. Never returns."""
    try:
        events.become("runtime", int(os.readlink("/proc/self")))
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stdout, 2)
        os.chdir("/")
        process.restore_signals()
        process.execve(path, argv, {"PATH": ":".join(FOLDERS), "LC_ALL": "C"})
    finally:
        os._exit(_NOT_FOUND)
