"""`minirun ps` lists containers, as docker's does; `minirun ps ID` one container's processes.

Those of every state root in use are listed (minirun.engines.roots), so that a container that an
engine has made is found too, unless --root names one.
"""

import sys
import time
from datetime import datetime

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.cli.list import records
from minirun.core import jsonlite, state
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.core.visible import clean
from minirun.engines import roots
from minirun.show.columns import aligned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = (
    Flag(("-a", "--all"), "", "stopped containers too"),
    Flag(("-q", "--quiet"), "", "only ids"),
    Flag(("-f", "--format"), "FORMAT", "table or json", default="table"),
    HELP,
)
SUMMARY = "List containers, or the processes of one, with the options of ps(1)."
COLUMNS = ("CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "GPUS", "ENGINE")


def main(args: "list[str]", settings: Settings) -> int:
    """List containers, or with an id its processes."""
    flags = parse("ps", FLAGS, args)
    if flags.help:
        sys.stdout.write(usage("ps", "[ID [PS OPTIONS]]", SUMMARY, FLAGS))
        return 0
    if flags.format not in ("table", "json"):
        raise UsageError(f"invalid --format {flags.format!r}", "table or json", 1)
    if flags.args:
        from minirun.cli import ps_one

        return ps_one.main(flags, settings)
    found = [record for root in roots.known(settings) for record in records(root)]
    shown = [record for record in found if flags.all or record["status"] != state.STOPPED]
    if flags.quiet:
        lines = [record["id"] for record in shown]
    elif flags.format == "json":
        lines = [jsonlite.dumps([state.public(record) for record in shown])]
    else:
        rows = [COLUMNS, *(_row(record) for record in shown)]
        if not any(record.get("origin") for record in shown):
            rows = [row[:-1] for row in rows]
        lines = aligned(rows, 3)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _row(record: "dict[str, Any]") -> "tuple[str, ...]":
    command = clean(" ".join(record.get("args") or []))
    short = command if len(command) <= 30 else command[:27] + "..."
    asked = record.get("origin") or {}
    return (
        roots.short(record["id"]), clean(record.get("image") or asked.get("image") or "-"),
        f'"{short}"' if command else "-", f"{age(record['created'])} ago", _status(record),
        clean(record.get("gpus") or "-"), clean(asked.get("engine", "-")),
    )  # fmt: skip


def _status(record: "dict[str, Any]") -> str:
    status: str = record["status"]
    if status == state.RUNNING:
        return f"Up {age(record['created'])}"
    if status == state.STOPPED and "exit_status" in record:
        return f"Exited ({record['exit_status']}) {age(record['finished'])} ago"
    return status.capitalize()


def age(stamp: str) -> str:
    """Return how long ago a time stamp of ours is: 5 seconds, 3 minutes, 2 hours, 4 days."""
    then = datetime.fromisoformat(stamp[:19] + "+00:00").timestamp()
    seconds = max(0, int(time.time() - then))
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds"
