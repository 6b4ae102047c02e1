"""Stage 1, init's half: one entry of config.json's `mounts`: a new file system, or a bind mount.

What the spec says: runtime-spec, config.md, "Mounts" and "Linux mount options": an entry with bind
or rbind among its options is a bind mount, whatever its type. Words that are no option belong to
the file system; a bind mount makes none, and passes them over.

What may be mounted over a container's /proc: procfs at /proc itself, and lxcfs' files below it.
Runtime and command trust what /proc says and obeys: a mount over /proc/self/attr or /proc/sys makes
a write go elsewhere (CVE-2019-16884, CVE-2025-52881), one over /proc/1 lies to every monitor. runc
1.3 has the same rule (libcontainer/rootfs_linux.go). lxcfs(1) shows a container numbers of its own
in a few files; they are mounted over the kernel's.
"""

from __future__ import annotations

import errno
import os

from minirun.core.config import Config
from minirun.core.errors import ConfigError, reason
from minirun.core.kernel import files, mounts
from minirun.core.rootfs import mount_options, operations
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from minirun.core.container import Extra
    from minirun.core.rootfs.mount_options import MountOptions

_LXCFS = (
    "/proc/cpuinfo", "/proc/diskstats", "/proc/loadavg", "/proc/meminfo", "/proc/slabinfo",
    "/proc/stat", "/proc/swaps", "/proc/uptime", "/proc/sys/crypto/fips_enabled",
    "/proc/sys/kernel/ns_last_pid",
)  # fmt: skip


class MountPoints(Root):
    """A container's root in which no mount point can be opened that lies over or below /proc.

    What counts is the place that a path leads to, through links and "..": each directory and file
    is checked by its descriptor, which is the one that is mounted on or made in.
    """

    def __init__(self, root: Root, row: dict[str, Any], where: str) -> None:
        """`row` is an entry of config.json's `mounts`, and `where` its path in config.json."""
        super().__init__(root.fd)
        self._where = where
        self._path: str = row["destination"]
        self._is_procfs = row.get("type") == "proc"
        self._above = _path_of(root.fd).rstrip("/")

    def allow(self, source_fd: int) -> None:
        """Allow /proc as mount point if the source of the bind mount is procfs. Raises OSError."""
        self._is_procfs = files.filesystem_magic(source_fd) == files.PROC_SUPER_MAGIC

    def open(self, path: str, flags: int = os.O_PATH, mode: int = 0) -> int:
        """Open `path` inside the root. Raises ConfigError if it leads over or below /proc."""
        try:
            fd = super().open(path, flags, mode)
        except NotADirectoryError:
            os.close(self._checked(super().open(path)))
            raise
        return self._checked(fd)

    def _checked(self, fd: int) -> int:
        """Return `fd`, unless it lies over /proc and is not procfs there. Raises ConfigError."""
        place = _path_of(fd).removeprefix(self._above)
        over = place == "/proc" and not self._is_procfs
        if over or (place.startswith("/proc/") and place not in _LXCFS):
            os.close(fd)
            raise ConfigError(
                f"config.json: {self._where}.destination: {self._path} lies over {place}",
                "only procfs may be mounted at /proc, and only files that lxcfs knows below it",
            )
        return fd


def _path_of(fd: int) -> str:
    """Return the path of an open file, as init sees it before pivot_root: /proc is the host's."""
    return os.readlink(f"/proc/self/fd/{fd}")


def mount(
    config: Config, root: Root, row: dict[str, Any], where: str, extras: Sequence[Extra] = ()
) -> None:
    """Mount what an entry names. `extras` may have its source, and copy what was there before.

    Raises OSError; ConfigError, which names the entry as `where`.
    """
    options = mount_options.parse(row.get("options") or [])
    points = MountPoints(root, row, where)
    path: str = row["destination"]
    if row.get("type") == "tmpfs" and not is_bind(row):  # what is there now has the mode
        options = options._replace(data=_with_mode(points, path, options.data))
    for extra in extras:
        extra.before_mount(points, row, where)  # tmpcopyup, a volume that is to be filled
    if is_bind(row):
        _bind(config, points, row, where, options, extras)
    else:
        _mount_new(config, points, row, where, options)
        options = options._replace(set=0, clear=0)  # mount(2) has set those
    hold_top(config, root, path)
    for extra in extras:
        extra.after_mount(points, row)  # these two again
    change(points, path, options, bind=is_bind(row))


def _mount_new(
    config: Config, root: Root, row: dict[str, Any], where: str, options: MountOptions
) -> None:
    """Mount a new file system, such as proc, tmpfs, sysfs. Raises OSError, ConfigError."""
    kind, path = row.get("type") or "none", row["destination"]
    if kind in ("proc", "sysfs"):
        _refuse_links(root, path, where)
    late = kind == "tmpfs" or is_at_dev(row)  # to be filled first; read-only in stage 7
    flags = options.flags & ~mounts.MS_RDONLY if late else options.flags
    source, data = row.get("source") or kind, options.data
    try:
        operations.MountFs(kind, source, path, flags, data).execute(root)
    except OSError as error:
        if kind != "mqueue" and not (kind == "sysfs" and error.errno == errno.EPERM):
            raise
        _instead(config, root, kind, path)


def _bind(
    config: Config,
    root: MountPoints,
    row: dict[str, Any],
    where: str,
    options: MountOptions,
    extras: Sequence[Extra],
) -> None:
    """Bind a file or directory of the host. Raises OSError, ConfigError."""
    path = row["destination"]
    trees = [tree for extra in extras if (tree := extra.source(where)) is not None]
    if trees:
        root.allow(trees[0])
        operations.attach(root, trees[0], path)
        return
    fd = open_source(config, row, where)
    try:
        root.allow(fd)
        recursive = bool(options.flags & mounts.MS_REC)
        operations.bind_fd(root, fd, row["source"], path, recursive=recursive)
    finally:
        os.close(fd)


def open_source(config: Config, row: dict[str, Any], where: str) -> int:
    """Open what an entry binds, with O_PATH: what is mounted then is what was looked up.

    A path below a volume's root leads through what containers have written there: it stays inside.
    Raises ConfigError, OSError.
    """
    fd = os.open(source_of(config, row, where), os.O_PATH | os.O_CLOEXEC)
    inner = config.choices.subpaths.get(row["destination"])
    if inner is None:
        return fd
    try:
        return Root(fd).open(inner)
    except OSError as error:
        what = reason(error)
        text = f"config.json: {where}: volume-subpath {inner!r} of the volume: {what}"
        raise ConfigError(text, "a path that is there, below the volume's root") from None
    finally:
        os.close(fd)


def source_of(config: Config, row: dict[str, Any], where: str) -> str:
    """Return the path on the host that an entry binds. Raises ConfigError if it cannot be found."""
    source: str = row.get("source") or ""
    if not source.startswith("/"):
        source = f"{config.bundle}/{source}"
    try:
        os.stat(source)
    except OSError as error:  # EACCES, too: the caller may have no root
        what = reason(error)
        raise ConfigError(f"config.json: {where}.source: {source}: {what}") from None
    return source


def is_bind(row: dict[str, Any]) -> bool:
    """Return True if an entry of `mounts` mounts a file or directory of the host."""
    words = row.get("options") or ()
    return row.get("type") == "bind" or "bind" in words or "rbind" in words


def is_at_dev(row: dict[str, Any]) -> bool:
    """Return True if an entry of `mounts` lies at /dev, also by way of "..": /dev/, /x/../dev."""
    destination: str = row["destination"]
    return os.path.normpath(destination).lstrip("/") == "dev"


def as_shell(row: dict[str, Any]) -> str:
    """Return an entry of `mounts` as a command line of mount(8)."""
    kind, words = row.get("type") or "none", ",".join(row.get("options") or ())
    start = "mount" if is_bind(row) else f"mount -t {kind}"
    return f"{start} {row.get('source') or kind} {row['destination']} -o {words or 'defaults'}"


def hold_top(config: Config, root: Root, path: str) -> None:
    """After a mount at / itself, make `root` refer to that mount, not to what it covers."""
    if not os.path.normpath(path).strip("/"):
        top = Root.at(config.rootfs)
        os.dup2(top.fd, root.fd, inheritable=False)
        top.close()


def _with_mode(root: Root, path: str, data: str) -> str:
    """Return a tmpfs' options: without mode= it has that of the directory below, as with runc.

    Where nothing is there yet it keeps its own, 1777: any user of the container can write in it.
    """
    if "mode=" in data:
        return data
    try:
        fd = root.open(path)
    except FileNotFoundError:
        return data
    mode = os.fstat(fd).st_mode & 0o7777
    os.close(fd)
    return f"{data},mode={mode:o}".lstrip(",")


def _instead(config: Config, root: Root, kind: str, path: str) -> None:
    """Bind the host's sysfs or mqueue if a user namespace may not mount a new one."""
    if not config.new_namespace("user") and config.new_namespace("network"):
        raise ConfigError(f"config.json: {kind} cannot be mounted at {path}")
    source = "/sys" if kind == "sysfs" else "/dev/mqueue"
    operations.Bind(source, path, mounts.MOUNT_ATTR_RDONLY).execute(root)


def change(root: Root, path: str, wanted: MountOptions, *, bind: bool = False) -> None:
    """Set properties and propagation of the mount that now lies at `path`. Raises OSError."""
    top = wanted.of_bind(locked=False) if bind else (wanted.set, wanted.clear)
    if not any((*top, wanted.set_all, wanted.clear_all, *wanted.propagation)):
        return
    fd = root.open(path)
    try:
        if bind:
            set_properties(fd, wanted, path)
        else:
            _set(fd, top, wanted, path)
        for kind in wanted.propagation:
            mounts.mount(None, f"/proc/self/fd/{fd}", None, kind, shown=path)
    finally:
        os.close(fd)


def set_properties(fd: int, wanted: MountOptions, path: str, *, locked: bool = False) -> None:
    """Set the properties of a bind mount that is open as `fd`, and of the tree below it.

    `path` is where it lies, or will lie; `locked`: see MountOptions.of_bind. Raises OSError.
    """
    try:
        _set(fd, wanted.of_bind(locked=locked), wanted, path)
    except PermissionError:
        if locked:
            raise
        _set(fd, wanted.of_bind(locked=True), wanted, path)


def _set(fd: int, top: tuple[int, int], wanted: MountOptions, path: str) -> None:
    """Set and clear MOUNT_ATTR_* of one mount, and those of the tree below it. Raises OSError."""
    tree = (wanted.set_all, wanted.clear_all)
    if any(top):
        mounts.mount_setattr(fd, *top, shown=path)
    if any(tree):
        mounts.mount_setattr(fd, *tree, recursive=True, shown=path)


def _refuse_links(root: Root, path: str, where: str) -> None:
    """Refuse /proc and /sys behind a link of the image (CVE-2019-19921, CVE-2023-27561)."""
    try:
        resolve = files.RESOLVE_IN_ROOT | files.RESOLVE_NO_SYMLINKS
        os.close(files.openat2(root.fd, path, os.O_PATH | os.O_DIRECTORY, resolve))
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "the image has a link or a file there"
        text = f"{where}.destination: {path} must be mounted on ordinary directory"
        raise ConfigError(f"config.json: {text}", hint) from error
