"""Stage 5: Edits → operations → the container, whichever vendor planned them.

The half-started container is a mount namespace in which everything is mounted, and in which the
host's tree can still be seen: sources are paths of the host, destinations are resolved below a
descriptor of the container's root, and no path of the image is ever a source (CVE-2024-0132,
CVE-2025-23359; minirun.gpu.nvidia.cli.compat says what stands in for one). nvidia-container-cli
does the same work in the order of the steps. minirun mounts the libraries before all else, since
ldconfig takes longer than the rest and can start then; and where the real one allows each device in
the cgroup as it goes, minirun allows all of them in one call, which on cgroup2 is one eBPF program.
"""

import os
from itertools import groupby

from minirun.core.kernel import mounts, namespaces
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.plan import MountFs, Symlink, WriteFile
from minirun.engines import rootless
from minirun.gpu import owner
from minirun.gpu.edits import FILE, BindMount, CompatLibrary, DeviceNode, Edits, Link, Tmpfs
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.cli import planner as nvidia
from minirun.gpu.operations import BindFiles, BindHeld, BindSource, HostNode, SimulatedNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from minirun.cgroups import Cgroup
    from minirun.core.rootfs.plan import Operation
    from minirun.gpu.edits import Step
    from minirun.gpu.request import NvidiaRequest
    from minirun.gpu.vendors import Cards

    Doing = Operation | BindFiles | BindHeld | BindSource | HostNode | SimulatedNode


_ATTRIBUTES = {
    "ro": mounts.MOUNT_ATTR_RDONLY,
    "nosuid": mounts.MOUNT_ATTR_NOSUID,
    "nodev": mounts.MOUNT_ATTR_NODEV,
    "noexec": mounts.MOUNT_ATTR_NOEXEC,
}
_FILE = sum(_ATTRIBUTES[name] for name in FILE)
_TMPFS_FLAGS = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


def operations(edits: Edits, *, joined: bool = True) -> "tuple[Doing, ...]":
    """Return what will be done, in order; each can describe() itself and execute(root).

    `joined`: files that go into the same folder one after the other make one operation.
    """
    found: "list[Doing]" = []
    for folder, steps in groupby(edits.steps, _folder_of_file):
        if not folder:
            for step in steps:
                found += _operations(step, edits.driver_root)
            continue
        files = [
            (s.host_path, s.path.rpartition("/")[2]) for s in steps if isinstance(s, BindMount)
        ]
        parts = [tuple(files)] if joined else [(file,) for file in files]
        found += [BindFiles(folder, part, _FILE, edits.driver_root) for part in parts]
    return tuple(found)


def _folder_of_file(step: "Step") -> str:
    """Return the folder that a file of the driver is mounted in; empty for any other step."""
    if isinstance(step, BindMount) and step.options == FILE:
        return step.path.rpartition("/")[0]
    return ""


def _operations(step: "Step", below: str) -> "tuple[Doing, ...]":
    if isinstance(step, BindMount):
        attributes = sum(_ATTRIBUTES[name] for name in step.options)
        return (BindSource(step.host_path, step.path, attributes, below),)
    if isinstance(step, DeviceNode):
        if step.host_path:
            return (HostNode(step.host_path, step.path, step.major, step.minor, below),)
        return (SimulatedNode(step.path, step.major, step.minor, step.mode),)
    if isinstance(step, Link):
        return (Symlink(step.target, step.path),)
    if isinstance(step, CompatLibrary):
        return (BindHeld(step.fd, step.source, step.path, _FILE),)
    return _tmpfs(step)


def _tmpfs(step: Tmpfs) -> "tuple[Doing, ...]":
    why = "hides what was there"
    view = MountFs("tmpfs", "tmpfs", step.path, _TMPFS_FLAGS, f"mode={step.mode:o}", why)
    return (view, *(WriteFile(file.path, file.data, file.mode) for file in step.files))


def apply(
    edits: Edits,
    root: Root,
    cgroup: "Cgroup | None",
    ldconfig_fd: int = -1,
    belongs_to: owner.Owner = owner.ROOT,
    path: str = "",
    container: int = 0,
) -> None:
    """Put `edits` into the container whose root is `root`; `cgroup` None leaves its rules alone.

    The caller is in the container's mount namespace. `ldconfig_fd` is the host's program, opened
    outside; -1 for none, or where nothing is left to do for it. It works in the cgroups of the
    process `container`. It is waited for at the end, where the real one only starts.
    Raises GPUError, OSError.
    """
    libraries: "list[Doing]" = []
    others: "list[Doing]" = []
    for doing in operations(edits):
        (libraries if _folder(doing) in edits.library_folders else others).append(doing)
    running = None
    mask = os.umask(0)
    try:
        for doing in libraries:
            doing.execute(root)
        if ldconfig_fd >= 0:
            from minirun.gpu.nvidia.cli import (
                ldconfig,  # few need it: see minirun.core.rootfs.initlayer
            )

            folders = edits.library_folders
            running = ldconfig.start(ldconfig_fd, root, folders, belongs_to, path, container)
        for doing in others:
            if isinstance(doing, SimulatedNode) and not belongs_to.is_root:
                doing.execute_for_user_namespace(root)
            else:
                doing.execute(root)
        if cgroup is not None:
            cgroup.allow_devices(edits.device_rules())
    except BaseException:
        if running:
            running.stop()
        raise
    finally:
        os.umask(mask)
    if running:
        running.finish()


def _folder(doing: "Doing") -> str:
    """Return the folder that a file or a link is put into; empty for anything else."""
    if isinstance(doing, BindFiles):
        return doing.folder
    if isinstance(doing, (Symlink, BindHeld)):
        return doing.path.rpartition("/")[0]
    return ""


def configure(
    request: "NvidiaRequest",
    *,
    found: "Inventory | Cards",
    pid: int,
    cgroup: "Cgroup | None",
    ldconfig_fd: int,
    before: "Callable[[Edits, Root], bool]",
    undo_failure: bool = False,
) -> Edits:
    """Do all of stage 5: what nvidia-container-cli would do to the container of `pid`.

    `found` is what the host has, `ldconfig_fd` its ldconfig: all that is of the host is opened
    before entering. Afterwards this process is in the container's mount namespace for good.
    `undo_failure` is for a container whose files outlive it. `before` is called with what will be
    done and the container's root, and may refuse it; it returns whether the container has what
    ldconfig makes.
    Returns what was done. Raises GPUError, OSError.
    """
    belongs_to = owner.enter(pid) if rootless.unprivileged() else owner.container_owner(pid)
    enter(pid)
    root = Root.at(request.rootfs)
    edits = _plan(found, request, root)
    if before(edits, root):
        ldconfig_fd = -1
    rules = None if request.no_cgroups else cgroup
    owner.become(belongs_to)
    if undo_failure:
        from minirun.gpu import undo

        undo.configure(
            edits, root, rules, ldconfig_fd, request.rootfs, belongs_to=belongs_to, container=pid
        )
    else:
        apply(edits, root, rules, ldconfig_fd, belongs_to, request.rootfs, pid)
    owner.give_up(belongs_to)
    return edits


def enter(pid: int) -> None:
    """Move into the mount namespace of `pid`. Raises OSError."""
    why = "the container's mounts, before pivot_root: both trees can be seen"
    namespaces.enter(f"/proc/{pid}/ns/mnt", namespaces.CLONE_NEWNS, why=why)


def _plan(found: "Inventory | Cards", request: "NvidiaRequest", root: Root) -> Edits:
    """Let the vendor's planner make the edits. Raises GPUError, OSError."""
    if isinstance(found, Inventory):
        return nvidia.plan(found, request, nvidia.find_library_places(root, request))
    from minirun.gpu import vendors

    return vendors.plan(found, request)


def record(edits: Edits) -> "dict[str, Any]":
    """Return `edits` as they are kept in the container's edits.json."""
    return edits.as_json()
