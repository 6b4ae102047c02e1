"""runc's commands, to the letter, since engines call them: create, start, state, kill, delete."""

import os
import sys

from minirun import gates, jsonlite, lifecycle
from minirun.cli import signals
from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.container import Container, reserve
from minirun.errors import ConfigError, MinirunError, StateError, UsageError, from_os
from minirun.handshake import Channel
from minirun.oci import config as oci_config
from minirun.oci import state
from minirun.process import sealed
from minirun.process.streams import Console
from minirun.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CREATE = (
    Flag(("-b", "--bundle"), "DIR", "the directory of config.json (default: the current one)"),
    Flag(("--console-socket",), "PATH", "a socket that gets the terminal's master end"),
    Flag(("--pid-file",), "FILE", "write init's pid to FILE"),
    Flag(("--preserve-fds",), "N", "hand N descriptors from 3 on to the command"),
    Flag(("--no-pivot",), "", "refused: without pivot_root the container could leave its root"),
    Flag(("--no-new-keyring",), "", "accepted, and without effect"),
    HELP,
)
SIGNALS = {
    name: number
    for number, name in enumerate(
        (
            "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV",
            "USR2", "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN",
            "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
        )
    )
    if name
}  # fmt: skip


class RuncStatus:
    """``with RuncStatus():`` an error ends with status 1, as runc's do; docker has 125 to 127."""

    def __enter__(self) -> "RuncStatus":
        return self

    def __exit__(self, kind: object, error: "BaseException | None", trace: object) -> None:
        if isinstance(error, OSError):
            error = from_os(error)
        if isinstance(error, MinirunError) and 125 <= error.status <= 127:
            error.status = 1
            raise error from None


def main_create(args: "list[str]", settings: Settings) -> int:
    """Create a container from a bundle; its init waits at exec.fifo."""
    flags = parse("create", CREATE, args, mixed=True)
    if flags.help:
        return _help("create", "ID", "Create a container from an OCI bundle.", CREATE)
    with RuncStatus():
        container = new_container(flags, settings)
        try:
            signals.catch()
            init = lifecycle.create(container)
            container.save(status=state.CREATED, complete=True)
            write_pid_file(flags.pid_file, init.pid)
        except BaseException:
            lifecycle.destroy(container)
            raise
    return 0


def new_container(flags: Parsed, settings: Settings) -> Container:
    """Reserve a container for `create` and for runc's `run`. Raises MinirunError, OSError.

    Signals wait from then on, until the caller catches them.
    """
    if len(flags.args) != 1:
        raise UsageError(f'"minirun create" needs exactly one id, got {len(flags.args)}', status=1)
    if flags.values.get("no_pivot"):
        raise UsageError("--no-pivot is not supported: only pivot_root keeps a container inside")
    config = oci_config.load(os.path.abspath(flags.bundle or "."))
    if not config.process:
        raise UsageError("config.json: process: is required to create a container", status=1)
    _check_layers(config.layers, settings)
    if config.namespaces.get("pid"):
        sealed.ensure()
    if config.terminal != bool(flags.console_socket):
        what = "needs --console-socket" if config.terminal else "cannot take a --console-socket"
        raise UsageError(f"config.json: process.terminal: {str(config.terminal).lower()} {what}")
    count = flags.preserve_fds or "0"
    if not (count.isascii() and count.isdigit() and len(count) < 5):
        raise UsageError(f"invalid --preserve-fds {count!r}", "a number of descriptors", 1)
    socket = connect_console(flags.console_socket) if flags.console_socket else -1
    signals.hold()
    container = reserve(settings, flags.args[0], config)
    try:
        container.open_log()
        if settings.gates:
            container.gates = gates.Gates(container.directory, settings.gates)
    except BaseException:
        lifecycle.destroy(container)
        raise
    container.preserve_fds = int(count)
    container.console = Console(socket=socket)
    return container


def _check_layers(layers: "list[str]", settings: Settings) -> None:
    """Refuse layers that are no image's, since an engine lets its users write annotations.

    Raises ConfigError.
    """
    images = f"{settings.store}/images/"
    for layer in layers:
        if not layer.startswith(images) or ".." in layer.split("/"):
            where = f"config.json: annotations.{oci_config.LAYERS}"
            raise ConfigError(f"{where}: {layer} is not a layer of an image in {images}")


def connect_console(path: str) -> int:
    """Connect to a console socket and return its descriptor. Raises OSError."""
    import _socket

    from minirun.process import terminal

    console = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    terminal.connect(console, path)
    return console.detach()


def write_pid_file(path: str, pid: int) -> None:
    """Write a pid as engines read it: decimal, no newline."""
    if path:
        with open(path, "w") as file:
            file.write(str(pid))


def load(settings: Settings, container_id: str) -> Container:
    """Return an existing container. Raises StateError, ConfigError."""
    record = state.load(settings.root, container_id)
    config = oci_config.Config(_saved_config(record), record["bundle"])
    return Container(settings._replace(cgroup_version=record["cgroup_version"]), config, record)


def _saved_config(record: "dict[str, Any]") -> "dict[str, Any]":
    """config.json as it was at create; later changes to the bundle have no effect (the spec)."""
    try:
        raw: dict[str, Any] = jsonlite.loads(state.read_text(f"{record['directory']}/config.json"))
    except (OSError, ValueError):
        raw = {"ociVersion": state.OCI_VERSION, "root": {"path": record["rootfs"]}}
    return raw


def main_start(args: "list[str]", settings: Settings) -> int:
    """Let a created container run its command."""
    flags = parse("start", (HELP,), args, mixed=True)
    if flags.help:
        return _help("start", "ID", "Let a created container run its command.", (HELP,))
    container = load(settings, _one_id("start", flags))
    status = container.record["status"]
    if status != state.CREATED:
        text = f"cannot start a container in the {status} state"
        raise StateError(text, "minirun ps -a shows the states")
    with RuncStatus():
        container.open_log()
        report = os.open(f"{container.directory}/init.fifo", os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(report, True)
        lifecycle.start(container, Channel(report, -1, "init"))
    return 0


def main_state(args: "list[str]", settings: Settings) -> int:
    """Print a container's state as JSON (runtime.md, "Query State")."""
    flags = parse("state", (HELP,), args, mixed=True)
    if flags.help:
        return _help("state", "ID", "Print a container's state as JSON.", (HELP,))
    record = state.load(settings.root, _one_id("state", flags))
    sys.stdout.write(jsonlite.dumps(state.public(record), indent=2) + "\n")
    return 0


def main_kill(args: "list[str]", settings: Settings) -> int:
    """Send a signal (TERM by default) to a container's init, or with --all to all its processes."""
    known = (Flag(("-a", "--all"), "", "signal all processes"), HELP)
    flags = parse("kill", known, args, mixed=True)
    if flags.help:
        return _help("kill", "ID [SIGNAL]", "Send a signal to a container.", known)
    if not 1 <= len(flags.args) <= 2:
        text = f'"minirun kill" needs an id and perhaps a signal, got {len(flags.args)} arguments'
        raise UsageError(text, "minirun kill ID [SIGNAL]", 1)
    number = signal_number(flags.args[1] if len(flags.args) > 1 else "TERM")
    container = load(settings, flags.args[0])
    if flags.all:
        if container.cgroup.exists():
            container.cgroup.kill(number)
        return 0
    lifecycle.kill(container.record, number)
    return 0


def signal_number(text: str) -> int:
    """Return 15 for TERM, SIGTERM, sigterm and 15. Raises UsageError."""
    name = text.upper().removeprefix("SIG")
    if name in SIGNALS:
        return SIGNALS[name]
    if text.isascii() and text.isdigit() and 0 < int(text) < 65:
        return int(text)
    raise UsageError(f"unknown signal {text!r}", "a name such as TERM, or a number", status=1)


def main_delete(args: "list[str]", settings: Settings) -> int:
    """Delete containers; a running one only with --force, which asks nothing of its state."""
    known = (Flag(("-f", "--force"), "", "kill it first; none is no error"), HELP)
    flags = parse("delete", known, args, mixed=True)
    if flags.help:
        return _help("delete", "ID…", "Delete containers.", known)
    if not flags.args:
        raise UsageError('"minirun delete" needs at least one id', "minirun delete ID", 1)
    for container_id in flags.args:
        delete(settings, container_id, force=flags.force)
    return 0


def delete(settings: Settings, container_id: str, *, force: bool) -> None:
    """Delete one container. Raises StateError."""
    try:
        container = load(settings, container_id)
    except StateError:
        state.check_id(container_id)
        directory = f"{settings.root}/{container_id}"
        if not force:
            raise
        from minirun.rootfs.tree import remove_tree

        remove_tree(directory)
        return
    status = container.record["status"]
    if status in (state.RUNNING, state.PAUSED, state.CREATING) and not force:
        text = f"cannot delete container {container_id} that is not stopped: {status}"
        raise StateError(text, f"minirun delete --force {container_id}")
    lifecycle.destroy(container)


def _one_id(command: str, flags: Parsed) -> str:
    if len(flags.args) != 1:
        text = f'"minirun {command}" needs exactly one id, got {len(flags.args)}'
        raise UsageError(text, f"minirun {command} ID", 1)
    return str(flags.args[0])


def _help(command: str, arguments: str, summary: str, flags: "tuple[Flag, ...]") -> int:
    os.write(1, usage(command, arguments, summary, flags).encode())
    return 0
