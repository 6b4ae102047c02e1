"""What is stored of containers below a state root, for those that list them."""

from __future__ import annotations

import os

from minirun.core.errors import StateError
from minirun.core.keeping import state
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.state_file import DamagedRecord
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy

with lazy:
    import pwd


def records(root: str) -> list[ContainerRecord]:
    """Return the record of every container, without those that vanish while it reads.

    One that cannot be read is named on standard error; in the list it has the status "damaged".
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


def _damaged(directory: str) -> ContainerRecord:
    """Return what a list shows of a container without a record: its id, and when it was changed."""
    try:
        changed = os.stat(directory).st_mtime
    except FileNotFoundError:
        changed = 0
    return ContainerRecord(
        ociVersion=state.OCI_VERSION, id=os.path.basename(directory), status="damaged",
        pid=0, bundle="", rootfs="", annotations={},
        created=state.timestamp(changed), directory=directory,
        init=None, supervisor={"pid": 0, "start": 0, "boot": ""}, complete=False,
        cgroup_path="", systemd_cgroup=False, cgroup_version="auto",
    )  # fmt: skip


def owner(directory: str) -> str:
    """Return who made the container, by name; by number (#1000) if there is no name, as runc does.

    Empty if the container has just gone.
    """
    try:
        uid = os.stat(directory).st_uid
    except FileNotFoundError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
