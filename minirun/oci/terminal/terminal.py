"""A terminal for the container, by the console-socket protocol of the OCI runtimes.

What happens: init opens a new pseudo-terminal in the *container's* devpts, sends its master end
through a Unix socket to the caller that asked for the container, and makes the slave end its
controlling terminal, its standard streams, and /dev/console:

    caller                                   init
      │ ◀── sendmsg: SCM_RIGHTS, one fd ───── │  /dev/pts/ptmx → master; TIOCGPTPEER → slave
      │  master                               │  slave: TIOCSCTTY, dup2 to 0, 1, 2
      │ ═══ relay: keys in, output out ══════ │

What the man pages say: pty(7), ioctl_tty(2), unix(7), termios(3).

What the real stack does: the same; the caller is conmon, containerd's shim or, without -d, runc.
As the engines expect it: one sendmsg with one descriptor and at least one byte; the master starts
with size 0×0, ONLCR and ECHO; later sizes come through the master.

The image is hostile: /dev/pts is looked up below the container's root and must be a devpts, and
ptmx the one in it; the slave comes from the master, never from a path (CVE-2025-52565);
/dev/console is made and mounted on through descriptors, and a link there is refused.

Imported by the runtime before clone, and only when a terminal is wanted: init imports nothing.
"""

from __future__ import annotations

import _socket  # the C half of socket; the Python half costs 5 ms at import
import fcntl
import os
import struct
import termios

from minirun.core import events
from minirun.core.container import Extra
from minirun.core.errors import MinirunError
from minirun.core.kernel import files, mounts
from minirun.core.rootfs.inroot import RESOLVE, Root
from minirun.oci import descriptors
from minirun.oci.terminal.relay import set_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.container import Console

DEVPTS_SUPER_MAGIC = 0x1CD1
TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER = 0x80045430, 0x40045431, 0x5441  # asm-generic/ioctls.h
_READ_WRITE = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC


class Terminal(Extra):
    """process.terminal and process.consoleSize of one container."""

    def connect(self, root: Root, console: Console, *, console_node: bool) -> bool:
        """Get a terminal, and put it onto 0 to 2. Raises OSError, MinirunError."""
        size = self.config.process.get("consoleSize") or {}
        cells = (size.get("height", 0), size.get("width", 0))
        take(root, console.socket, console_node=console_node, size=cells)
        return True

    def lead_session(self) -> None:
        """Make the terminal on 0 the one of this session, which has none yet. Raises OSError."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def take(
    root: Root,
    socket: str | int,
    *,
    console_node: bool = True,
    size: tuple[int, int] = (0, 0),
) -> None:
    """In init: get a terminal, send its master end through `socket`, put the slave end onto 0 to 2.

    `console_node` binds the terminal at /dev/console too; `size` is (rows, columns).
    Raises OSError, MinirunError.
    """
    master, slave = open_console(root)
    if size != (0, 0):
        set_size(master, *size)
    if console_node:
        bind_console(root, slave)
    send_master(socket, master)
    os.close(master)
    for number in (0, 1, 2):
        os.dup2(slave, number, inheritable=True)
    if slave > 2:
        os.close(slave)


def open_console(root: Root) -> tuple[int, int]:
    """Return (master, slave) of a new pseudo-terminal in the devpts at /dev/pts of `root`.

    Raises OSError; MinirunError if there is no devpts.
    """
    master = _open_multiplexer(root)
    try:
        fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
        slave: int = fcntl.ioctl(master, TIOCGPTPEER, _READ_WRITE)
        return master, slave
    except BaseException:
        os.close(master)
        raise


def _open_multiplexer(root: Root) -> int:
    """Open ptmx on what is checked to be a devpts; nothing mounted over it is accepted."""
    directory = root.open("/dev/pts", os.O_PATH | os.O_DIRECTORY)
    try:
        if files.filesystem_magic(directory) != DEVPTS_SUPER_MAGIC:
            raise MinirunError(
                "no devpts at /dev/pts in the container, so there is no terminal for it",
                "config.json needs a mount of type devpts at /dev/pts",
            )
        strict = RESOLVE | files.RESOLVE_NO_XDEV | files.RESOLVE_NO_SYMLINKS
        return files.openat2(directory, "ptmx", _READ_WRITE, strict)
    finally:
        os.close(directory)


def name_of(master: int) -> str:
    """Return the slave's path inside the container: /dev/pts/0."""
    answer = fcntl.ioctl(master, TIOCGPTN, bytes(4))
    return f"/dev/pts/{struct.unpack('I', answer)[0]}"


def bind_console(root: Root, slave: int) -> None:
    """Mount the terminal at /dev/console of `root`. Raises OSError; ELOOP if a link lies there.

    Every step works on descriptors, so what was checked is what is mounted on.
    """
    path = "/dev/console"
    parent, name = root.make_parent(path)
    try:
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o600, dir_fd=parent))
        except FileExistsError:
            pass
        target = files.openat2(parent, name, os.O_PATH, RESOLVE | files.RESOLVE_NO_SYMLINKS)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(parent)
    try:
        why = "/dev/console is the container's own terminal"
        flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
        tree = mounts.open_tree(slave, "", flags, shown="pty", why=why)
        try:
            mounts.move_mount(tree, target, shown=path)
        finally:
            os.close(tree)
    finally:
        os.close(target)


def send_master(socket: str | int, master: int) -> None:
    """Send `master` to the console socket: a path, or the descriptor of a connected socket.

    Raises OSError.
    """
    name = name_of(master)
    if isinstance(socket, int):
        connected = _socket.socket(fileno=os.dup(socket))
    else:
        connected = descriptors.stream()
    try:
        if not isinstance(socket, int):
            descriptors.connect(connected, socket)
        events.emit(
            "message", "console", {"to": "caller", "terminal": name},
            why="the master end of the container's terminal goes through the console socket",
        )  # fmt: skip
        descriptors.send(connected, name.encode(), [master])
    finally:
        connected.close()


def receive_master(socket: _socket.socket) -> int:
    """Return the master end (close-on-exec) that a container sends through `socket`.

    Raises OSError; MinirunError if the other side closes without sending one terminal.
    """
    _, received = descriptors.receive(socket)
    try:
        if len(received) != 1:
            raise MinirunError(f"the container sent {len(received)} descriptors, not its terminal")
        name_of(received[0])
    except BaseException:
        for descriptor in received:
            os.close(descriptor)
        raise
    return received[0]
