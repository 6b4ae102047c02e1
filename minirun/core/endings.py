"""The later life of a container: start, kill, destroy. Stages 1 to 7 are minirun.core.lifecycle's.

A module of its own, since `start`, `kill` and `delete`, which an engine calls for each container,
need none of the stages; what only one of them needs is imported there.
"""

from __future__ import annotations

import errno
import os
import select
import time

from minirun.core import events, handshake, rings
from minirun.core.container import Container
from minirun.core.errors import SIGNALLED, MinirunError, StateError, from_os
from minirun.core.handshake import Channel
from minirun.core.keeping import directories, state
from minirun.core.keeping.visible import warn
from minirun.core.kernel import signals
from minirun.core.lazy import lazy

with lazy:
    from minirun.core import extras, hooks
    from minirun.core.process import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from minirun.core.container import Extra
    from minirun.core.keeping.container_record import ContainerRecord, ProcessIdentity

PATIENCE = 10.0
"""Seconds that a killed process gets to disappear before its cgroup is removed."""
UNNOTED_ENDS = 2.0
"""Seconds within which an init ends whose maker was killed: PR_SET_PDEATHSIG, a closed FIFO."""


def start(
    container: Container, channel: Channel, on_running: Callable[[], None] | None = None
) -> None:
    """Let init become the container's command; once it has, call `on_running`.

    Raises CommandError (126, 127) if execve failed, MinirunError if init died before, OSError.
    """
    next_state, record = "", container.record._replace(status=state.RUNNING, complete=True)
    if not container.record.complete or container.record.status == state.CREATING:
        # what `create` has made says CREATED already: then no exec.fifo means running
        # written before the start: the command may fill the disk
        next_state = state.write_next(container.directory, record)
    try:
        handshake.start(container.directory)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENXIO, errno.EPIPE):  # init was killed just now
            raise
        raise StateError(f"container {container.name!r} is not waiting for a start") from None
    if (answer := channel.read_rest()).find(b"\0") != len(answer) - 1:  # more than the path
        raise command.failure_from(answer)
    if on_running:
        on_running()
    if next_state:
        state.take_next(container.directory, next_state)
        container.record = record
    if rows := container.config.hooks("poststart"):
        _poststart(container, rows)


def _poststart(container: Container, rows: list[dict[str, Any]]) -> None:
    """Run the poststart hooks. Raises HookError, and the container has ended then."""
    document = container.oci_state(state.RUNNING)
    try:
        hooks.run_all(rows, "poststart", document, container.config.bundle)
    except MinirunError:
        end(container)  # runtime.md, Lifecycle: a poststart hook that fails ends it
        raise


def kill(record: ContainerRecord, number: int) -> None:
    """Send a signal to the container's init. Raises StateError if none runs."""
    if record.status not in (state.CREATED, state.RUNNING, state.PAUSED):
        raise StateError("container not running")
    init = record.first_process()
    try:
        pidfd = os.pidfd_open(init["pid"])
    except ProcessLookupError:
        raise StateError("container not running") from None
    try:
        if not state.is_alive(init):  # the number belongs to another process by now
            raise StateError("container not running")
        signals.pidfd_send_signal(pidfd, number)
    finally:
        os.close(pidfd)


def destroy(container: Container) -> None:
    """Remove all of a container, whatever its state. Idempotent. Raises OSError, StateError."""
    end(container)
    status = container.record.exit_status
    if status is not None:
        why = "the record, which says it too, goes now, and this log stays"
        events.emit("note", "command ended", {"status": status}, why=why)
    events.close_log()
    for extra in _extras(container, "removed"):
        extra.removed()  # anonymous volumes
    at_last = _extras(container, "gone")  # its name is read while it is there
    rings.keep_log(container.settings.root, container.id)
    directories.remove(container.settings.root, container.id, lambda fd: _empty(container, fd))
    for extra in at_last:
        extra.gone()  # its name


def end(container: Container) -> None:
    """End a container: all goes but its directory, and the log there, which stays open. Idempotent.

    Raises OSError, StateError.
    """
    for extra in _extras(container, "ending"):
        extra.ending()  # --restart: its supervisor makes no other start
    if not events.log_fds():
        try:
            container.open_log()  # `delete` and `gc` go on with the container's log
        except (MinirunError, OSError):
            pass
    _await_init(container)
    record = container.record
    if state.is_alive(record.init):
        try:
            kill(record._replace(status=state.RUNNING), signals.SIGKILL)
        except (StateError, ProcessLookupError):
            pass
    clear_cgroup(container)
    reap(record.init)
    await_supervisor(record.supervisor)
    give_back(container)
    _poststop(container)


def _await_init(container: Container) -> None:
    """Wait until the process that makes the container has made init, or has failed.

    What it makes later would be left over. It is killed if it takes longer than PATIENCE.
    """
    maker, deadline = container.record.supervisor, time.monotonic() + PATIENCE
    while not container.record.init and maker["pid"] != os.getpid():
        if time.monotonic() > deadline:
            os.kill(maker["pid"], signals.SIGKILL)
        ended = state.has_ended(maker, 0.005)
        try:
            container.record = state.load(container.settings.root, container.id)
        except StateError:
            return  # it has failed, and removed what it had made
        if ended:
            return


def _empty(container: Container, fd: int) -> None:
    """Remove all that the container has written. Raises OSError."""
    try:
        directories.empty(fd)
    except PermissionError:
        if not container.unprivileged or "user" not in container.config.namespaces:
            raise
        rings.empty_directory(container, fd)


def clear_cgroup(container: Container) -> None:
    """Remove the container's cgroup, after killing what still runs in it.

    If the record does not say that the cgroup was made for this container, its processes may be
    another's: then it is removed only if it is empty. If the maker was killed before it had noted
    init, that one ends by itself, a moment later.
    """
    is_known = container.record.cgroup is not None
    try:
        container.cgroup.remove(0 if is_known or container.record.init else UNNOTED_ENDS)
    except MinirunError:  # it is not empty; or it was to be systemd's, which does not run
        if is_known:
            rings.clear_cgroup(container.cgroup, PATIENCE)


def give_back(container: Container) -> None:
    """Give back what the container has of the host besides its cgroup.

    Raises MinirunError, OSError.
    """
    for extra in _extras(container, "ended"):
        extra.ended()  # networks, /dev/shm, mounts in the host's namespace


def _extras(container: Container, point: str) -> Iterable[Extra]:
    """Return the container's extras that act at one of the points of an end."""
    extras.prepare(container, frozenset((point,)))
    return container.extras.values()


def reap(init: ProcessIdentity | None) -> None:
    """Collect a killed init if it is our child; else wait until it is gone."""
    if not init:
        return
    try:
        os.waitpid(init["pid"], 0)
    except ChildProcessError:
        state.has_ended(init, PATIENCE)


def await_supervisor(supervisor: ProcessIdentity) -> None:
    """Wait for the container's supervisor, if it is another process; kill it after PATIENCE."""
    if supervisor["pid"] != os.getpid() and not state.has_ended(supervisor, PATIENCE):
        os.kill(supervisor["pid"], signals.SIGKILL)
        state.has_ended(supervisor, PATIENCE)


def abandon(container: Container, *, is_last: bool = True, is_new: bool = True) -> None:
    """End a container that could not be made; the caller raises the error that tells why.

    What fails here, too, is a warning: it is mostly a consequence, and must not hide the reason.
    Without `is_last` it is passed over: another function further out has more to close, and tries
    again. That one removes the directory, too, unless it was there before this start (`is_new`).
    """
    try:
        (destroy if is_last and is_new else end)(container)
    except (MinirunError, OSError) as error:
        if not is_last:
            return
        why = from_os(error) if isinstance(error, OSError) else error
        name = container.name
        hint = f"minirun delete --force {name}"
        warn(f"{name}: not all of it could be removed: {why} ({hint})")


def _poststop(container: Container) -> None:
    """Run the poststop hooks, once; if one fails, warn and go on."""
    rows = container.config.hooks("poststop")
    if not rows or not container.record.init or not container.claim_poststop():
        return
    bundle, document = container.config.bundle, container.oci_state(state.STOPPED)
    cwd = bundle if os.path.isdir(bundle) else "/"  # the engine may have removed it by now
    for index, hook in enumerate(rows):
        try:
            hooks.run("poststop", index, hook, document, cwd)
        except MinirunError as error:
            warn(error.line())


def wait(pidfd: int, pid: int) -> int:
    """Wait for our child `pid` to end; return its exit status, 128 + n for signal n."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else SIGNALLED - code
