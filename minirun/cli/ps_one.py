"""`minirun ps ID [PS OPTIONS]`: a container's processes, as runc has it.

Engines read --format json, a list of pids on the host. The table is ps(1)'s own, with the options
behind the id (`-ef` where there are none), and of its rows those of the container. Without a ps on
this machine, it is made from /proc, without options.
"""

import os
import shutil
import subprocess
import sys

from minirun.cli.flags import Parsed
from minirun.core import jsonlite, state
from minirun.core.errors import MinirunError, UsageError
from minirun.core.settings import Settings
from minirun.core.visible import clean
from minirun.engines import roots
from minirun.running import existing

FORMATS = ("table", "json")


def main(flags: Parsed, settings: Settings) -> int:
    """Print the processes of a container. Raises MinirunError, OSError."""
    container = existing.load(*roots.locate(settings, flags.args[0]))
    form, options = _split(flags)
    pids = container.cgroup.processes() if container.cgroup.exists() else []
    if form == "json":
        lines = [jsonlite.dumps(pids)]
    elif program := shutil.which("ps"):
        lines = _of_ps([program, *(options or ["-ef"])], pids)
    elif options:
        raise UsageError("there is no ps(1) here to give options to", "leave them out", 1)
    else:
        lines = _of_proc(pids)
    lines = [clean(line) for line in lines]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _split(flags: Parsed) -> tuple[str, list[str]]:
    """Return the format and ps's options; --format and `-f json` may stand behind the id too."""
    form: str = flags.format
    rest = flags.args[1:]
    options = []
    while rest:
        word = rest.pop(0)
        if word.startswith("--format="):
            form = word.partition("=")[2]
        elif word == "--format" or (word == "-f" and rest and rest[0] in FORMATS):
            form = rest.pop(0) if rest else ""
        else:
            options.append(word)
    if form not in FORMATS:
        raise UsageError(f"invalid --format {form!r}", "table or json", 1)
    return form, options


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
