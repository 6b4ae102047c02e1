"""A cell: a machine on which minirun has never been used, for one test that gives it no --root.

`pytest --defaults=half` (the default), `all` or `none` chooses the files of tests whose `minirun`
names neither a root nor a store, as a user's does. Workers run at the same time, so each such test
is in a mount namespace of its own. The store's images there are the shared ones; what is kept of
containers, of roots, networks and volumes is not there yet. A container without a named root is in
the cgroup /minirun/ID: a worker has a cgroup, the root of its cells' cgroup namespace.
"""

from __future__ import annotations

import os
import time
from binascii import crc32
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apart import apart
from layers import STORE
from minirun.cgroups import hierarchies
from minirun.core.keeping import places
from minirun.core.kernel import mountinfo, namespaces
from minirun.core.kernel import mounts as calls

CHOICES = ("all", "half", "none")
SHARED = (places.IMAGES, "layers", "blobs", places.DRIVERS, "builds")
"""The folders of the store that all cells have; what else is in there each has for itself."""


def chosen(choice: str, file: str) -> bool:
    """Return True if the tests of a file, as in a test's id, run with the defaults.

    Two files of three make half of the tests that call minirun: some have a store or host apart.
    """
    if file.startswith("tests/engines/"):
        return False  # an engine's daemon has a cell of its own, and a root that it names
    return choice == "all" or (choice == "half" and crc32(file.encode()) % 3 < 2)


class DefaultCells:
    """The cells of this process, one after the other."""

    def __init__(self) -> None:
        self._name = f"tests-{os.getpid()}"
        self._there = hierarchies.mounted()
        paths = hierarchies.paths_of("self")
        self._before = {frozenset(filter(None, key.split(","))): paths[key] for key in paths}
        for each in self._there:
            _make(each, f"{each.path}/{self._name}")
            Path(each.path, self._name, "cgroup.procs").write_text("0")
        host = os.open("/proc/thread-self/ns/cgroup", os.O_RDONLY | os.O_CLOEXEC)
        namespaces.unshare(namespaces.CLONE_NEWCGROUP)
        self._cgroup = os.open("/proc/thread-self/ns/cgroup", os.O_RDONLY | os.O_CLOEXEC)
        namespaces.setns(host, namespaces.CLONE_NEWCGROUP)
        os.close(host)
        for each in self._there:
            if each.version == 2:  # where processes are, nothing below gets a controller
                leaf = Path(each.path, self._name, "worker")
                leaf.mkdir()
                (leaf / "cgroup.procs").write_text("0")

    def close(self) -> None:
        """Go back to where this process was, with all it has started; the cgroups are removed.

        Raises OSError.
        """
        os.close(self._cgroup)
        for each in self._there:
            before = Path(f"{each.path}{self._before[frozenset(each.names)]}/cgroup.procs")
            for path, _, _ in os.walk(f"{each.path}/{self._name}", topdown=False):
                for pid in Path(path, "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):  # it has just ended
                        before.write_text(pid)
                _remove(path)

    @contextmanager
    def one(self, folder: Path) -> Iterator[None]:
        """Be in a new cell, whose own folders lie in `folder`; what a test leaves is an error."""
        shared = any(each.mount_point == "/" and each.propagation for each in mountinfo.read())
        with apart("mount", "cgroup"):
            namespaces.setns(self._cgroup, namespaces.CLONE_NEWCGROUP)
            if shared:
                calls.mount(None, "/", None, calls.MS_REC | calls.MS_SHARED)
            _mount_cgroups()
            _mount_store(folder)
            before = _there()
            yield
            deadline = time.monotonic() + 3  # what has been killed may take a moment to end
            while (left := _there() - before) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert not left, f"left behind in the cell: {sorted(left)}"


def _remove(cgroup: str) -> None:
    """Remove a cgroup that no process is in, but one perhaps that has not ended yet."""
    deadline = time.monotonic() + 3
    while True:
        try:
            return os.rmdir(cgroup)
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _make(hierarchy: hierarchies.Hierarchy, path: str) -> None:
    """Make a cgroup that processes may enter: cpuset(7) begins with no processor at all.

    Nor has a new one of version 1 any real time (sched-rt-group in the kernel's documentation).
    """
    os.mkdir(path)
    if os.path.exists(f"{path}/cpu.rt_runtime_us"):
        Path(path, "cpu.rt_runtime_us").write_text("10000")
    if "cpuset" in hierarchy.names:
        for name in ("cpuset.cpus", "cpuset.mems"):
            Path(path, name).write_text(Path(hierarchy.path, name).read_text())
    if hierarchy.version == 2:
        for name in Path(hierarchy.path, "cgroup.controllers").read_text().split():
            Path(hierarchy.path, "cgroup.subtree_control").write_text(f"+{name}")


def _mount_cgroups() -> None:
    """Mount each cgroup file system anew: its root is then the cgroup namespace's."""
    for mount in reversed(mountinfo.read(fs_type="cgroup")):
        calls.umount2(mount.mount_point, calls.MNT_DETACH)
        (each,) = hierarchies.hierarchies_of([mount])
        calls.mount("cgroup", mount.mount_point, mount.fs_type, 0, ",".join(each.names) or None)


def _mount_store(own: Path) -> None:
    """Put a new folder in the store's place, with what is SHARED."""
    own.chmod(0o755)
    for name in SHARED:
        if (path := Path(STORE, name)).is_dir():
            (own / name).mkdir(path.stat().st_mode & 0o777)
            calls.mount(str(path), str(own / name), None, calls.MS_BIND)
    calls.mount(str(own), STORE, None, calls.MS_BIND | calls.MS_REC)


def _there() -> set[str]:
    """Return what is mounted, as "ID PLACE", and the cgroups of containers, by their paths."""
    above = [Path(each.path, "minirun") for each in hierarchies.mounted()]
    cgroups = {str(path) for folder in above for path in folder.glob("*") if path.is_dir()}
    return {f"{each.mount_id} {each.mount_point}" for each in mountinfo.read()} | cgroups
