"""Stage 1, init's half: the container's root filesystem, in init's own mount namespace.

Nothing is mounted in the host's namespace, so whatever happens to init, its mounts die with it.
The order is runc's (libcontainer/rootfs_linux.go): make the namespace private, the overlay, the
mounts of config.json in order, device nodes, links.
"""

import os

from minirun.core import places
from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError, from_os
from minirun.core.kernel import mounts
from minirun.core.rootfs import nodes, plan
from minirun.core.rootfs.inroot import Root
from minirun.oci.mounts import options, rows
from minirun.oci.mounts.over_proc import MountPoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.cgroups.base import ContainerMounts
    from minirun.oci.mounts.sources import Sources


def mount_root(config: Config, lower: "list[str]", own: str) -> Root:
    """Make root.path a mount of its own, and open it.

    `lower` are the image's layers, lowest first; with them it is an overlay, whose writable
    layer lies in the directory `own`.
    Raises OSError, MinirunError.
    """
    path = config.rootfs
    try:  # a link in place of the root filesystem is refused here (CVE-2021-29136)
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        own_root = os.path.samestat(os.fstat(fd), os.stat("/"))
        os.close(fd)
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        hint = "a directory, not a link; with layers it is only their mount point"
        raise ConfigError(f"config.json: root.path: {path}: {text}", hint) from None
    if own_root:  # its mount points would be made there
        raise ConfigError(f"config.json: root.path: {path} is the host's own root")
    if lower:
        _overlay(config, path, lower, own)
    else:
        mounts.mount(
            path, path, None, mounts.MS_BIND | mounts.MS_REC,
            why="pivot_root wants a mount point",
        )  # fmt: skip
    return Root.at(path)


def _overlay(config: Config, path: str, lower: "list[str]", own: str) -> None:
    """Mount the image's layers, read-only, below a directory that belongs to this container."""
    joined = ":".join(_escape(layer) for layer in reversed(lower))
    base = _escape(own)
    data = f"lowerdir={joined},upperdir={base}/{places.UPPER},workdir={base}/{places.WORK}"
    if "user" in config.namespaces:
        data += ",userxattr"
    if config.choices.volatile:
        data += ",volatile"  # else the kernel syncs the whole disk below when it unmounts
    if len(data) >= 4095:
        raise MinirunError(f"{len(lower)} layers do not fit into one page of mount options")
    mounts.mount(
        "overlay", path, "overlay", 0, data,
        why="the image stays untouched: what the container writes goes to upper",
    )  # fmt: skip


def _escape(path: str) -> str:
    """Escape what mount(2) and overlayfs give a meaning: backslash, comma, colon."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def fill(config: Config, root: Root, sources: "Sources | None" = None) -> None:
    """Mount what config.json lists, but cgroup file systems; then devices and links.

    `sources` are the id-mapped ones among the mounts' sources. Raises OSError, ConfigError.
    """
    listed = config.raw.get("mounts") or []
    for index, row in enumerate(listed):
        if row.get("type") not in ("cgroup", "cgroup2"):
            tree = sources.take(index) if sources else None
            try:
                rows.mount(config, root, row, f"mounts[{index}]", tree)
            except OSError as error:
                raise from_os(error, f"config.json: mounts[{index}]") from None
    dev = [row for row in listed if row["destination"] == "/dev"]
    if not any(map(rows.is_bind, dev)):  # or the nodes would be made on the host
        nodes.make(config, root, defaults=bool(dev))
    for row in dev:
        rows.finish_dev(root, row)


_ATTRIBUTES = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
"""The bits that mount(2) and mount_setattr(2) both know."""


def mount_cgroups(config: Config, root: Root, view: "ContainerMounts") -> None:
    """Mount the container's view of its cgroups where config.json asks for it. Raises OSError."""
    for index, row in enumerate(config.raw.get("mounts") or []):
        if row.get("type") in ("cgroup", "cgroup2"):
            root = MountPoints(root, row, f"mounts[{index}]")
            flags = options.parse(row.get("options") or []).flags & ~mounts.MS_RELATIME
            new = config.new_namespace("cgroup")
            for operation in _cgroup_plan(row["destination"], flags, view, new=new):
                operation.execute(root)
            if view.tmpfs and flags & mounts.MS_RDONLY:
                rows.change(root, row["destination"], options.parse(["ro"]))


def _cgroup_plan(path: str, flags: int, view: "ContainerMounts", *, new: bool) -> "plan.Plan":
    """One cgroup2; or a tmpfs with a mount for each hierarchy, and links for joint controllers.

    With a cgroup namespace of the host (not `new`), only the container's own cgroup is bound.
    """
    listed: list[plan.Operation] = [
        plan.MountFs(row.fstype, row.source, f"{path}/{row.path}", flags, row.data)
        if new
        else plan.Bind(row.directory, f"{path}/{row.path}", flags & _ATTRIBUTES, recursive=False)
        for row in view.mounts
    ]
    links = [plan.Symlink(target, f"{path}/{name}") for target, name in view.links]
    if not view.tmpfs:
        return (*listed, *links)
    below = plan.MountFs("tmpfs", "tmpfs", path, flags & ~mounts.MS_RDONLY, "mode=755")
    return (below, *listed, *links)
