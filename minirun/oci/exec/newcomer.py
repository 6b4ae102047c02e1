"""`exec`: giving up privileges, in two parts: before the command's process is made, and in it.

The container's processes see the new process from its first moment, and CAP_SYS_PTRACE lets them
use its privileges. So its parent, which they do not see, sets all that a child inherits: groups,
user, capabilities, working directory, and the filter of system calls. The rest, in the child, needs
no privilege, except for two things that few containers have: a filter that refuses the last steps,
if it is installed without no_new_privs, needs CAP_SYS_ADMIN; a real-time policy, which a fork may
not inherit, needs CAP_SYS_NICE.
"""

from __future__ import annotations

from minirun.core.kernel import files, libc, namespaces, process
from minirun.core.process import caps, privileges
from minirun.oci.exec import verdict
from minirun.oci.rlimits import RLIMITS
from minirun.oci.tuning import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.container import Container
    from minirun.core.handshake import Channel
    from minirun.oci.seccomp import Seccomp

_SECCOMP, _TUNING = "minirun.oci.seccomp.compiled", "minirun.oci.tuning.tuning.Tuning"
"""Their keys in Container.extras."""


def drop_outside(container: Container, sets: caps.Sets) -> None:
    """Before the child: become the container's user. Raises OSError, MinirunError."""
    privileges.leave_keyring(container)
    process.restore_signals()
    files.close_range_cloexec(3)
    for row in container.config.process.get("rlimits") or []:
        kind = RLIMITS[row["type"]]
        soft, hard = limits.getrlimit(kind)
        room = max(soft, row["soft"]), max(hard, row["hard"])
        limits.setrlimit(kind, row["type"], *room)  # raising one needs CAP_SYS_RESOURCE
    arrived = privileges.try_to_go(container.config.process["cwd"])
    privileges.become(container, sets, arrived=arrived, more=_needed(container, sets))


def filter_outside(container: Container, sets: caps.Sets, channel: Channel) -> bool:
    """Last before the child: install the filter, if it allows the calls that are still to be made.

    Return True if it was installed. Raises OSError, MinirunError.
    """
    seccomp, wanted = _seccomp(container), container.config.process
    if not seccomp or seccomp.filter.listener or seccomp.late or _TUNING in container.extras:
        return False
    calls = ["read", "close", "setsid"]
    calls += ["ioctl"] if wanted.get("terminal") else []
    calls += ["prlimit64"] if wanted.get("rlimits") else []
    clone = libc.number("clone")
    if not verdict.lets_through(seccomp.filter.bpf, clone, namespaces.CLONE_PARENT) or not all(
        verdict.lets_through(seccomp.filter.bpf, libc.number(call)) for call in calls
    ):
        return False
    seccomp.install(channel)
    sets.drop_rest()
    return True


def drop_inside(container: Container, sets: caps.Sets, channel: Channel, *, filtered: bool) -> None:
    """In the child: the rest; `filtered` is what filter_outside has returned.

    Raises OSError, MinirunError.
    """
    privileges.limit(container)
    seccomp = _seccomp(container)
    if seccomp and not filtered and (seccomp.filter.listener or not seccomp.late):
        seccomp.install(channel)
    if _needed(container, sets) and not filtered:
        sets.drop_rest()


def _seccomp(container: Container) -> Seccomp | None:
    """Return the container's filter; None if it has none."""
    found: Seccomp | None = container.extras.get(_SECCOMP)  # type: ignore[assignment]
    return found


def _needed(container: Container, sets: caps.Sets) -> int:
    """Return the bit mask of the capabilities that are kept until the end: mostly none."""
    needed = []
    seccomp = _seccomp(container)
    if seccomp and not seccomp.late:
        needed.append("CAP_SYS_ADMIN")
    if _TUNING in container.extras:
        needed.append("CAP_SYS_NICE")
    return caps.mask(needed) & sets.grantable
