"""`minirun exec`: another command in a running container, as runc and docker have it.

runc's flags describe a `process` of config.json, or name a file with one (--process), which is
what conmon and containerd's shim do. Where exec itself fails, runc's status is 255, and that is
what engines wait for; in a container that `minirun run IMAGE` made it is docker's, 126 or 127.
In the same containers -i and -d are docker's too; elsewhere the caller's streams are handed on.
"""

import os

from minirun.cli import oci
from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.core import endings, extras, jsonlite, places, state
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import ConfigError, MinirunError, StateError, UsageError, from_os
from minirun.core.process.streams import Console
from minirun.core.settings import Settings
from minirun.oci.exec import join, sealed
from minirun.running import existing, output, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = (
    Flag(("-i", "--interactive"), "", "keep standard input open"),
    Flag(("-t", "--tty"), "", "give the command a terminal"),
    Flag(("-d", "--detach"), "", "do not wait for the command"),
    Flag(("-e", "--env"), "NAME=VALUE", "set a variable", many=True),
    Flag(("-w", "--workdir", "--cwd"), "DIR", "working directory"),
    Flag(("-u", "--user"), "USER[:GROUP]", "user of the command"),
    Flag(("-g", "--additional-gids"), "GID", "one more group", many=True),
    Flag(("-p", "--process"), "FILE", "the command, as `process` of config.json has it"),
    Flag(("-c", "--cap"), "CAP", "one more capability", many=True),
    Flag(("--no-new-privs",), "", "no setuid program gives more rights than it has"),
    Flag(("--apparmor",), "PROFILE", "its AppArmor profile"),
    Flag(("--process-label",), "LABEL", "its SELinux label"),
    Flag(("--cgroup",), "PATH", "[controller:]path of an existing cgroup below the container's"),
    Flag(("--ignore-paused",), "", "start it in a paused container too; it runs after resume"),
    Flag(("--console-socket",), "PATH", "a socket that gets the terminal's master end"),
    Flag(("--pidfd-socket",), "PATH", "a socket that gets a descriptor of the process"),
    Flag(("--preserve-fds",), "N", "hand N descriptors from 3 on to the command"),
    Flag(("--pid-file",), "FILE", "write the command's pid to FILE"),
    HELP,
)
FAILED = 255
"""runc's exit status where the command could not be started."""


def main(args: "list[str]", settings: Settings) -> int:
    """Run a command in a container; return its exit status. Raises MinirunError, OSError."""
    flags = parse("exec", FLAGS, args, mixed=False)
    if flags.help:
        text = usage("exec", "ID COMMAND [ARG…]", "Run a command in a running container.", FLAGS)
        os.write(1, text.encode())
        return 0
    sealed.ensure(tuple(flags.env))  # -e NAME is the caller's variable
    managed = False
    try:
        if not flags.args or (len(flags.args) < 2 and not flags.process):
            raise UsageError("exec needs a container and a command", "minirun exec ID COMMAND", 1)
        container = existing.load(settings, flags.args[0])
        managed = bool(container.record["managed"])
        return _exec(container, flags, managed)
    except (MinirunError, OSError) as caught:
        error = from_os(caught) if isinstance(caught, OSError) else caught
        if not managed and not isinstance(error, signals.Interrupted):
            error.status = FAILED
        raise error from None


def _exec(container: Container, flags: Parsed, managed: bool) -> int:
    status = container.record["status"]
    if status == state.PAUSED and not flags.ignore_paused:
        hint = "use --ignore-paused to override"
        raise StateError("cannot exec in a paused container", hint)
    if status in (state.STOPPED, state.CREATING) and not _is_held(container):
        raise StateError(f"container {container.id} is not running", status=1)
    if status == state.CREATED and container.unprivileged:
        text = f"container {container.id} is not started: until then only root can enter it"
        raise StateError(text, f"minirun start {container.id}")
    container.preserve_fds = oci.preserved(flags.preserve_fds)
    container.open_log()
    process = _process(container, flags)
    score = container.config.process.get("oomScoreAdj")
    if score is not None:
        process.setdefault("oomScoreAdj", score)  # every process of the container has it
    config = Config(
        {**container.config.raw, "process": process},
        container.config.bundle,
        container.config.choices,
    )
    container.config = config
    container.prepare(extras.BECOMING)
    if flags.cgroup:
        from minirun.cgroups import below

        container.cgroup = below.open_below(container.cgroup, flags.cgroup)
    if managed and not flags.console_socket:
        return _as_docker(container, config, flags)
    return _as_runc(container, config, flags)


def _is_held(container: Container) -> bool:
    """Tell whether the container is half-made and held at a gate, for somebody to look inside."""
    held = os.path.exists(places.gate_fifo(container.directory))
    return held and state.is_alive(container.record["init"])


def _process(container: Container, flags: Parsed) -> "dict[str, Any]":
    """Return the `process` to be run: from --process, or from the flags. Raises MinirunError."""
    if flags.process:
        from minirun.oci import validate

        try:
            raw = jsonlite.loads(state.read_text(flags.process))
        except OSError as error:
            text = os.strerror(error.errno or 0).lower()
            raise ConfigError(f"open {flags.process}: {text}") from None
        except ValueError as error:
            raise ConfigError(f"{flags.process}: {error}") from None
        process = validate.process(raw)
    else:
        from minirun.cli import exec_flags

        process = exec_flags.process(container, flags)
    if flags.console_socket and not process.get("terminal"):
        raise UsageError("--console-socket needs a terminal", "exec --tty, or leave it out")
    return process


def _as_docker(container: Container, config: Config, flags: Parsed) -> int:
    """Without -i no input; with -d neither input nor output."""
    streams = output.Streams(container, flags.interactive, flags.detach)
    return _run(container, config, flags, streams)


def _as_runc(container: Container, config: Config, flags: Parsed) -> int:
    """The caller's streams; a terminal of which the master end goes to the socket, or is relayed.

    Raises UsageError for a terminal that nobody would hold the other end of.
    """
    if flags.console_socket:
        socket = oci.connect_console(flags.console_socket)
        joined = _join(container, config, Console(socket=socket), flags)
        os.close(socket)
    elif config.terminal:
        if flags.detach:
            raise UsageError("a detached command with a terminal needs --console-socket")
        return _run(container, config, flags, output.Streams(container, True, False))
    else:
        joined = _join(container, config, Console(), flags)
    if flags.detach:
        return 0
    signals.forward(joined.pidfd)
    return endings.wait(joined.pidfd, joined.pid)


def _run(container: Container, config: Config, flags: Parsed, streams: output.Streams) -> int:
    joined = _join(container, config, streams.console, flags)
    streams.close_containers_ends()
    if flags.detach:
        return 0
    signals.forward(joined.pidfd)
    return streams.relay(joined.pid, joined.pidfd)


def _join(container: Container, config: Config, console: Console, flags: Parsed) -> join.Joined:
    """Start the command, and tell those who wait for its pid."""
    if not flags.detach:
        signals.queue()
    joined = join.enter(container, config, console, join.root_before_pivot(container))
    oci.write_pid_file(flags.pid_file, joined.pid)
    if flags.pidfd_socket:
        oci.send_pidfd(flags.pidfd_socket, joined.pidfd)
    return joined
