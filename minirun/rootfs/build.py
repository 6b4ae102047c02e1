"""Stage 1, init's half: the container's root filesystem, in init's own mount namespace.

Nothing is mounted in the host's namespace, so whatever happens to init, its mounts die with it.
The order is runc's (libcontainer/rootfs_linux.go): make the namespace private, the overlay, the
mounts of config.json in order, device nodes, links.
"""

import os
import stat

from minirun.errors import ConfigError, MinirunError
from minirun.kernel import files, mounts
from minirun.oci.config import Config
from minirun.rootfs import options, plan
from minirun.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.cgroups.base import ContainerMounts

DEVICES = (
    ("/dev/null", 1, 3), ("/dev/zero", 1, 5), ("/dev/full", 1, 7), ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9), ("/dev/tty", 5, 0),
)  # fmt: skip
LINKS = (
    ("/proc/self/fd", "/dev/fd"), ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"), ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
)  # fmt: skip
"""Devices and links that every container has: runtime-spec, config-linux.md, "Default Devices"."""


def private_mounts(config: Config) -> None:
    """Cut this mount namespace off from the host's: what is mounted from now on stays inside.

    Raises OSError, ConfigError.
    """
    word = config.linux.get("rootfsPropagation") or "rslave"
    flags = options.PROPAGATION.get(word)
    if flags is None:
        raise ConfigError(f"config.json: linux.rootfsPropagation: unknown value {word!r}")
    mounts.mount(
        None, "/", None, flags | mounts.MS_REC,
        why="no mount of the container may spread back to the host",
    )  # fmt: skip


def mount_root(config: Config, lower: "list[str]", own: str) -> Root:
    """Make root.path a mount of its own, and open it.

    `lower` are the image's layers, lowest first; with them it is an overlay, whose writable
    layer lies in the directory `own`.
    Raises OSError, MinirunError.
    """
    path = config.rootfs
    try:  # a link in place of the root filesystem is refused here (CVE-2021-29136)
        os.close(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        hint = "a directory, not a link; with layers it is only their mount point"
        raise ConfigError(f"config.json: root.path: {path}: {text}", hint) from None
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
    data = f"lowerdir={joined},upperdir={base}/upper,workdir={base}/work"
    if config.new_namespace("user"):
        data += ",userxattr"
    if config.volatile:
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


def fill(config: Config, root: Root) -> None:
    """Mount what config.json lists, but cgroup file systems; then devices and links.

    Raises OSError, ConfigError.
    """
    for index, row in enumerate(config.raw.get("mounts") or []):
        if row.get("type") not in ("cgroup", "cgroup2"):
            _mount_row(config, root, row, f"mounts[{index}]")
    if any(row["destination"] == "/dev" for row in config.raw.get("mounts") or []):
        make_devices(config, root)


def _mount_row(config: Config, root: Root, row: "dict[str, Any]", where: str) -> None:
    wanted = options.parse(row.get("options") or [])
    kind, path = row.get("type") or "none", row["destination"]
    if kind == "bind" or wanted.flags & mounts.MS_BIND:
        _bind_row(config, root, row, wanted, where)
        return
    if kind in ("proc", "sysfs"):
        _refuse_links(root, path, where)
    try:
        flags, data = wanted.flags, wanted.data
        plan.MountFs(kind, row.get("source") or kind, path, flags, data).execute(root)
    except OSError as error:
        if kind != "mqueue" and not (kind == "sysfs" and error.errno == 1):
            raise
        _instead(config, root, kind, path)
    if wanted.propagation or wanted.recursive:
        _change(root, path, wanted)


def _instead(config: Config, root: Root, kind: str, path: str) -> None:
    """Bind the host's sysfs or mqueue where a user namespace may not mount a new one."""
    if not config.new_namespace("user") and config.new_namespace("network"):
        raise ConfigError(f"config.json: {kind} cannot be mounted at {path}")
    source = "/sys" if kind == "sysfs" else "/dev/mqueue"
    plan.Bind(source, path, mounts.MOUNT_ATTR_RDONLY).execute(root)


def _bind_row(
    config: Config, root: Root, row: "dict[str, Any]", wanted: options.Options, where: str
) -> None:
    source = row.get("source") or ""
    if not source.startswith("/"):
        source = f"{config.bundle}/{source}"
    if not os.path.exists(source):
        raise ConfigError(f"config.json: {where}.source: {source}: no such file or directory")
    recursive = bool(wanted.flags & mounts.MS_REC) or wanted.recursive
    plan.Bind(source, row["destination"], 0, recursive).execute(root)
    if wanted.attributes or wanted.cleared or wanted.propagation:
        _change(root, row["destination"], wanted)


def _change(root: Root, path: str, wanted: options.Options) -> None:
    """Set properties and propagation of the mount that now lies at `path`."""
    fd = root.open(path)
    try:
        if wanted.attributes or wanted.cleared:
            mounts.mount_setattr(
                fd, wanted.attributes, wanted.cleared, recursive=wanted.recursive, shown=path
            )
        if wanted.propagation:
            mounts.mount(None, f"/proc/self/fd/{fd}", None, wanted.propagation, shown=path)
    finally:
        os.close(fd)


def _refuse_links(root: Root, path: str, where: str) -> None:
    """Refuse /proc and /sys behind a link of the image (CVE-2019-19921, CVE-2023-27561)."""
    try:
        resolve = files.RESOLVE_IN_ROOT | files.RESOLVE_NO_SYMLINKS
        os.close(files.openat2(root.fd, path, os.O_PATH | os.O_DIRECTORY, resolve))
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "the image has a link or a file there"
        text = f"{where}.destination: {path} is not a plain directory"
        raise ConfigError(f"config.json: {text}", hint) from error


def make_devices(config: Config, root: Root) -> None:
    """Make the default devices, those of linux.devices, and the usual links. Raises OSError."""
    nodes = [plan.MakeNode(path, "c", major, minor) for path, major, minor in DEVICES]
    for row in config.linux.get("devices") or []:
        kind = "c" if row["type"] == "u" else row["type"]
        mode = stat.S_IMODE(row.get("fileMode") or 0o666)
        nodes.append(
            plan.MakeNode(
                row["path"], kind, row.get("major", 0), row.get("minor", 0), mode,
                row.get("uid") or 0, row.get("gid") or 0,
            )
        )  # fmt: skip
    for node in {node.path: node for node in nodes}.values():
        _make_device(config, root, node)
    for target, path in LINKS:
        plan.Symlink(target, path).execute(root)


def _make_device(config: Config, root: Root, node: plan.MakeNode) -> None:
    """Make a node; in a user namespace, where mknod is denied, bind the host's own."""
    if config.new_namespace("user"):
        plan.Bind(node.path, node.path, recursive=False).execute(root)
        return
    try:
        node.execute(root)
    except FileExistsError:
        pass


def mount_cgroups(config: Config, root: Root, view: "ContainerMounts") -> None:
    """Mount the container's view of its cgroups where config.json asks for it. Raises OSError."""
    for row in config.raw.get("mounts") or []:
        if row.get("type") in ("cgroup", "cgroup2"):
            flags = options.parse(row.get("options") or []).flags & ~mounts.MS_RELATIME
            for operation in _cgroup_plan(row["destination"], flags, view):
                operation.execute(root)
            if view.tmpfs and flags & mounts.MS_RDONLY:
                _change(root, row["destination"], options.parse(["ro"]))


def _cgroup_plan(path: str, flags: int, view: "ContainerMounts") -> "plan.Plan":
    """One cgroup2; or a tmpfs with a mount for each hierarchy, and links for joint controllers."""
    rows = [
        plan.MountFs(row.fstype, row.source, f"{path}/{row.path}", flags, row.data)
        for row in view.mounts
    ]
    links = [plan.Symlink(target, f"{path}/{name}") for target, name in view.links]
    if not view.tmpfs:
        return (*rows, *links)
    below = plan.MountFs("tmpfs", "tmpfs", path, flags & ~mounts.MS_RDONLY, "mode=755")
    return (below, *rows, *links)
