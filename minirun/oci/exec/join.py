"""`exec`: a new process in the namespaces and the cgroup of a running container.

    caller ── fork ──▶ joiner ── clone(CLONE_PARENT) ───▶ the command
      ▲                cgroup, setns, streams,            session, limits, filter,
      │                user, capabilities                 trampoline
      └── pipe: events, pid, error ──┴──────────────────────┘

setns into a pid namespace takes effect for children only, so the joiner makes one more, as the
caller's child, and is gone. The container's processes see that child from its birth, and with
CAP_SYS_PTRACE nothing of it is hidden from them: neither its memory nor its descriptors, and they
may act as it (CVE-2016-9962). So it holds nothing that is of use to them. The interpreter has
started anew with a clean environment (minirun.oci.exec.sealed); the joiner, which they do not see,
gives up its privileges before it makes the child; the child has two pipes of the host, but no file,
and not the log: it sends its events through one of the pipes. It is not dumpable either.

What the real stack does: runc's `init` is not dumpable, and drops its privileges once it is inside.
"""

from __future__ import annotations

import errno
import os

from minirun.core import events, handshake
from minirun.core.config import Config
from minirun.core.container import Console, Container
from minirun.core.errors import MinirunError, StateError, from_os
from minirun.core.keeping import state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.kernel import mountinfo, mounts, namespaces, process, signals
from minirun.core.lazy import lazy
from minirun.core.process import barrier, caps, command, privileges, streams
from minirun.core.rootfs.inroot import Root
from minirun.oci import home
from minirun.oci.exec import newcomer, sibling
from minirun.oci.exec.channel import CallerChannel
from minirun.oci.namespaces import idmap

with lazy:
    from minirun.oci.exec import created  # a user's container that waits for `start`
    from minirun.oci.tuning import tuning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


POINTS = frozenset(
    (
        "receive", "connect", "lead_session", "limit", "before_user", "after_user",
        "before_exec",
    )
)  # fmt: skip
"""The points of minirun.core.extras at which a process becomes the container's command."""
_FULL, _ADMITTED = "FULL", "ADMITTED"
"""What is said beside PID: the cgroup has no room for a process; go on, you are in it."""
_MOMENT = 0.5
"""Seconds between the moment at which process 1 begins to exit, and its end."""


class Joined(Record):
    """A command that runs in a container: its pid and pidfd, as a child of the caller."""

    pid: int
    pidfd: int


class EntryDescriptors(Record):
    """The descriptors by which `exec` enters a container."""

    root: int
    """Of the container's root directory."""
    namespaces: tuple[tuple[int, int], ...]
    """For setns(2), in this order: a descriptor, and the kinds (CLONE_NEW*) that it is for."""


def access(container: Container) -> EntryDescriptors:
    """Open what `exec` enters a living container by. Raises StateError, OSError."""
    target = container.record.first_process()
    if container.unprivileged and container.record.status == state.CREATED:
        root, found = created.receive(container)
        kinds = sorted(found, key=lambda kind: kind != "user")  # in "user" it may enter the others
        return EntryDescriptors(
            root, tuple((found[kind], namespaces.FLAGS[kind]) for kind in kinds)
        )
    pidfd = os.pidfd_open(target["pid"])
    if not state.is_alive(target):
        raise StateError(f"container {container.name} is not running")
    points = {mount.mount_point for mount in mountinfo.read(target["pid"])}
    before_pivot = container.config.rootfs if container.config.rootfs in points else ""
    flags = sum(namespaces.FLAGS[kind] for kind in container.config.namespaces)
    root = Root.at(f"/proc/{target['pid']}/root{before_pivot}").fd
    return EntryDescriptors(root, ((pidfd, flags),))


def enter(container: Container, config: Config, console: Console, way: EntryDescriptors) -> Joined:
    """Start config.process in the container; return when it runs. Closes the descriptors of `way`.

    Raises StateError, CommandError (126, 127), OSError.
    """
    container.cgroup.prepare_join()
    if "user" in config.namespaces and not container.unprivileged:
        idmap.give_pipes(container.record.first_process()["pid"], config, console)
    if config.process.get("execCPUAffinity"):
        lazy.load("minirun.oci.tuning.tuning")  # the joiner finds no file of the host's
    try:
        try:
            return _start(container, config, console, way, late=False)
        except BlockingIOError:  # the cgroup of version 2 is full: no process is made in it
            return _start(container, config, console, way, late=True)
    finally:
        for fd in (way.root, *(fd for fd, _ in way.namespaces)):
            os.close(fd)


def _start(
    container: Container, config: Config, console: Console, way: EntryDescriptors, *, late: bool
) -> Joined:
    """Start the command by a joiner. `late`: it is made outside of the cgroup, and then moved in.

    Raises BlockingIOError if it is not `late` and there is no room in the cgroup; as `enter`.
    """
    report, report_end = os.pipe2(os.O_CLOEXEC)
    listen, answer = os.pipe2(os.O_CLOEXEC)
    channel = CallerChannel(report, answer, container.id)
    # execCPUAffinity's first CPUs are for the time before it is in the cgroup
    apart = late or config.process.get("execCPUAffinity")
    into = -1 if apart else container.cgroup.clone_fd()
    why = "on cgroup2 straight into the container's cgroup"
    try:
        joiner, _ = namespaces.clone3(0, cgroup_fd=into, why=why)
        if joiner == 0:
            os.close(answer)
            own = handshake.Channel(listen, report_end, "the caller")
            _joiner(container, config, console, way, own, inside=into >= 0, late=late)
    except BaseException:
        channel.close()
        raise
    finally:
        os.close(report_end)
        os.close(listen)
    return _follow(container, config, channel, joiner, late=late)


def _follow(
    container: Container, config: Config, channel: handshake.Channel, joiner: int, *, late: bool
) -> Joined:
    """Read messages until the process has become the command; raise the error that it sends."""
    try:
        try:
            line = channel.read_line()
        finally:
            os.waitpid(joiner, 0)
        if line == _FULL and not late:
            raise BlockingIOError(errno.EAGAIN, "the cgroup is full")
        pid = _pid_in(line)
        joined = Joined(pid, os.pidfd_open(pid))
        _admit(container, config, channel, pid, late=late)
        for extra in container.extras.values():
            extra.receive(channel, pid, joined.pidfd, state.RUNNING)
        answer = channel.read_rest()
    finally:
        channel.close()
    if answer and answer.find(b"\0") != len(answer) - 1:  # more than the path
        os.waitpid(pid, 0)
        raise command.failure_from(answer)
    return joined


def _pid_in(line: str) -> int:
    """Return the pid that the joiner tells. Raises MinirunError: what it says in its place."""
    word, _, rest = line.partition(" ")
    if not line:
        raise handshake.PeerDied("the joiner died before it said PID")
    pid = whole(rest)
    if word != "PID" or pid is None:
        raise handshake.error_from(line)
    return pid


def _admit(
    container: Container, config: Config, channel: handshake.Channel, pid: int, *, late: bool
) -> None:
    """Move the command's process into what of the cgroup the joiner kept out of; let it go on.

    At a limit of processes fork(2) fails, and a move does not. Raises OSError, ConfigError.
    """
    try:
        container.cgroup.admit(pid, whole=late)
        if late:
            _last_cpus(config, pid)
        channel.say(_ADMITTED)
    except (ProcessLookupError, handshake.PeerDied):
        pass  # it was killed, as by the end of the container: the caller sees how it ended
    except BaseException:
        os.kill(pid, signals.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _joiner(
    container: Container,
    config: Config,
    console: Console,
    way: EntryDescriptors,
    channel: handshake.Channel,
    *,
    inside: bool,
    late: bool,
) -> NoReturn:
    """In the joiner: enter cgroup and namespaces, make the command's process, report its pid, exit.

    `inside`: it was cloned into the container's cgroup of cgroup2. `late`: it stays outside.
    """
    name = container.name  # while its path is the host's
    try:
        events.become("exec", os.getpid())
        events.to_pipe(channel.write_fd)
        process.prctl(process.PR_SET_DUMPABLE, 0)
        process.become_named("minirun:exec")
        if (score := config.process.get("oomScoreAdj")) is not None:
            state.write("/proc/self/oom_score_adj", str(score))  # the caller may have its own
        _move(container, config, cloned=inside, late=late)
        container.cgroup.close()
        ends = {channel.read_fd, channel.write_fd, *range(container.preserve_fds + 3)}
        barrier.close_imports()
        sibling.close_all_but({*console, way.root, *(fd for fd, _ in way.namespaces), *ends})
        # Later the container's /proc, in which the joiner has no pid, would be needed.
        entries = home.added(config.process.get("env") or [], config.process, Root(way.root))
        config = container.config = config.with_variables(entries)
        _enter(container, config, way)
        sets, memfd = _prepare(container, config, console)
        _make_sibling(container, sets, channel, memfd, ends)
        os._exit(0)
    except BlockingIOError as error:
        if late:
            channel.fail(from_os(error))
        else:
            channel.say(_FULL)
    except BaseException as error:
        if isinstance(error, OSError) and _has_ended(container, error):
            error = StateError(f"container {name} is not running")
        channel.fail(_as_error(error))
    finally:
        os._exit(1)


def _make_sibling(
    container: Container, sets: caps.Sets, channel: handshake.Channel, memfd: int, ends: set[int]
) -> None:
    """In the joiner: make the command's process, and report its pid to the caller and to itself."""
    outside, name = os.pipe2(os.O_CLOEXEC)
    sibling.close_all_but({*ends, memfd, outside, name})
    process.prctl(process.PR_SET_DUMPABLE, 0, why="setuid may have changed it")
    filtered = newcomer.filter_outside(container, sets, channel)
    pid = sibling.clone_sibling(why="the caller's child, not ours")
    if pid == 0:
        os.close(name)
        events.become("exec", int(os.read(outside, 16)))  # its pid on the host, for the log
        os.close(outside)
        if channel.read_line() != _ADMITTED:
            os._exit(1)  # the caller has died
        _command(container, sets, channel, memfd, filtered=filtered)
    os.write(channel.write_fd, f"PID {pid}\n".encode())
    os.write(name, str(pid).encode())  # last: from now on the child writes into the same pipe


def _enter(container: Container, config: Config, way: EntryDescriptors) -> None:
    """Enter the container's namespaces, and its root filesystem. Raises OSError."""
    for fd, kinds in way.namespaces:
        namespaces.setns(fd, kinds, why="into the container's namespaces")
    if "user" in config.namespaces:
        privileges.become_user({}, denied=container.record.groups_denied)
        process.prctl(process.PR_SET_DUMPABLE, 0)
    os.fchdir(way.root)
    if not os.path.samestat(os.stat("."), os.stat("/")):
        mounts.chroot(".", why="where pivot_root will lead to, or chroot has led")


def _prepare(container: Container, config: Config, console: Console) -> tuple[caps.Sets, int]:
    """Set what a child inherits: streams, privileges.

    Return the capabilities that it is granted, and the trampoline. Raises OSError, MinirunError.
    """
    root = Root.at("/")
    streams.connect(container, console, root, console_node=False)
    root.close()
    memfd = command.trampoline_for(container.preserve_fds)
    sets = caps.Sets(config.process.get("capabilities") or {}, caps.held())
    newcomer.drop_outside(container, sets)
    return sets, memfd


def _move(container: Container, config: Config, *, cloned: bool, late: bool) -> None:
    """Move into the container's cgroup, on the CPUs of execCPUAffinity before and after.

    But not into version 1's pids, where the limit counts what is made: `_admit` does that.
    """
    if config.process.get("execCPUAffinity"):
        tuning.affinity(config.process, "initial")
    if not late:
        container.cgroup.join(cloned=cloned, counted=False)
        _last_cpus(config)


def _last_cpus(config: Config, pid: int = 0) -> None:
    """Give a process the CPUs that it has in the cgroup."""
    if config.process.get("execCPUAffinity"):
        tuning.affinity(config.process, "final", pid)
    else:
        os.sched_setaffinity(pid, range(8192))  # as init: the caller's taskset(1) stays outside


def _command(
    container: Container,
    sets: caps.Sets,
    channel: handshake.Channel,
    memfd: int,
    *,
    filtered: bool,
) -> NoReturn:
    """In the command's process, which the container sees: the last steps."""
    config = container.config
    try:
        streams.lead_session(container)
        newcomer.drop_inside(container, sets, channel, filtered=filtered)
        target = command.find(config.process["args"][0], config.environment)
        for extra in container.extras.values():
            extra.before_exec()
        command.execute(config, memfd, container.preserve_fds, channel.write_fd, target, None)
    except BaseException as error:
        channel.fail(_as_error(error))
    finally:
        os._exit(1)


def _has_ended(container: Container, error: OSError) -> bool:
    """Return True if `error` came up because the container has just ended.

    Then setns says ESRCH, the file of a cgroup ENODEV, and clone ENOMEM as soon as process 1 of the
    pid namespace begins to exit: pid_namespaces(7).
    """
    if error.errno != errno.ENOMEM:
        return error.errno in (errno.ESRCH, errno.ENODEV)
    try:
        return state.has_ended(container.record.first_process(), _MOMENT)
    except OSError:  # the container's seccomp filter
        return False


def _as_error(error: BaseException) -> MinirunError:
    if isinstance(error, MinirunError):
        return error
    if isinstance(error, OSError):
        return from_os(error)
    events.emit("note", "exec failed", {"error": repr(error)}, ret=-1)
    return MinirunError(f"exec: {type(error).__name__}: {error}")
