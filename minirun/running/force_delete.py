"""`delete --force` of a container whose record cannot be read: what can be ended without it.

What is certainly this container's is found by its name: the cgroup that minirun names after it,
or one of its config.json's that has its id in its name; the mounts below its directory; and the
directory, if only files of minirun are in it. The caller is told what was not
done: without the record the hooks do not run, and a cgroup of another name is not touched.
"""

import os

from minirun import cgroups
from minirun.cgroups import Cgroup, stopping
from minirun.common import naming
from minirun.core.errors import ConfigError, MinirunError, StateError
from minirun.core.keeping import directories, state
from minirun.core.keeping import state_file as records
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.kernel import mountinfo, mounts
from minirun.running import kept_logs, lookup, own_cgroup

_PATIENCE = 10.0
"""Seconds that killed processes get to disappear."""
_SHORT_ID = 12
"""So many digits of an id that an engine made up name one container."""


def salvage(settings: Settings, container_id: str, damage: records.DamagedRecord) -> str:
    """End what is left of a container; return what was done, and what was not, as one line.

    Raises StateError if something cannot be ended, OSError.
    """
    if not damage.ours:
        raise damage
    try:
        saved = lookup.saved_config(damage.directory, whole=False) or {}
    except ConfigError:
        saved = {}
    name = state.name_of(damage.directory)
    named = str((saved.get("linux") or {}).get("cgroupsPath") or "")
    is_certain = _has_id(named, container_id)
    if named and not is_certain:
        _refuse_occupied(name, named)
    roots = {settings.root, os.path.realpath(settings.root)}  # it may have been made by a link
    names = [own_cgroup(root, container_id, systemd=on) for root in roots for on in (False, True)]
    found = [group for name in (*names, *[named] * is_certain) for group in _cgroups(name)]
    killed = sum(map(_end, found))
    _unmount(damage.directory)
    kept_logs.keep(settings.root, container_id)
    directories.remove(settings.root, container_id, _empty)
    naming.give_back(settings.root, name, container_id)
    done = f"{killed} processes killed, no hooks run"
    return f"{name}: removed without its record ({damage.reason}): {done}"


def _has_id(path: str, container_id: str) -> bool:
    """Return True if the last part of a cgroup's path has the container's id in it."""
    last = path.replace(":", "/").rstrip("/").rpartition("/")[2]
    return last == container_id or (len(container_id) >= _SHORT_ID and container_id in last)


def _refuse_occupied(name: str, named: str) -> None:
    """Raise StateError if a cgroup that may be another's by now has processes in it."""
    pids = {pid for group in _cgroups(named) for pid in group.processes()}
    if pids:
        text = f"{name}: its record is damaged, and whose cgroup {named} is, is not sure"
        left = f"it is left, with {len(pids)} processes such as {min(pids)}"
        raise StateError(f"{text}: {left}", "kill them, then delete the container again")


def _cgroups(name: str) -> list[Cgroup]:
    """Return the cgroups that a linux.cgroupsPath names, of both versions, if they exist."""
    found = []
    for version in ("v1", "v2"):
        try:
            if ":" in name:
                group = cgroups.open_scope(name, version, of_user=unprivileged())
            else:
                group = cgroups.open_cgroup(name, version)
        except MinirunError:
            continue  # no such version here, no systemd, or no path
        if group.exists():
            found.append(group)
    return found


def _end(group: Cgroup) -> int:
    """Kill all that is in a cgroup and remove it; return how many processes there were."""
    killed = len(group.processes())
    stopping.clear(group, _PATIENCE)
    return killed


def _unmount(directory: str) -> None:
    """Unmount what is mounted below a container's directory, the last mount first."""
    for mount in reversed(mountinfo.read()):
        place = mount.mount_point
        if place.startswith(f"{directory}/"):
            mounts.detach(place, why="left behind")


def _empty(fd: int) -> None:
    """Remove what is in a container's directory, if it is still what minirun makes."""
    if not records.is_made_by_minirun(fd):
        raise StateError("the container's directory was replaced meanwhile")
    directories.empty(fd)
