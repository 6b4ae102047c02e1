"""The processes of an engine's daemon, which makes containers when another program asks it to.

docker run and crictl only talk to a daemon; the runtime is executed by containerd, or by the shim
that looks after a container. Which process listens at a socket the kernel says (unix(7),
SO_PEERCRED). strace joins it while the command runs, and lets go of it: nothing of the engine's
configuration is touched.
"""

import os
import socket
import struct
from contextlib import closing, suppress
from pathlib import Path

from minirun.common.processes import pids
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import places
from minirun.faces.teach import permission

SOCKETS = {
    "docker": (
        "/run/docker/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock",
        "/run/containerd/containerd.sock",
    ),
    "containerd": ("/run/containerd/containerd.sock",),
    "cri": ("/run/containerd/containerd.sock",),
    "podman": (),
}  # fmt: skip
"""Engine → where the process listens that executes runtimes; podman executes them itself."""
_PEER = struct.Struct("iII")


def of_engine(name: str, address: str = "") -> tuple[int, ...]:
    """Return the pids to follow besides the command.

    Raises UsageError if no daemon answers, MinirunError if it may not be traced.
    """
    if name not in SOCKETS:
        raise UsageError(f"unknown engine {name!r}", " or ".join(SOCKETS))
    paths = (address,) if address else SOCKETS[name]
    for path in paths:
        if pid := listener(path):
            permission.check(pid)
            return (pid,)
    if paths:
        raise UsageError(f"no {name} answers at {paths[-1]}", "is its daemon running?", status=1)
    return ()


def waiting(words: list[str]) -> dict[int, str]:
    """Return the inits that wait for `start` of a container that a command names: pid → id.

    runc's, crun's and minirun's init has exec.fifo open, in a folder with the container's name.
    """
    found = {}
    for pid in pids():
        with suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                folder, _, name = os.readlink(f"/proc/{pid}/fd/{fd}").rpartition("/")
                if name == places.EXEC and folder.rpartition("/")[2] in words:
                    found[pid] = folder.rpartition("/")[2]
    return found


def listener(path: str) -> int:
    """Return the process that listens at a socket; 0 if none does.

    Raises MinirunError if it may not be asked.
    """
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as peer:
        try:
            peer.connect(path)
            data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        except PermissionError:
            raise MinirunError(f"{path}: permission denied", "run as root", status=1) from None
        except OSError:
            return 0
    pid: int = _PEER.unpack(data)[0]
    return pid


def of_container(container_id: str) -> tuple[int, ...]:
    """Return the shims and monitors that look after a container: an exec comes through them.

    Raises UsageError if there is none, MinirunError if it may not be traced.
    """
    found = []
    for pid in pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        name = words[0].rpartition(b"/")[2]
        is_shim = name.startswith((b"containerd-shim", b"conmon")) and pid != os.getpid()
        if is_shim and container_id.encode() in words:
            permission.check(pid)
            found.append(pid)
    if not found:
        hint = "the whole id, as the engine's ps --no-trunc prints it"
        raise UsageError(f"no shim and no conmon looks after {container_id!r}", hint, status=1)
    return tuple(found)
