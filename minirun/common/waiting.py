"""Waiting for a while: for a condition, for a descriptor, for a lock. No wait is without an end.

The end of a process is waited for by its pidfd: minirun.core.keeping.state.has_ended.
"""

from __future__ import annotations

import select
import time

from minirun.core.lazy import lazy

with lazy:  # a viewer of recordings on another system has none
    import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Awaited = TypeVar("Awaited")

_PAUSE = 0.005


def until(ready: Callable[[], Awaited], seconds: float, pause: float = _PAUSE) -> Awaited:
    """Call `ready` until it returns something true, or the time is over; return the last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := ready()) and time.monotonic() < deadline:
        time.sleep(pause)
    return answer


def readable(fd: int, deadline: float) -> bool:
    """Wait until there is something to read, or the end of it; False at the deadline.

    `deadline` is one of time.monotonic().
    """
    left = deadline - time.monotonic()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return left > 0 and bool(poll.poll(left * 1000))


def take_lock(fd: int, how: int, seconds: float) -> bool:
    """Take a lock, flock(2), within so many seconds; False if it is still another's then."""

    def taken() -> bool:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    return until(taken, seconds)
