"""Stage 5: Edits → operations → the container, whichever vendor planned them.

The half-started container is a mount namespace in which everything is mounted, and in which the
host's tree can still be seen: sources are paths of the host, destinations are resolved below a
descriptor of the container's root, and no path of the image is ever a source (CVE-2024-0132,
CVE-2025-23359; minirun.gpu.nvidia.cli.compat says what stands in for one). nvidia-container-cli
does the same work in the same order, ldconfig last. Where it allows each device in the cgroup as it
goes, minirun allows all of them at the end in one call, which on cgroup2 is one eBPF program.
"""

import os

from minirun.core.errors import GPUError
from minirun.core.kernel import mounts, namespaces
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.plan import MountFs, Symlink, WriteFile
from minirun.gpu import escape, owner, undo
from minirun.gpu.edits import FILE, BindMount, CompatLibrary, DeviceNode, Edits, Link, Tmpfs
from minirun.gpu.nvidia.cli import ldconfig
from minirun.gpu.operations import BindHeld, BindSource, HostNode, SimulatedNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.cgroups import Cgroup
    from minirun.cgroups.foreign import DeviceCgroup
    from minirun.gpu.edits import Step
    from minirun.gpu.operations import Doing


_ATTRIBUTES = {
    "ro": mounts.MOUNT_ATTR_RDONLY,
    "nosuid": mounts.MOUNT_ATTR_NOSUID,
    "nodev": mounts.MOUNT_ATTR_NODEV,
    "noexec": mounts.MOUNT_ATTR_NOEXEC,
}
FILE_ATTRIBUTES = sum(_ATTRIBUTES[name] for name in FILE)
"""MOUNT_ATTR_* of a file of the driver: flags 0x7 of mount(2), as the real one logs them."""
_TMPFS_FLAGS = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


def operations(edits: Edits) -> "tuple[Doing, ...]":
    """Return what will be done, in order; each can describe() itself and execute(root)."""
    return tuple(doing for step in edits.steps for doing in _operations(step, edits.driver_root))


def _operations(step: "Step", below: str) -> "tuple[Doing, ...]":
    if isinstance(step, BindMount):
        attributes = sum(_ATTRIBUTES[name] for name in step.options)
        return (BindSource(step.host_path, step.path, attributes, below),)
    if isinstance(step, DeviceNode):
        if step.host_path:
            return (HostNode(step.host_path, step.path, step.major, step.minor, below),)
        return (SimulatedNode(step.path, step.major, step.minor, step.mode or 0),)
    if isinstance(step, Link):
        return (Symlink(step.target, step.path),)
    if isinstance(step, CompatLibrary):
        return (BindHeld(step.fd, step.source, step.path, FILE_ATTRIBUTES),)
    return _tmpfs(step)


def _tmpfs(step: Tmpfs) -> "tuple[Doing, ...]":
    why = "hides what was there"
    view = MountFs("tmpfs", "tmpfs", step.path, _TMPFS_FLAGS, f"mode={step.mode:o}", why)
    return (view, *(WriteFile(file.path, file.data, file.mode) for file in step.files))


def apply(
    edits: Edits,
    root: Root,
    cgroup: "Cgroup | DeviceCgroup | None",
    ldconfig_fd: int,
    rootfs: str,
    *,
    belongs_to: owner.Owner = owner.ROOT,
    join: "Callable[[], None] | None" = None,
    tell: "Callable[[Doing | str], None]" = lambda _: None,
) -> None:
    """Put `edits` into the container whose root is `root`, all of them or none.

    The caller is in the container's mount namespace, in which `rootfs` is the root's path.
    `ldconfig_fd` is the host's program, opened outside; -1 for none. It writes as `belongs_to`, and
    `join` moves it into the container's cgroups. `cgroup` None leaves its rules alone. `tell` is
    called with each step before it is done.
    Raises GPUError, OSError; the container is as it was before then (minirun.gpu.undo).
    """
    todo = operations(edits)
    targets: "dict[str, str]" = {}
    for path in _with_folders(todo):
        if escape.escapes(root, path, targets):
            raise GPUError(f"mount error: path error: {path} resolves outside of {rootfs}")
    before = undo.Before(root, rootfs, todo, edits.library_folders)
    mask = os.umask(0)
    try:
        for doing in todo:
            tell(doing)
            if isinstance(doing, SimulatedNode) and not belongs_to.is_root:
                doing.execute_for_user_namespace(root)
            else:
                doing.execute(root)
        if ldconfig_fd >= 0:
            tell(edits.ldconfig)
            folders = edits.library_folders
            running = ldconfig.start(ldconfig_fd, root, folders, belongs_to, rootfs, join)
            _finish(running, edits.ldconfig.lstrip("@"))
        if cgroup is not None:
            cgroup.allow_devices(edits.device_rules())
    except BaseException:
        before.restore()
        raise
    finally:
        os.umask(mask)


def _with_folders(todo: "tuple[Doing, ...]") -> "list[str]":
    """Return every path that will be made or mounted on, each after the folder that it is in."""
    paths = (path for doing in todo for path in (doing.path.rpartition("/")[0], doing.path))
    return list(dict.fromkeys(paths))


def _finish(running: ldconfig.Running, program: str) -> None:
    """Wait for ldconfig. Raises GPUError in the words of the real nvidia-container-cli."""
    try:
        running.finish()
    except GPUError as error:
        text = str(error).replace("ldconfig failed", f"process {program} failed", 1)
        raise GPUError(f"ldcache error: {text}", error.hint) from None


def enter(pid: int) -> None:
    """Move into the mount namespace of `pid`. Raises OSError."""
    why = "the container's mounts, before pivot_root: both trees can be seen"
    namespaces.enter(f"/proc/{pid}/ns/mnt", namespaces.CLONE_NEWNS, why=why)
