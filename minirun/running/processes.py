"""A container's processes as `minirun ps ID` shows them: ps(1)'s rows for them.

Without a ps on this machine the table is made from /proc, and takes no options.
"""

import os
import shutil
import subprocess

from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import state


def table(pids: list[int], options: list[str]) -> list[str]:
    """Return a header and a line for each of `pids`. `options` are ps's own; without any, `-ef`.

    Raises MinirunError.
    """
    if program := shutil.which("ps"):
        return _of_ps([program, *(options or ["-ef"])], pids)
    if options:
        raise UsageError("there is no ps(1) here to give options to", "leave them out", 1)
    return _of_proc(pids)


def _of_ps(argv: list[str], pids: list[int]) -> list[str]:
    """Return ps's header and its lines about `pids`. Raises MinirunError."""
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode != 0:
        text = " ".join(os.fsdecode(done.stderr or done.stdout).split())
        raise MinirunError(f"ps: exit status {done.returncode}: {text}", status=1)
    header, *rows = os.fsdecode(done.stdout).split("\n") or [""]
    columns = header.split()
    if "PID" not in columns:
        raise UsageError("couldn't find PID field in ps output", "ps options that print it", 1)
    place = columns.index("PID")
    wanted = {str(pid) for pid in pids}
    fields = {row: row.split(None, place + 1) for row in rows}
    return [header, *(row for row in rows if {*fields[row][place : place + 1]} & wanted)]


def _of_proc(pids: list[int]) -> list[str]:
    """Return a table of pid, state and command line, for those that still live."""
    lines = [f"{'PID':>8} S COMMAND"]
    for pid in pids:
        try:
            letter = state.read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0].decode()
            command = os.fsdecode(state.read_bytes(f"/proc/{pid}/cmdline"))
        except OSError:
            continue
        lines.append(f"{pid:>8} {letter} {command.replace(chr(0), ' ').strip()}")
    return lines
