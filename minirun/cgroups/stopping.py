"""Stopping what runs in a cgroup: freezing, signals to all of it, and clearing it for its removal.

A module of its own, since a container whose processes end by themselves needs none of this.
"""

from __future__ import annotations

import os
import time

from minirun.common.waiting import until
from minirun.core.errors import StateError
from minirun.core.kernel import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.cgroups.base import Cgroup

_FREEZE_ROUNDS, _FREEZE_SECONDS = 10, 0.2
_GENTLE_ROUNDS = 20


def freeze(cgroup: Cgroup) -> None:
    """Stop every process of a cgroup. Raises OSError; StateError if one does not stop.

    Version 1's kernel can miss a process that is being forked, and stays in FREEZING: so it is
    asked again from the start, as runc does. :meth:`Cgroup.set_frozen` lets them go on.
    """
    for _ in range(_FREEZE_ROUNDS):
        cgroup.set_frozen(True)
        if until(cgroup.frozen, _FREEZE_SECONDS, 0.001):
            return
        cgroup.set_frozen(False)
    raise StateError(
        f"cgroup {cgroup.path}: a process could not be frozen in 2 s",
        "one of them waits for a device or a network file system: try again",
    )


def kill(cgroup: Cgroup, signal: int = signals.SIGKILL) -> None:
    """Send `signal` to every process of a cgroup. Raises OSError.

    They are frozen while it is sent, so that none forks away and no number changes its owner. What
    was frozen before stays so, unless the signal is SIGKILL.
    """
    if not cgroup.exists() or (signal == signals.SIGKILL and cgroup.kill_at_once()):
        return
    was_frozen = cgroup.frozen()
    try:
        freeze(cgroup)
    except (OSError, StateError):
        pass  # no freezer, or it takes too long: the signal reaches most of them all the same
    _signal_each(cgroup, signal)
    if signal == signals.SIGKILL or not was_frozen:
        try:
            cgroup.set_frozen(False)
        except (OSError, StateError):
            pass  # as above, or the cgroup is gone by now


def clear(cgroup: Cgroup, seconds: float) -> None:
    """Kill all processes in a cgroup and remove it; at once if it is empty.

    Freezing waits in vain for processes that are dying already, so it is used only if killing
    one by one was not enough: a fork bomb, or a cgroup that was frozen.
    Raises StateError if processes are still in it after `seconds`; OSError.
    """
    deadline = time.monotonic() + seconds
    gentle = _GENTLE_ROUNDS
    while True:
        try:
            return cgroup.remove(0)
        except StateError:
            if time.monotonic() > deadline:
                raise
        if gentle:
            _signal_each(cgroup, signals.SIGKILL)
            gentle -= 1
        else:
            kill(cgroup)
        time.sleep(0.001)


def _signal_each(cgroup: Cgroup, signal: int) -> None:
    for pid in cgroup.processes():
        try:
            os.kill(pid, signal)
        except ProcessLookupError:
            pass
