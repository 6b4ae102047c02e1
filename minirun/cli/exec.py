"""`minirun exec`: another command in a running container."""

import os

from minirun import gates
from minirun.cli import oci, output, signals, wishes
from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.container import Container
from minirun.errors import StateError, UsageError
from minirun.oci import state
from minirun.oci.config import Config
from minirun.process import join, sealed, user
from minirun.process.streams import Console
from minirun.rootfs.inroot import Root
from minirun.settings import Settings

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
    Flag(("--pid-file",), "FILE", "write the command's pid to FILE"),
    HELP,
)


def main(args: "list[str]", settings: Settings) -> int:
    """Run a command in a container; return its exit status."""
    flags = parse("exec", FLAGS, args, mixed=False)
    if flags.help:
        text = usage("exec", "ID COMMAND [ARG…]", "Run a command in a running container.", FLAGS)
        os.write(1, text.encode())
        return 0
    if len(flags.args) < 2:
        raise UsageError("exec needs a container and a command", "minirun exec ID COMMAND", 1)
    sealed.ensure()
    container = oci.load(settings, flags.args[0])
    status = container.record["status"]
    if status not in (state.RUNNING, state.CREATED) and not _is_held(container):
        raise StateError(f"container {container.id} is not running", status=1)
    container.open_log()
    config = Config(_with_process(container, flags), container.config.bundle)
    container.config = config
    container.prepare()
    return _run(container, config, flags)


def _is_held(container: Container) -> bool:
    """Tell whether the container is half-made and held at a gate, for somebody to look inside."""
    held = os.path.exists(f"{container.directory}/{gates.GATE}")
    return held and state.is_alive(container.record["init"])


def _run(container: Container, config: Config, flags: Parsed) -> int:
    streams = output.Streams(container, flags.interactive, flags.detach, auto_remove=True)
    if flags.detach and not config.terminal:
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        streams.console = Console(null, null, null)
    root = join.root_before_pivot(container)
    joined = join.enter(container, config, streams.console, root)
    streams.close_containers_ends()
    oci.write_pid_file(flags.pid_file, joined.pid)
    if flags.detach:
        return 0
    signals.forward(joined.pidfd)
    return streams.relay(joined.pid, joined.pidfd)


def _with_process(container: Container, flags: Parsed) -> "dict[str, Any]":
    """The container's config.json, with `process` as the flags want it."""
    process = dict(container.config.process)
    process["args"] = list(flags.args[1:])
    process["terminal"] = flags.tty
    process["env"] = [*(process.get("env") or []), *wishes.variables(flags.env)]
    if flags.workdir:
        process["cwd"] = flags.workdir
    if flags.user:
        root = Root.at(f"/proc/{container.record['init']['pid']}/root")
        found = user.resolve_user(root, flags.user)
        root.close()
        process["user"] = {
            "uid": found.uid, "gid": found.gid, "additionalGids": list(found.groups),
        }  # fmt: skip
    return {**container.config.raw, "process": process}
