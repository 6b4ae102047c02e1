"""Stage 1 with a user namespace: what the runtime, as root of the host, does for init.

In its user namespace init is root, but to the host it is some unprivileged user. So the id maps
are written from outside (user_namespaces(7)), the container's own layer is given to that user, and
each layer of the image is put into init's mount namespace through an id-mapped mount: its files
stay root's on the disk and are the container's root's inside (mount_setattr(2), Linux 5.12;
overlayfs on top of it, Linux 5.19). Where their file system cannot do that, they are copied
(minirun.oci.namespaces.shifted).

A runtime without privileges (minirun.engines.rootless) has its own maps written, and uses its own
files: they are the container's root's, since the container's 0 is the user.
"""

from __future__ import annotations

import os

from minirun.common.child import errno_of
from minirun.core import events
from minirun.core.container import Container, Extra
from minirun.core.errors import MinirunError, os_error, reason
from minirun.core.keeping import directories, places
from minirun.core.keeping.visible import say
from minirun.core.kernel import mounts, namespaces
from minirun.core.rootfs.tree import remove_tree
from minirun.oci.mounts import copyup
from minirun.oci.namespaces import idmap
from minirun.oci.namespaces.shifted import Owners, copy_layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.handshake import Init

_NO_ID_MAPS = (22, 38, 95)
"""EINVAL, ENOSYS, EOPNOTSUPP: mount_setattr(2)."""


class IdMaps(Extra):
    """The user namespace of one container, a new one or one with a path."""

    def from_outside(self, init: Init) -> None:
        """Write init's id maps and prepare the layers. Raises OSError, MinirunError."""
        container, linux, pid = self.container, self.config.linux, init.pid
        if not self.config.new_namespace("user"):
            denied = idmap.denies_groups(pid)  # for exec
            container.record = container.record._replace(groups_denied=denied)
        if container.unprivileged:
            if self.config.new_namespace("user"):
                idmap.write(pid, linux)
            return
        if self.config.new_namespace("user"):
            idmap.write_id_map(pid, "uid_map", linux["uidMappings"])
            idmap.write_id_map(pid, "gid_map", linux["gidMappings"])
        idmap.give_pipes(pid, self.config, container.console)
        if self.config.layers:
            # of a namespace by path only the kernel knows the maps
            maps = idmap.read(pid, "uid_map"), idmap.read(pid, "gid_map")
            root = owner_of_root(*maps)
            _let_through(container.directory, root[1])
            os.chown(f"{container.directory}/{places.WORK}", *root)
            upper = f"{container.directory}/{places.UPPER}"
            ids = os.stat(upper)  # as the image has them
            uid, gid = idmap.host_id(maps[0], ids.st_uid), idmap.host_id(maps[1], ids.st_gid)
            os.chown(upper, root[0] if uid is None else uid, root[1] if gid is None else gid)
            for name in copyup.volumes(self.config):
                os.chown(f"{container.directory}/{name}", *root)
            if not _attach_layers(container, pid):
                for layer, place in zip(self.config.layers, container.layer_paths(), strict=True):
                    _copy_once(layer, place, Owners(*maps))

    def inside(self) -> None:
        """Make a new IPC namespace: as root of the user namespace, whose mqueue it then is.

        Its file system is made with it, and belongs to who calls, not to who mounts it.
        """
        if self.config.new_namespace("ipc"):
            why = "now that it is the container's root: /dev/mqueue belongs to it"
            namespaces.unshare(namespaces.FLAGS["ipc"], why=why)


def _copy_once(layer: str, place: str, owners: Owners) -> None:
    """Copy a layer to `place`, an empty directory; not if an earlier start has done it.

    It gets its name when it is whole. Raises MinirunError, OSError.
    """
    if os.listdir(place):
        return
    draft = f"{place}.new"
    remove_tree(draft)  # of a start that was killed
    os.mkdir(draft)
    copy_layer(layer, draft, owners)
    os.rename(draft, place)


def _let_through(directory: str, group: int) -> None:
    """Let the container's root, whose group is `group`, through its directory, and no other user.

    Its files lie below, with their modes: through an open directory each user of the host would
    read them, and run its setuid programs as its root (CVE-2021-41091, in docker). Raises OSError.
    """
    os.chown(directory, -1, group)
    os.chmod(directory, 0o710)


def owner_of_root(uids: idmap.IdMapRows, gids: idmap.IdMapRows) -> tuple[int, int]:
    """Return the host's ids of the container's root. Raises MinirunError if it has none."""
    uid, gid = (idmap.host_id(rows, 0) for rows in (uids, gids))
    if uid is None or gid is None:
        raise MinirunError("config.json: linux.uidMappings: 0 is not mapped")
    return uid, gid


def _attach_layers(container: Container, pid: int) -> bool:
    """Attach id-mapped mounts of the layers in init's mount namespace, from a process there.

    Return False if their file system knows no such mounts. Raises MinirunError, OSError.
    """
    owner = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    target = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def attach() -> None:
        events.become("runtime", os.getpid())
        trees = [_id_mapped(layer, owner) for layer in container.config.layers]
        namespaces.setns(target, namespaces.CLONE_NEWNS, why="into init's mount namespace")
        for tree, place in zip(trees, container.layer_paths(), strict=True):
            fd = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            mounts.move_mount(tree, fd, shown=place)

    code = errno_of(attach, "a mount namespace is entered for good: not by us")
    for fd in (owner, target):
        os.close(fd)
    if code and code not in _NO_ID_MAPS:
        text = f"the image's layers cannot be id-mapped: {reason(os_error(code))}"
        raise MinirunError(text)
    return not code


def _id_mapped(layer: str, owner: int) -> int:
    """Return a detached mount of `layer` whose ids are those of the user namespace `owner`."""
    tree = mounts.open_tree(mounts.AT_FDCWD, layer, mounts.OPEN_TREE_CLONE)
    why = "root's files look like the container's root's"
    mounts.mount_setattr(tree, mounts.MOUNT_ATTR_IDMAP, userns=owner, shown=layer, why=why)
    return tree


def empty_directory(container: Container, fd: int) -> None:
    """Remove from a container's directory the files of ids that only its namespace knows.

    And overlay's work directory, which only root may read. Done in a user namespace with the
    same maps; the caller's own, if the container has joined one. Raises MinirunError, OSError.
    """
    maps = idmap.of_container(container.config)
    ready, tell = os.pipe2(os.O_CLOEXEC)
    why = "in here the ids of the container's files are known"
    child, pidfd = namespaces.clone3(namespaces.CLONE_NEWUSER, why=why)
    if child == 0:
        os.close(tell)
        try:
            if os.read(ready, 1):
                os.setresgid(0, 0, 0)
                os.setresuid(0, 0, 0)
                directories.empty(fd)
                os._exit(0)
        except OSError as error:
            say(f"{container.directory}: {error}")
        finally:
            os._exit(1)
    try:
        os.close(ready)
        idmap.write(child, maps)
        os.write(tell, b"!")
    finally:
        os.close(tell)
        os.close(pidfd)
        status = os.waitpid(child, 0)[1]
    if status != 0:
        raise MinirunError(f"{container.directory} could not be emptied")
