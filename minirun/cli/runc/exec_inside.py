"""`minirun exec` once the interpreter is sealed: the process, its streams, and its end.

Where exec itself fails, runc's status is 255, and that is what engines wait for; in a container
that `minirun run IMAGE` made, or where there is none and no flag is runc's, it is docker's: 1, 126
or 127. In the same containers -i and -d are docker's too; elsewhere the caller's streams are handed
on.
"""

from __future__ import annotations

import os

from minirun.cgroups import below, cgroup_of
from minirun.cli.flags import ANY
from minirun.cli.runc.exec_flags import RUNCS, ExecFlags
from minirun.cli.words import lines_of, variables
from minirun.common import docker_record
from minirun.core import endings, events, extras
from minirun.core.config import Config
from minirun.core.container import Console, Container
from minirun.core.errors import ConfigError, MinirunError, StateError, UsageError, from_os, reason
from minirun.core.handshake import PeerDied
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import warn
from minirun.core.kernel.signals import SIGKILL, pidfd_send_signal
from minirun.core.lazy import lazy
from minirun.core.process.caps import NUMBERS
from minirun.core.rootfs.inroot import Root
from minirun.engines import roots
from minirun.oci import user, validate
from minirun.oci.exec import join
from minirun.running import handover, lookup, output, signals

with lazy:  # for a command on a terminal that its user may leave
    from minirun.oci.terminal import keys
    from minirun.running import background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


FAILED = 255
"""runc's exit status where the command could not be started."""
_MOMENT = 0.5
"""Seconds."""

_INHERITED = ("capabilities", "apparmorProfile", "selinuxLabel", "oomScoreAdj")
"""What of the container's process one of --process has, unless it says so itself."""


def run(flags: ExecFlags, settings: Settings) -> int:
    """Run the command; return its exit status. Raises MinirunError, OSError."""
    flags.takes(1 if flags.process else 2, ANY)
    container, managed = None, not flags.given & RUNCS
    try:
        container, managed = _find(flags.args[0], settings)
        return _exec(container, flags, managed)
    except (MinirunError, OSError) as caught:
        error = from_os(caught) if isinstance(caught, OSError) else caught
        # init is the last to go: it has ended just now, or does in a moment
        if (
            isinstance(caught, (OSError, PeerDied)) and container
            and state.has_ended(container.record.init, _MOMENT)
        ):  # fmt: skip
            error = _not_running(container)
        if not managed and not isinstance(error, signals.Interrupted):
            error.status = FAILED
        raise error from None


def _not_running(container: Container) -> StateError:
    return StateError(f"container {container.name} is not running", status=1)


def _find(name: str, settings: Settings) -> tuple[Container, bool]:
    """Return the container, and whether `run IMAGE` has made it: then its id may be cut short."""
    place, container_id = roots.locate(settings, name, only_made_up=True)
    container = lookup.load(place, container_id, whole=True)
    managed = docker_record.of(container.record).managed
    if container_id != name and not managed:
        raise state.no_such_container(name)
    return container, managed


def _exec(container: Container, flags: ExecFlags, managed: bool) -> int:
    status = container.record.status
    if status == state.PAUSED and not flags.ignore_paused:
        hint = "use --ignore-paused to override"
        raise StateError("cannot exec in a paused container", hint)
    at_gate = os.path.exists(f"{container.directory}/{places.GATE}")  # half-made, to be looked into
    held = at_gate and state.is_alive(container.record.init)
    if status in (state.STOPPED, state.CREATING) and not held:
        raise _not_running(container)
    container.preserve_fds = handover.preserved(flags.preserve_fds)
    if flags.pid_file != f"{container.directory}/{places.HEALTH_PID}":  # no check of its health
        container.open_log()
    events.become("exec", os.getpid())
    way = join.access(container)
    process = _process(container, flags, way, managed)
    raw = {**container.config.raw, "process": process}
    config = Config(raw, container.config.bundle, container.config.choices)
    container.config = config
    extras.prepare(container, join.POINTS)
    if flags.cgroup:
        container.cgroup = below.open_below(cgroup_of(container), flags.cgroup)
    else:
        init = container.record.first_process()
        container.cgroup = below.with_init(cgroup_of(container), init["pid"])
    if managed and not flags.console_socket:  # without -i no input; with -d no output either
        leaving = None
        output.check_input(flags.tty, flags.interactive and not flags.detach)
        if flags.tty and flags.interactive and not flags.detach and os.isatty(0):
            leaving = output.Leaving(keys.parse(flags.detach_keys), background.step_aside())
        streams = output.Streams(container, flags.interactive, flags.detach, leaving=leaving)
        streams.attachable = False
        return _run(container, config, flags, streams, way)
    return _as_runc(container, config, flags, way)


def _process(
    container: Container, flags: ExecFlags, way: join.EntryDescriptors, managed: bool
) -> dict[str, Any]:
    """Return the `process` to be run: from --process, or from the flags. Raises MinirunError."""
    if flags.process:
        try:
            raw = jsonlite.loads(state.read_text(flags.process))
        except OSError as error:
            text = reason(error)
            raise ConfigError(f"open {flags.process}: {text}") from None
        except ValueError as error:
            raise ConfigError(f"{flags.process}: {error}") from None
        process = _with_the_containers(validate.process(raw), container.config.process)
    else:
        process = _from_flags(container, flags, way, managed)
    if flags.console_socket and not process.get("terminal"):
        raise UsageError("--console-socket needs a terminal", "exec --tty, or leave it out")
    return process


def _with_the_containers(process: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a process with what it has of the container's `own`, as runc's newInitConfig does."""
    inherited = {name: own[name] for name in _INHERITED if name in own}
    umask = {name: value for name, value in own.get("user", {}).items() if name == "umask"}
    return {**inherited, **process, "user": {**umask, **process.get("user", {})}}


def _as_runc(
    container: Container, config: Config, flags: ExecFlags, way: join.EntryDescriptors
) -> int:
    """The caller's streams; a terminal of which the master end goes to the socket, or is relayed.

    Raises UsageError for a terminal whose other end no process would hold.
    """
    if flags.console_socket:
        socket = handover.connect_console(flags.console_socket)
        joined = _join(container, config, Console(socket=socket), flags, way)
        os.close(socket)
    elif config.terminal:
        if flags.detach:
            raise UsageError("a detached command with a terminal needs --console-socket")
        return _run(container, config, flags, output.Streams(container, True, False), way)
    else:
        joined = _join(container, config, Console(), flags, way)
    if flags.detach:
        return 0
    signals.forward(joined.pidfd)
    return endings.wait(joined.pidfd, joined.pid)


def _run(
    container: Container,
    config: Config,
    flags: ExecFlags,
    streams: output.Streams,
    way: join.EntryDescriptors,
) -> int:
    joined = _join(container, config, streams.console, flags, way)
    streams.close_containers_ends()
    if flags.detach:
        return 0
    signals.forward(joined.pidfd)
    return streams.relay(joined.pid, joined.pidfd)


def _join(
    container: Container,
    config: Config,
    console: Console,
    flags: ExecFlags,
    way: join.EntryDescriptors,
) -> join.Joined:
    """Start the command, and tell those who wait for its pid; if they cannot be told, it ends."""
    if not flags.detach:
        signals.queue()
    joined = join.enter(container, config, console, way)
    try:
        handover.announce(flags.pid_file, flags.pidfd_socket, joined.pid, joined.pidfd)
    except BaseException:
        pidfd_send_signal(joined.pidfd, SIGKILL)
        raise
    return joined


def _from_flags(
    container: Container, flags: ExecFlags, way: join.EntryDescriptors, managed: bool
) -> dict[str, Any]:
    """Return the process that the flags describe. Raises UsageError, MinirunError, OSError."""
    if not managed and (bad := [text for text in flags.env if "=" not in text]):
        raise UsageError(f"invalid environment variable: {bad[0]!r}", "-e NAME=VALUE")  # as runc
    process = dict(container.config.process)
    process["args"] = list(flags.args[1:])
    process["terminal"] = flags.tty
    given = [*lines_of("--env-file", flags.env_file), *flags.env]
    process["env"] = [*(process.get("env") or []), *variables(given)]
    if managed and flags.tty and not any(row.startswith("TERM=") for row in process["env"]):
        process["env"].append("TERM=xterm")  # as docker: without it top and less do not start
    if managed and flags.tty and not flags.detach:
        rows, columns = output.callers_size()  # the command may ask for it at once
        process["consoleSize"] = {"height": rows, "width": columns}
    if flags.workdir:
        if not flags.workdir.startswith("/"):
            raise UsageError(f"the working directory {flags.workdir!r} must be an absolute path")
        process["cwd"] = flags.workdir
    if flags.user:
        process["user"] = _user(container, flags.user, way, managed)
    if flags.additional_gids:
        groups = [_id("--additional-gids", text) for text in flags.additional_gids]
        old = process.get("user") or {}
        process["user"] = {**old, "additionalGids": [*old.get("additionalGids", ()), *groups]}
    if flags.cap:
        process["capabilities"] = _capabilities(process.get("capabilities") or {}, flags.cap)
    if flags.privileged:
        kinds = ("bounding", "effective", "permitted")
        process["capabilities"] = {kind: [*NUMBERS] for kind in kinds}
    if flags.no_new_privs:
        process["noNewPrivileges"] = True
    if flags.apparmor:
        process["apparmorProfile"] = flags.apparmor
    if flags.process_label:
        process["selinuxLabel"] = flags.process_label
    return process


def _user(
    container: Container, text: str, way: join.EntryDescriptors, managed: bool
) -> dict[str, Any]:
    """Find a user: numbers, as runc takes them; else, as docker does, by the image's own names."""
    if not managed and text and not text.strip("0123456789:"):
        numbers = (_id("--user", word) for word in text.split(":", 1))
        old = container.config.process.get("user") or {}
        return {**old, **dict(zip(("uid", "gid"), numbers, strict=False))}
    found = user.resolve_user(Root(way.root), text)
    added = docker_record.of(container.record).asked.get("group_add", [])
    more = user.group_ids(Root(way.root), added)
    groups = [*dict.fromkeys((found.gid, *found.groups, *more))]
    return {"uid": found.uid, "gid": found.gid, "additionalGids": groups}


def _id(flag: str, text: str) -> int:
    number = whole(text, 0, user.MAX_ID)
    if number is None:
        raise UsageError(f"invalid {flag} {text!r}", "the number of a user or group", 1)
    return number


def _capabilities(held: dict[str, Any], added: list[str]) -> dict[str, Any]:
    """Add capabilities to the bounding, effective and permitted sets.

    To the ambient set only where it has some inheritable ones: runc did so always until
    CVE-2022-29162 taught that a non-empty inheritable set is a gift to every program in there.
    """
    for name in added:
        if name not in NUMBERS:
            warn(f"--cap: {name!r} is unknown, and passed over")
    added = [name for name in added if name in NUMBERS]
    kinds = ["bounding", "effective", "permitted"]
    if held.get("inheritable"):
        kinds.append("ambient")
    return {**held, **{kind: [*(held.get(kind) or ()), *added] for kind in kinds}}
