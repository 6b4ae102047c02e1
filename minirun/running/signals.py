"""Signals to a command of minirun, from its start to the container's end: signal(7).

    block                 they wait: there is something to clean up, and no code yet that does it
    catch                 one ends the command as an error, which cleans up; others are ignored then
    forward_once_running  the container may run by now: if it does they are the container's
    forward               the container runs: they are the container's
    drop                  the container has ended
    queue                 they wait, and forward passes them on: nothing is to be cleaned up

What the caller has blocked or ignored counts for nothing: SIGTERM must reach a command that
waits for a hook.
"""

from __future__ import annotations

import select

from minirun.common.interrupts import ENDING, handle, ignore, raise_again
from minirun.core.errors import SIGNALLED, MinirunError
from minirun.core.kernel import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.handshake import Channel

FORWARDED = (1, 2, 3, 10, 12, 15, 18, 28, 29, 30, *range(34, 65))
"""SIGHUP, INT, QUIT, USR1, USR2, TERM, CONT, WINCH, IO, PWR and the real-time signals go on to the
container's init: systemd there ends at SIGRTMIN+3. (32 and 33 are the C library's own.)"""

_queued: list[int] = []


class Interrupted(MinirunError):
    """A signal came before the container's command ran."""


def block() -> None:
    """Let signals wait until :func:`catch`, or :func:`unblock`."""
    signals.pthread_sigmask(signals.SIG_BLOCK, ENDING)


def unblock() -> None:
    """Let signals come again, to the handlers that there are."""
    signals.pthread_sigmask(signals.SIG_UNBLOCK, ENDING)


def catch() -> None:
    """Let a signal end this command: the first one raises Interrupted (status 128 + number)."""
    raise_again(Interrupted)
    handle(ENDING, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    for each in ENDING:
        signals.signal(each, ignore)  # cleaning up is not interrupted
    raise Interrupted(f"interrupted by signal {number}", status=SIGNALLED + number)


def forward_once_running(channel: Channel, pidfd: int) -> None:
    """From now on, a signal goes to the container if its command runs by now.

    Its init has closed its end of `channel` then; its last words may still be unread.
    Before it does, the signal ends this command as an error. The command may have been running,
    and have said so, for a while when we hear of it.
    """

    def either(number: int, frame: object) -> None:
        poll = select.poll()
        poll.register(channel.read_fd, 0)
        if any(event & select.POLLHUP for _, event in poll.poll(0)):
            _pass_on(pidfd, number)
        else:
            _interrupt(number, frame)

    handle(ENDING, either)


def queue() -> None:
    """Keep signals for :func:`forward`. A mask would be inherited by what is started now.

    There is no other end then than SIGKILL, should the start hang, as with runc.
    """
    handle(FORWARDED, lambda number, frame: _queued.append(number))


def forward(pidfd: int) -> None:
    """From now on, pass signals on to the process of `pidfd`, and those that were queued."""
    handle(FORWARDED, lambda number, frame: _pass_on(pidfd, number))
    while _queued:
        _pass_on(pidfd, _queued.pop(0))


def drop() -> None:
    """From now on, pass no signal on: the container has ended."""
    handle(FORWARDED, ignore)


def _pass_on(pidfd: int, number: int) -> None:
    try:
        signals.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass
