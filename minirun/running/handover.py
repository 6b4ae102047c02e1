"""What an engine hands to a process of a container, and what it is told of it: runc's flags.

--preserve-fds, $LISTEN_FDS, --console-socket; --pid-file, --pidfd-socket.
"""

import os

from minirun.core.errors import UsageError
from minirun.core.keeping.numbers import whole
from minirun.core.lazy import lazy

with lazy:
    from minirun.oci import descriptors


def preserved(text: str) -> int:
    """Return how many descriptors from 3 on --preserve-fds hands to the command.

    Each must be open by now: a number that is free would soon be a file of ours.
    Raises UsageError.
    """
    count = whole(text or "0", 0, 9999)
    if count is None:
        raise UsageError(f"invalid --preserve-fds {text!r}", "a number of descriptors", 1)
    for fd in range(3, 3 + count):
        if not _is_inherited(fd):
            text = f"--preserve-fds {count}: preserved-fd {fd - 3}: descriptor {fd} is not open"
            raise UsageError(text, "the descriptors from 3 on must be open", 1)
    return count


def _is_inherited(fd: int) -> bool:
    """Whether a descriptor came with execve(2): what is open and ours goes away with it."""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def listen_fds() -> int:
    """Return how many sockets systemd hands on: sd_listen_fds(3). None that are another's."""
    count = os.environ.get("LISTEN_FDS", "")
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return 0
    return whole(count, 0, 999) or 0


def announce(pid_file: str, pidfd_socket: str, pid: int, pidfd: int) -> None:
    """Tell the caller which process it is, in each way whose path is not "". Raises OSError."""
    if pid_file:
        write_pid(pid_file, pid)
    if pidfd_socket:
        send_pidfd(pidfd_socket, pidfd)


def write_pid(path: str, pid: int) -> None:
    """Write --pid-file, as engines read it: decimal, no newline; in one step. Raises OSError.

    buildkit looks again and again for the file, and takes an empty one for a failure.
    """
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    with open(temporary, "x") as file:  # no link of another user's is followed
        file.write(str(pid))
    try:
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def send_pidfd(path: str, pidfd: int) -> None:
    """Send a descriptor of a process through the socket at `path`, as SCM_RIGHTS. Raises OSError.

    unix(7). A pidfd stays that process's, while its number may become another's.
    """
    socket = descriptors.stream()
    try:
        descriptors.connect(socket, path)
        descriptors.send(socket, b"pidfd", [pidfd])
    finally:
        socket.close()


def connect_console(path: str) -> int:
    """Connect to a socket, such as a console's, and return its descriptor. Raises OSError."""
    socket = descriptors.stream()
    descriptors.connect(socket, path)
    return socket.detach()
