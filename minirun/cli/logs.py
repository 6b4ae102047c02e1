"""`minirun logs`: what a container has written, as docker's command has it."""

import json
import os
import sys
import time

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.errors import UsageError
from minirun.oci import state
from minirun.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

FLAGS = (
    Flag(("-f", "--follow"), "", "wait for more until the container ends"),
    Flag(("-t", "--timestamps"), "", "show when each line was written"),
    Flag(("-n", "--tail"), "N", "only the last N lines"),
    HELP,
)


def main(args: "list[str]", settings: Settings) -> int:
    """Print a container's output: its stdout on ours, its stderr on ours."""
    flags = parse("logs", FLAGS, args, mixed=True)
    if flags.help or len(flags.args) != 1:
        sys.stdout.write(usage("logs", "ID", "Print what a container has written.", FLAGS))
        return 0 if flags.help else 1
    if flags.tail and not (flags.tail.isascii() and flags.tail.isdigit()):
        raise UsageError(f"invalid --tail {flags.tail!r}", "a number of lines", 1)
    container_id = flags.args[0]
    record = state.load(settings.root, container_id)
    path = f"{record['directory']}/log.json"
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        rows = [json.loads(line) for line in file if line.endswith("\n")]
        for row in rows[-int(flags.tail) :] if flags.tail else rows:
            _show(row, flags.timestamps)
        while flags.follow:
            ended = state.load(settings.root, container_id)["status"] == state.STOPPED
            _follow(file, flags.timestamps)
            if ended:
                break
            time.sleep(0.05)
    return 0


def _follow(file: "TextIO", timestamps: bool) -> None:
    """Show the whole lines that have come since."""
    while True:
        place = file.tell()
        line = file.readline()
        if not line.endswith("\n"):
            file.seek(place)
            return
        _show(json.loads(line), timestamps)


def _show(row: "dict[str, Any]", timestamps: bool) -> None:
    stream = sys.stderr if row["stream"] == "stderr" else sys.stdout
    stream.write((f"{row['time']} " if timestamps else "") + row["log"])
    stream.flush()
