"""A snapshot: what a container is made of at one moment, read from outside, from the kernel.

Taken while the run is held at a gate, so nothing changes while it is taken. It goes into the log as
an event, and every view of a recording can show it later. No real runtime has anything like it:
runc can be stopped only from a debugger.
"""

import os
import stat
from contextlib import closing, suppress
from typing import NotRequired, TypedDict

from minirun.cgroups import cgroup_of
from minirun.cgroups.reading import listing
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import places, state
from minirun.core.kernel import files, mountinfo
from minirun.core.rootfs.inroot import Root
from minirun.faces.inspect import processes
from minirun.faces.inspect.given import device_names


class ProcessFacts(TypedDict):
    """One process while it makes a container: proc_pid_status(5)."""

    pid: int
    name: str
    capabilities: str
    no_new_privs: NotRequired[bool]
    seccomp: NotRequired[str]
    cgroup: NotRequired[list[str]]
    descriptors: list[str]
    """Its open files: "0 /dev/pts/1", "5 …/init.fifo"."""


class Snapshot(TypedDict):
    """A container at one moment."""

    at: str
    """The boundary: "5:begin", for one."""
    namespaces: dict[str, str]
    """Kind → "mnt:[4026531841]", of init: /proc/PID/ns, namespaces(7)."""
    host_namespaces: dict[str, str]
    """The runtime's, which are the host's."""
    mounts: list[str]
    """As init sees them, "POINT FSTYPE SOURCE OPTIONS"; a point of the host's tree, which init can
    still see before pivot_root, begins with host: and its path."""
    files: list[str]
    """Of the container's own layer (what is not in the image), its /dev and its /proc/driver:
    "./dev/nvidia0 c 195:0", "./usr/bin/", "./lib64 -> usr/lib64"."""
    devices: list[str]
    """The effective rules of its cgroup: "c 195:0 rw # /dev/nvidia0"."""
    processes: dict[str, ProcessFacts]
    """Who → what it is."""


MOST_FILES = 5000
"""Of a container whose own layer is larger, the snapshot holds this many names and says so."""

_STAY = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS
_WALKED = ("/dev", "/proc/driver")


def take(container: Container, at: str, pids: dict[str, int]) -> Snapshot:
    """Return the snapshot of `container` at the boundary `at`.

    `pids` maps who → pid on the host; "init" is the one whose view counts. What is not there
    yet, or any more, is empty. Never raises for what has just gone.
    """
    init, rootfs = pids.get("init", 0), container.config.rootfs
    try:
        mounts = mountinfo.read(init) if init else []
    except OSError:
        mounts = []  # it has ended
    if rootfs not in [mount.mount_point for mount in mounts]:
        rootfs = ""  # after pivot_root it is /
    return {
        "at": at,
        "namespaces": namespaces_of(init) if init else {},
        "host_namespaces": namespaces_of(pids["runtime"]) if "runtime" in pids else {},
        "mounts": sorted(_mount(mount, rootfs) for mount in mounts),
        "files": files_of(container, f"/proc/{init}/root{rootfs}") if init else [],
        "devices": devices_of(container),
        "processes": {
            who: process(pid) for who, pid in pids.items() if os.path.exists(f"/proc/{pid}/status")
        },
    }


def namespaces_of(pid: int) -> dict[str, str]:
    """Return kind → "mnt:[4026531841]" of a process; empty if it has gone."""
    found = processes.inodes(pid)
    return {kind: f"{processes.KINDS[kind]}:[{inode}]" for kind, inode in found.items()}


def _mount(mount: mountinfo.Mount, rootfs: str) -> str:
    """Return a mount as a line, of the container's by their path in the container."""
    point = mount.mount_point
    if rootfs:
        below = point == rootfs or point.startswith(f"{rootfs}/")
        point = (point[len(rootfs) :] or "/") if below else f"host:{point}"
    return f"{point} {mount.fs_type} {mount.source} {mount.options}"


def files_of(container: Container, place: str) -> list[str]:
    """Return what is in the container's own layer, in its /dev and its /proc/driver.

    `place`: the path, on the host, of the root filesystem that init builds or lives in.
    """
    found: list[str] = []
    try:
        with closing(Root.at(place)) as root:
            for path in _WALKED:
                _walk_below(root, path, found)
    except OSError:
        return []
    upper = f"{container.directory}/{places.UPPER}"
    own = upper if container.config.layers else container.config.rootfs
    try:
        fd = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return sorted(found)
    _walk(fd, ".", found)
    kept = sorted(set(found))
    if len(kept) > MOST_FILES:
        return [*kept[:MOST_FILES], f"… and {len(kept) - MOST_FILES} more"]
    return kept


def _walk_below(root: Root, path: str, found: list[str]) -> None:
    try:
        fd = root.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    _walk(fd, f".{path}", found)


def _walk(fd: int, path: str, found: list[str]) -> None:
    """Add what is below the directory `fd`, which is closed; no link is followed.

    Each directory is opened from the top: a container chooses how deep they are nested.
    """
    try:
        waiting = [""]
        while waiting and len(found) <= 2 * MOST_FILES:
            waiting += _entries(fd, waiting.pop(), path, found)
    finally:
        os.close(fd)


def _entries(top: int, folder: str, path: str, found: list[str]) -> list[str]:
    """Add what is in one directory; return the directories in it, the last first."""
    inner: list[str] = []
    try:
        fd = files.openat2(top, folder or ".", os.O_RDONLY | os.O_DIRECTORY, _STAY)
    except OSError:
        return []  # gone, a link by now, or too deep
    try:
        for name in sorted(os.listdir(fd))[: 2 * MOST_FILES]:
            with suppress(OSError):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                here = f"{folder}/{name}" if folder else name
                found.append(f"{path}/{here}{_kind(status, name, fd)}")
                if stat.S_ISDIR(status.st_mode):
                    inner.append(here)
    finally:
        os.close(fd)
    return inner[::-1]


def _kind(status: os.stat_result, name: str, fd: int) -> str:
    """Return what tells this file from a regular one."""
    letter = stat.filemode(status.st_mode)[0]
    if letter == "l":
        return f" -> {os.readlink(name, dir_fd=fd)}"
    if letter in "cb":
        return f" {letter} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return {"d": "/", "p": "|", "s": "="}.get(letter, "")


def devices_of(container: Container) -> list[str]:
    """Return the effective device rules of the container's cgroup; empty if there is none."""
    try:
        rules = listing(cgroup_of(container).effective_device_rules(), device_names(container))
        return [" ".join(rule.split()) for rule in rules]
    except (OSError, MinirunError):
        return []


def process(pid: int) -> ProcessFacts:
    """Return what matters of a process while it makes a container."""
    status = processes.status(pid)
    return {
        "pid": pid,
        "name": status.get("Name", ""),
        "capabilities": f"0x{int(status.get('CapEff', '0'), 16):x}",
        "no_new_privs": status.get("NoNewPrivs", "") == "1",
        "seccomp": status.get("Seccomp", "0"),
        "cgroup": os.fsdecode(state.read_bytes(f"/proc/{pid}/cgroup")).rstrip("\n").split("\n"),
        "descriptors": _descriptors(pid),
    }


def _descriptors(pid: int) -> list[str]:
    found = []
    try:
        numbers = sorted(os.listdir(f"/proc/{pid}/fd"), key=int)
    except OSError:
        return []
    for number in numbers:
        try:
            found.append(f"{number} {os.readlink(f'/proc/{pid}/fd/{number}')}")
        except OSError:
            continue
    return found
