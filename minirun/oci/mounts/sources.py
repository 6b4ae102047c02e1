"""What the runtime prepares for unusual mounts before clone: sources, and tmpcopyup.

What happens: a source that is to be id-mapped is cloned into a detached mount, and that gets the
ids of a user namespace which exists for this alone (mount_setattr(2), "ID-mapped mounts"; Linux
5.12). That needs CAP_SYS_ADMIN in the file system's user namespace, so the runtime does it; init
inherits the descriptor and attaches it. A source that init cannot reach is cloned, too: in a user
namespace init is another user of the host, and a directory above the source may be closed to all
but root. (init binds other sources itself: nosuid, ro and the like of the host's mounts are locked
in its namespace, and not on a clone. See mount_namespaces(7).)

What the spec says: runtime-spec, config.md, "Linux mount options", idmap: the entry's own mappings,
or those of the container's user namespace; without either, an error. What the real stack does: runc
the same; it opens every source of a container with a user namespace in the runtime.
"""

from __future__ import annotations

import os
import stat

from minirun.core.config import Config
from minirun.core.container import Container, Extra
from minirun.core.errors import ConfigError, reason
from minirun.core.kernel import mounts, namespaces, signals
from minirun.core.rootfs import mount_entry, mount_options
from minirun.core.rootfs.inroot import Root
from minirun.oci.mounts import copyup
from minirun.oci.namespaces import idmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.handshake import Init
    from minirun.core.rootfs.mount_options import MountOptions

    Maps = tuple[idmap.IdMapRows, idmap.IdMapRows]


class MountSources(Extra):
    """Detached mounts by the place of their entry in config.json: mounts[3]."""

    def __init__(self, container: Container) -> None:
        """Make them, also for sources that init, if it is another user then, cannot reach.

        Raises ConfigError, with the exact path, OSError.
        """
        super().__init__(container)
        config, is_another_user = self.config, _is_another_user(self.config)
        self.trees: dict[str, int] = {}
        self._below = -1
        """In init: what the mount that is being made covers."""
        try:
            for index, row in enumerate(config.raw.get("mounts") or []):
                wanted, where = mount_options.parse(row.get("options") or []), f"mounts[{index}]"
                if wanted.id_map or row.get("uidMappings"):
                    self.trees[where] = _tree(config, row, wanted, where)
                elif (
                    is_another_user
                    and mount_entry.is_bind(row)
                    and not _is_open(mount_entry.source_of(config, row, where))
                ):
                    fd = mount_entry.open_source(config, row, where)
                    try:
                        why = "init, another user out here, could not reach it"
                        self.trees[where] = _clone(fd, row["source"], wanted, why=why)
                    finally:
                        os.close(fd)
        except BaseException:
            self.close()
            raise

    def from_outside(self, init: Init) -> None:
        """Close the runtime's copies."""
        self.close()

    def source(self, where: str) -> int | None:
        """Return the detached mount for an entry, if there is one."""
        return self.trees.get(where)

    def before_mount(self, root: Root, row: dict[str, Any], where: str) -> None:
        """Hold the directory that will be covered, if what is in it is to be copied."""
        if mount_entry.is_bind(row):
            if copyup.is_filled(self.config, row):
                self._below = _volume(root, row["destination"], where)
        elif mount_options.COPY_UP in (row.get("options") or ()):
            self._below = root.make_dir(row["destination"])

    def after_mount(self, root: Root, row: dict[str, Any]) -> None:
        """Copy it into what covers it; into a volume with its owner and mode, too."""
        if self._below < 0:
            return
        target = root.open(row["destination"], os.O_RDONLY | os.O_DIRECTORY)
        try:
            copy = copyup.fill if mount_entry.is_bind(row) else copyup.copy_tree
            copy(self._below, target)
        finally:
            os.close(target)
            os.close(self._below)
            self._below = -1

    def close(self) -> None:
        """Close the descriptors. Mounts that init has attached stay."""
        while self.trees:
            os.close(self.trees.popitem()[1])


def _volume(root: Root, path: str, where: str) -> int:
    """Open the image's directory at the path of a volume. Raises ConfigError, OSError."""
    try:
        return root.make_dir(path)
    except NotADirectoryError:
        text = f"config.json: {where}.destination: a volume is to be mounted at {path}"
        hint = "another path, or -v /host/file:PATH"
        raise ConfigError(f"{text}, and the image has a file there", hint) from None


def _is_another_user(config: Config) -> bool:
    """Return True if init is another user of the host than the runtime, which is root."""
    if "user" not in config.namespaces or not config.new_namespace("mount") or os.geteuid():
        return False
    maps = config.linux.get("uidMappings") or ()
    return not any(row["containerID"] == row["hostID"] == 0 for row in maps)


def _tree(config: Config, row: dict[str, Any], wanted: MountOptions, where: str) -> int:
    if not mount_entry.is_bind(row):
        raise ConfigError(f"config.json: {where}: only a bind mount can be id-mapped")
    source = mount_entry.source_of(config, row, where)
    fd = mount_entry.open_source(config, row, where)
    owner = _user_namespace(config, row, where)
    try:
        shared = (config.linux.get("rootfsPropagation") or "").endswith("shared")
        tree = _clone(fd, source, wanted, is_slave=not shared, why="to be id-mapped")
        deep = wanted.id_map == "ridmap"
        try:
            mounts.mount_setattr(
                tree, mounts.MOUNT_ATTR_IDMAP, userns=owner, recursive=deep, shown=source,
                why="files belong to other ids through this mount",
            )  # fmt: skip
        except BaseException:
            os.close(tree)
            raise
    except OSError as error:
        text = reason(error)
        hint = "the file system of the source must know id-mapped mounts"
        raise ConfigError(
            f"config.json: {where}: {source} cannot be id-mapped: {text}", hint
        ) from None
    finally:
        os.close(owner)
        os.close(fd)
    return tree


def _clone(fd: int, source: str, wanted: MountOptions, *, is_slave: bool = True, why: str) -> int:
    """Return a detached copy of what `fd` refers to; nothing spreads from a slave to the host."""
    recursive = bool(wanted.flags & mounts.MS_REC)
    flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
    flags |= mounts.AT_RECURSIVE if recursive and stat.S_ISDIR(os.fstat(fd).st_mode) else 0
    tree = mounts.open_tree(fd, "", flags, shown=source, why=why)
    try:
        if is_slave:
            mounts.mount_setattr(tree, propagation=mounts.MS_SLAVE, recursive=True, shown=source)
    except BaseException:
        os.close(tree)
        raise
    return tree


def _is_open(path: str) -> bool:
    """Return True if every user may pass through the directories above a path."""
    above = os.path.realpath(path)
    while above != "/":
        above = os.path.dirname(above)
        if not os.stat(above).st_mode & stat.S_IXOTH:
            return False
    return True


def _user_namespace(config: Config, row: dict[str, Any], where: str) -> int:
    """Return a descriptor of a user namespace with the mappings of an entry, or the container's."""
    maps = row.get("uidMappings") or [], row.get("gidMappings") or []
    if maps[0]:
        return _make(maps)
    path = config.namespaces.get("user")
    if path:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if path is None:
        text = "needs uidMappings and gidMappings, or a user namespace of the container"
        raise ConfigError(f"config.json: {where}.options: idmap {text}")
    return _make((config.linux["uidMappings"], config.linux["gidMappings"]))


def _make(maps: Maps) -> int:
    """Return a descriptor of a new user namespace, which ends with its last descriptor."""
    wait, live = os.pipe2(os.O_CLOEXEC)
    why = "a user namespace, for its id maps alone"
    pid, pidfd = namespaces.clone3(namespaces.CLONE_NEWUSER, why=why)
    if pid == 0:
        os.close(live)
        os.read(wait, 1)  # until it is killed, or we are
        os._exit(0)
    try:
        for name, lines in zip(("uid_map", "gid_map"), maps, strict=True):
            idmap.write_id_map(pid, name, lines)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signals.SIGKILL)
        os.waitpid(pid, 0)
        for fd in (pidfd, wait, live):
            os.close(fd)
