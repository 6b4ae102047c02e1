"""Processes that serve one container from outside of it: minirun:ports, minirun:names.

Each is a copy of the runtime, with a user of its own, no capability, and no file that it can write.
It ends with init, whose pidfd it watches; if it is killed, nothing of it is left.

The real stack: docker-proxy is a process of root's for each published port; docker's resolver is a
part of dockerd; podman's, aardvark-dns, is one process of root's for all networks.
"""

from __future__ import annotations

import os
import select
import sys

from minirun.core import events
from minirun.core.errors import MinirunError, from_os
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import unprivileged
from minirun.core.kernel import namespaces, process, signals
from minirun.core.lazy import lazy
from minirun.net.network import NetworkError

with lazy:
    import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from minirun.core.keeping.container_record import ProcessIdentity

_FIRST_USER = 0xF000_0000
"""A helper runs as the user of this number plus its pid: no other process has that id, so no other
can end it, and take its place. Users, and the ranges of subuid(5), lie far below."""
_READ_ALL = 1 << 2
"""CAP_DAC_READ_SEARCH, capabilities(7)."""
_READY, _LONGEST = b"1", 4096
_PATIENCE = 2000
"""Milliseconds for the end of a process that was killed."""


class StartingHelper(Record):
    """A helper that was started, and may not serve yet."""

    name: str
    pid: int
    ready: int
    """The end of a pipe, to read: one byte when it serves, or its error in words."""


def begin(
    name: str, init_pid: int, prepare: Callable[[], Iterable[int]], serve: Callable[[int], object],
    why: str, *, reads: bool = False,
) -> StartingHelper:  # fmt: skip
    """Start a helper of the container with init `init_pid`.

    `prepare` has all rights, and returns the descriptors to keep. `serve` gets init's pidfd, and
    has no rights; with `reads` it may read any file, as root may, until :func:`give_up`.
    Raises OSError.
    """
    pidfd = os.pidfd_open(init_pid)
    ready, written = os.pipe2(os.O_CLOEXEC)
    pid, child = namespaces.clone3(0, why=why)
    if pid == 0:
        try:
            os.close(ready)
            _become(name)
            keep = {pidfd, written, *prepare(), *(_of_finders() if reads else ())}
            _drop(_READ_ALL if reads else 0)
            events.close_log()
            _close_all_but(keep)
            os.write(written, _READY)
            os.close(written)
            serve(pidfd)
        except (MinirunError, OSError) as error:
            text = (from_os(error) if isinstance(error, OSError) else error).line()
            os.write(written, text.encode()[:_LONGEST])
        finally:
            os._exit(0)
    for fd in (written, pidfd, child):
        os.close(fd)
    return StartingHelper(name, pid, ready)


def ready(begun: StartingHelper) -> ProcessIdentity:
    """Wait until a helper serves; return what it is known by. Raises NetworkError, OSError."""
    try:
        said = os.read(begun.ready, _LONGEST)
    finally:
        os.close(begun.ready)
    if said != _READY:  # its error, or its end
        _reap(begun.pid)
        why = f": {said.decode(errors='replace')}" if said else ""
        raise NetworkError(f"the process {begun.name} did not start{why}")
    return state.identity(begun.pid)


def _become(name: str) -> None:
    """Be a process of its own, away from the caller's terminal and folder. Raises OSError."""
    events.become("runtime", int(os.readlink("/proc/self")))
    process.become_named(name)
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)


def _drop(kept: int) -> None:
    """Be a user of its own, with no capability but `kept`, who can write no file. Raises OSError.

    In a user namespace there may be no other ids: there the user stays.
    """
    if not unprivileged():
        user = _FIRST_USER + os.getpid()
        process.prctl(process.PR_SET_KEEPCAPS, 1)
        process.setgroups([])
        process.setgid(user)
        process.setuid(user)
    process.capset(kept, kept, 0)
    process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _of_finders() -> list[int]:
    """Return the descriptor of the launcher's file of code, if it is open: minirun.fast."""
    return [finder.fd for finder in sys.meta_path if hasattr(finder, "fd")]


def give_up() -> None:
    """Drop the right to read any file. Raises OSError."""
    process.capset(0, 0, 0)


def _close_all_but(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:  # that of the listing
                pass


def release(helper: ProcessIdentity | None) -> None:
    """End a helper, and wait for its end. Raises OSError."""
    if not helper or not state.is_alive(helper):
        return
    try:
        fd = os.pidfd_open(helper["pid"])
    except ProcessLookupError:
        return
    try:
        if state.is_alive(helper):
            signals.pidfd_send_signal(fd, 9)
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll(_PATIENCE)
    finally:
        os.close(fd)
    _reap(helper["pid"])


def _reap(pid: int) -> None:
    """Take the status of a helper that has ended, if this process is its parent."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
