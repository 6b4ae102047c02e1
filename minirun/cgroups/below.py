"""`exec --cgroup`: a cgroup below the container's own, for one more command.

runc takes [controller:]path; on version 2 the path alone. It must exist, and a container's own
processes make it, so it is hostile: what is opened are directories of the cgroup file system, and
a path that leads out of the container's cgroup is refused.
"""

import os

from minirun.cgroups import from_record
from minirun.cgroups.base import Cgroup
from minirun.core.errors import UsageError


def open_below(cgroup: Cgroup, text: str) -> Cgroup:
    """Return the cgroup that `text` names below `cgroup`. Raises UsageError."""
    names, colon, path = text.rpartition(":")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise UsageError(f"invalid --cgroup {text!r}", "a path below the container's own cgroup")
    record = cgroup.record()
    wanted = names.split(",") if colon else list(record["dirs"])
    if unknown := [name for name in wanted if name not in record["dirs"]]:
        raise UsageError(f"invalid --cgroup {text!r}: the container has no {unknown[0]} cgroup")
    inner = "/".join(["", *parts])
    dirs = {name: at + (inner if name in wanted else "") for name, at in record["dirs"].items()}
    for directory in dirs.values():
        if not os.path.isdir(directory):
            raise UsageError(f"invalid --cgroup {text!r}: {directory}: no such cgroup")
    whole = record["path"] + (inner if record["version"] == 2 else "")
    return from_record({**record, "path": whole, "dirs": dirs})
