"""The cgroup of one more command, for `exec`: the container's own, or one below it.

--cgroup names one: runc takes [controller:]path; on version 2 the path alone. It must exist, and a
container's own processes make it, so it is hostile: what is opened are directories of the cgroup
file system, and a path that leads out of the container's cgroup is refused.
"""

from __future__ import annotations

import os

from minirun.cgroups import from_record, hierarchies
from minirun.cgroups.base import Cgroup
from minirun.core.errors import UsageError


def open_below(cgroup: Cgroup, texts: list[str]) -> Cgroup:
    """Return the cgroup that `texts` name below `cgroup`, each for some controllers or for all.

    Raises UsageError.
    """
    record = cgroup.record()
    whole, dirs = record["path"], dict(record["dirs"])
    for text in texts:
        names, colon, path = text.rpartition(":")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in path:
            what = f"bad sub cgroup path: {path} is not a sub cgroup path"
            raise _invalid(text, what, "a path below the container's own cgroup")
        inner = "/".join(["", *parts])
        for name in names.split(",") if colon else dirs:
            if name not in dirs:
                raise _invalid(text, f"unknown controller {name}: the container has no such cgroup")
            dirs[name] = directory = record["dirs"][name] + inner
            if not os.path.isdir(directory):
                file = f"{directory}/cgroup.procs"
                raise _invalid(text, f"adding pid to {file}: no such file or directory")
        if record["version"] == 2:
            whole = record["path"] + inner
    return from_record({**record, "path": whole, "dirs": dirs})


def _invalid(text: str, what: str, hint: str = "") -> UsageError:
    return UsageError(f"invalid --cgroup {text!r}: {what}", hint)


def with_init(cgroup: Cgroup, init: int) -> Cgroup:
    """Return the cgroup below `cgroup` that process `init` is in, if `cgroup` takes no process.

    On version 2 one that hands controllers down takes none: cgroups(7), "no internal processes".
    systemd and docker, in a container, move its init before they do that. Raises OSError.
    """
    record = cgroup.record()
    if record["version"] != 2:
        return cgroup
    with open(f"{record['dirs']['']}/cgroup.subtree_control") as file:
        controllers = file.read()
    path = hierarchies.paths_of(init).get("", "") if controllers.strip() else ""
    inner = path.removeprefix(f"{record['path']}/")
    return open_below(cgroup, [inner]) if inner != path else cgroup
