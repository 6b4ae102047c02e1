"""What strace needs: that the kernel lets it trace, and what would help if it does not.

ptrace(2), "Ptrace access mode checking" and "/proc/sys/kernel/yama/ptrace_scope".
"""

import os
from pathlib import Path

from minirun.core.errors import MinirunError

YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_SYS_PTRACE = 19  # capabilities(7): the bit of CAP_SYS_PTRACE
_NEVER, _ONLY_ROOT, _CHILDREN = 3, 2, 1
_IN_A_CONTAINER = "in a container: --cap-add SYS_PTRACE, and a seccomp profile that allows ptrace"


def check(pid: int) -> None:
    """Raise MinirunError, with what would help, if a process that runs may not be followed."""
    try:
        os.readlink(f"/proc/{pid}/exe")  # asks for the same rights, except yama's
    except FileNotFoundError:
        return  # it has ended
    except OSError:
        raise MinirunError(f"process {pid} may not be traced", "run as root", status=1) from None
    if not _privileged() and _scope() >= _CHILDREN:
        hint = f"run as root, or write 0 to {YAMA}"
        raise MinirunError(f"process {pid} may not be traced", hint, status=1)


def hint() -> str:
    """Return what would help a strace that could not follow the command that it started."""
    if _scope() >= _NEVER:
        return f"{YAMA} is 3: no process may trace another until the machine starts again"
    if _scope() == _ONLY_ROOT and not _privileged():
        return f"{YAMA} is 2: run as root"
    if "\nSeccomp:\t2" in Path("/proc/self/status").read_text():
        return _IN_A_CONTAINER
    return "it needs CAP_SYS_PTRACE: run as root"


def _scope() -> int:
    """Return how far yama restricts ptrace; 0 if the kernel runs without it."""
    try:
        return int(Path(YAMA).read_text())
    except OSError:
        return 0


def _privileged() -> bool:
    """Return True if this process has CAP_SYS_PTRACE."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.split("\nCapEff:")[1].split()[0], 16) >> _SYS_PTRACE & 1)
