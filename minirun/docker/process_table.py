"""The processes of a container as docker's `top` shows them: ps -ef's columns, read from /proc.

proc_pid_stat(5): a process's parent (field 4), terminal (7), times in ticks (14, 15), start (22).
The numbers are the host's.
"""

from __future__ import annotations

import os
import pwd
import time

from minirun.core.keeping import state

HEADER = ("UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD")
_TICKS = os.sysconf("SC_CLK_TCK")
_PTS = range(136, 144)
"""Major numbers of pseudo-terminals; 4 is the machine's consoles."""
_DAY = 86400


def rows(pids: list[int]) -> list[tuple[str, ...]]:
    """Return a row for each process that still lives, in the order of the numbers."""
    up = float(state.read_text("/proc/uptime").split()[0])
    found = (_row(pid, up) for pid in sorted(pids))
    return [row for row in found if row]


def _row(pid: int, up: float) -> tuple[str, ...] | None:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        left, _, right = state.read_bytes(f"/proc/{pid}/stat").rpartition(b")")
        command = state.read_bytes(f"/proc/{pid}/cmdline")
    except OSError:  # it has just ended
        return None
    fields = right.split()
    spent = (int(fields[11]) + int(fields[12])) // _TICKS
    age = up - int(fields[19]) / _TICKS
    words = os.fsdecode(command.rstrip(b"\0").replace(b"\0", b" "))
    name = os.fsdecode(left.partition(b"(")[2])
    share = min(99, int(100 * spent / age)) if age > 0 else 0
    return (
        _user(uid), str(pid), fields[1].decode(), str(share),
        _start(time.time() - age), _terminal(int(fields[4])), _clock(spent), words or f"[{name}]",
    )  # fmt: skip


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _start(at: float) -> str:
    """Return when it was started, as ps has it: 19:10 of today, Nov26, or the year."""
    now, then = time.localtime(), time.localtime(at)
    if now[:3] == then[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%b%d" if now[0] == then[0] else "%Y", then)


def _terminal(number: int) -> str:
    major, minor = os.major(number), os.minor(number)
    if major in _PTS:
        return f"pts/{minor + 256 * (major - _PTS[0])}"
    return f"tty{minor}" if major == 4 else "?"


def _clock(seconds: int) -> str:
    days, rest = divmod(seconds, _DAY)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text
