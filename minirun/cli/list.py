"""`minirun list`: runc's list of containers, from their state files alone.

`minirun ps` is the friendlier one; this one has runc's columns and words, for those who parse them.
"""

import os
import sys

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core import jsonlite, state
from minirun.core.errors import StateError, UsageError
from minirun.core.settings import Settings
from minirun.core.state_file import DamagedRecord
from minirun.core.visible import warn
from minirun.show.columns import aligned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = (
    Flag(("-f", "--format"), "FORMAT", "table or json", default="table"),
    Flag(("-q", "--quiet"), "", "only ids"),
    HELP,
)
COLUMNS = ("id", "pid", "status", "bundle", "created", "owner")
_NARROWEST, _GAP = 12, 3
"""How wide runc makes columns, and how far apart."""


def main(args: "list[str]", settings: Settings) -> int:
    """Print all containers below the state root."""
    flags = parse("list", FLAGS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("list", "", "List containers, as runc does.", FLAGS))
        return 0
    if flags.args:
        raise UsageError(f'"minirun list" needs no argument, got {len(flags.args)}', status=1)
    if flags.format not in ("table", "json"):
        raise UsageError(f"invalid --format {flags.format!r}", "table or json", 1)
    rows = [_row(record) for record in records(settings.root)]
    if flags.quiet:
        lines = [row["id"] for row in rows]
    elif flags.format == "json":
        lines = [jsonlite.dumps(rows)]
    else:
        cells = [[str(row[name]) for name in COLUMNS] for row in rows]
        lines = aligned([[name.upper() for name in COLUMNS], *cells], _GAP, _NARROWEST)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def records(root: str) -> "list[dict[str, Any]]":
    """Return the record of every container, without those that vanish meanwhile.

    One that cannot be read is said on standard error, and is in the list with the status "damaged".
    """
    found = []
    for name in state.names(root):
        try:
            found.append(state.load(root, name))
        except DamagedRecord as error:
            if error.ours:
                warn(error.line())
                found.append(_damaged(error.directory))
        except (StateError, OSError):
            continue
    return found


def _damaged(directory: str) -> "dict[str, Any]":
    """Return what a list shows of a container without a record: its id, and when it was changed."""
    try:
        changed = os.stat(directory).st_mtime
    except FileNotFoundError:
        changed = 0
    return {
        "ociVersion": state.OCI_VERSION, "id": os.path.basename(directory), "status": "damaged",
        "pid": 0, "bundle": "", "rootfs": "", "annotations": {},
        "created": state.timestamp(changed), "directory": directory,
    }  # fmt: skip


def _row(record: "dict[str, Any]") -> "dict[str, Any]":
    return state.public(record) | {"owner": _owner(record["directory"])}


def _owner(directory: str) -> str:
    """Return who made the container, by name; by number (#1000) where it has none, as runc has it.

    Empty where the container has gone meanwhile.
    """
    import pwd

    try:
        uid = os.stat(directory).st_uid
    except FileNotFoundError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
