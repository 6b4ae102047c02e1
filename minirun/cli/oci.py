"""runc's commands, to the letter, since engines call them: create, start, state.

What the others (kill, delete, pause, update, …) share with them is here too.
"""

import os

from minirun.cli import chosen
from minirun.cli.flags import HELP, Flag, Parsed, parse, show_help
from minirun.core import config as oci_config
from minirun.core import endings, events, gates, lifecycle, state
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.core.process.streams import Console
from minirun.core.settings import Settings
from minirun.engines.origin import origin
from minirun.oci.exec import sealed
from minirun.running import signals
from minirun.running.reserve import reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

CREATE = (
    Flag(("-b", "--bundle"), "DIR", "the directory of config.json (default: the current one)"),
    Flag(("--console-socket",), "PATH", "a socket that gets the terminal's master end"),
    Flag(("--pidfd-socket",), "PATH", "a socket that gets a descriptor of init"),
    Flag(("--pid-file",), "FILE", "write init's pid to FILE"),
    Flag(("--preserve-fds",), "N", "hand N descriptors from 3 on to the command"),
    Flag(("--no-pivot",), "", "move the root instead, which a capable container can leave"),
    Flag(("--no-new-keyring",), "", "keep the caller's session keyring"),
    HELP,
)


def main_create(args: "list[str]", settings: Settings) -> int:
    """Create a container from a bundle; its init waits at exec.fifo."""
    flags = parse("create", CREATE, args, mixed=True)
    if flags.help:
        return show_help("create", "ID", "Create a container from an OCI bundle.", CREATE)
    container = new_container(flags, settings)
    try:
        signals.catch()
        init = lifecycle.create(container)
        container.save(status=state.CREATED, complete=True)
        announce(flags, init.pid, init.pidfd)
    except BaseException:
        endings.destroy(container)
        raise
    return 0


def new_container(flags: Parsed, settings: Settings, *, relayed: bool = False) -> Container:
    """Reserve a container for `create` and for runc's `run`. Raises MinirunError, OSError.

    Signals wait from then on, until the caller catches them. `relayed`: the caller itself will
    hold the master end of a terminal for which no socket is named.
    """
    if len(flags.args) != 1:
        raise UsageError(f'"minirun create" needs exactly one id, got {len(flags.args)}', status=1)
    kept, listening = preserved(flags.preserve_fds), listen_fds()
    choices = chosen.of_bundle(flags, settings.choices)
    config = oci_config.load(os.path.abspath(flags.bundle or "."), choices)
    if not config.process:
        raise UsageError("config.json: process: is required to create a container", status=1)
    if config.namespaces.get("pid"):
        sealed.ensure()
    if config.terminal != bool(flags.console_socket) and not (config.terminal and relayed):
        what = "needs --console-socket" if config.terminal else "cannot take a --console-socket"
        raise UsageError(f"config.json: process.terminal: {str(config.terminal).lower()} {what}")
    socket = connect_console(flags.console_socket) if flags.console_socket else -1
    signals.block()
    container = _reserve(flags, settings, config)
    container.preserve_fds = listening + kept
    if listening:
        added = (f"LISTEN_FDS={listening}", "LISTEN_PID=1")
        config.process["env"] = [*(config.process.get("env") or []), *added]
    container.console = Console(socket=socket)
    return container


def _reserve(flags: Parsed, settings: Settings, config: oci_config.Config) -> Container:
    """Take the name, and begin the log with who has asked. Raises MinirunError, OSError."""
    asked, args = origin(config, flags.args[0]), config.process.get("args")
    container = reserve(
        settings, flags.args[0], config, no_pivot=flags.no_pivot,
        no_new_keyring=flags.no_new_keyring, origin=asked, args=args,
    )  # fmt: skip
    try:
        container.open_log()
        places = {"bundle": config.bundle, "root": settings.root}
        events.emit("note", "origin", asked | places, why="who asked for this container, and where")
        chosen.tell_ignored(config)
        if settings.gates:
            container.gates = gates.Gates(container.directory, settings.gates)
    except BaseException:
        endings.destroy(container)
        raise
    return container


def preserved(text: str) -> int:
    """Return how many descriptors from 3 on --preserve-fds hands to the command.

    Each must be open by now: a number that is free would soon be a file of ours.
    Raises UsageError.
    """
    count = text or "0"
    if not (count.isascii() and count.isdigit() and len(count) < 5):
        raise UsageError(f"invalid --preserve-fds {count!r}", "a number of descriptors", 1)
    for fd in range(3, 3 + int(count)):
        if not _is_inherited(fd):
            text = f"--preserve-fds {count}: descriptor {fd} is not open"
            raise UsageError(text, "the descriptors from 3 on must be open", 1)
    return int(count)


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
    return int(count) if count.isascii() and count.isdigit() and len(count) < 4 else 0


def announce(flags: Parsed, pid: int, pidfd: int) -> None:
    """Tell who waits for it which process the container's init is. Raises OSError."""
    write_pid_file(flags.pid_file, pid)
    if flags.pidfd_socket:
        send_pidfd(flags.pidfd_socket, pidfd)


def send_pidfd(path: str, pidfd: int) -> None:
    """Send a descriptor of a process through the socket at `path`, as SCM_RIGHTS. Raises OSError.

    unix(7). A pidfd stays that process's, while its number may become another's.
    """
    import _socket

    from minirun.oci.terminal import terminal

    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        terminal.connect(socket, path)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pidfd.to_bytes(4, "little"))
        socket.sendmsg([b"pidfd"], [rights])
    finally:
        socket.close()


def connect_console(path: str) -> int:
    """Connect to a console socket and return its descriptor. Raises OSError."""
    import _socket

    from minirun.oci.terminal import terminal

    console = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    terminal.connect(console, path)
    return console.detach()


def write_pid_file(path: str, pid: int) -> None:
    """Write a pid as engines read it: decimal, no newline."""
    if path:
        with open(path, "w") as file:
            file.write(str(pid))
