"""A name is taken: the directory and the first record of a container, before anything is made."""

import os
import time
from binascii import crc32

from minirun import jsonlite, rootless, roots
from minirun.choices import KEY
from minirun.container import Container, detail
from minirun.errors import ConfigError, StateError
from minirun.kernel import files
from minirun.oci import state
from minirun.oci.config import Config
from minirun.rootfs.tree import remove_tree
from minirun.settings import NEW, ROOT, Settings

_NURSERIES = 64
"""So many, made as they are needed: one costs a directory, which stays."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def reserve(settings: Settings, container_id: str, config: Config, **extra: "Any") -> Container:
    """Take the name and write the first record; of several creators one wins.

    The directory is made complete under another name and then renamed, so it never exists without
    its record. Raises StateError, ConfigError, UsageError, OSError.
    """
    state.check_id(container_id)
    detail(config)  # a wrong word is told before anything is made
    pid = os.getpid()
    record: dict[str, Any] = {
        "ociVersion": config.raw["ociVersion"], "id": container_id, "status": state.CREATING,
        "pid": 0, "bundle": config.bundle, "rootfs": config.rootfs,
        "annotations": config.annotations, "created": state.timestamp(),
        "directory": f"{settings.root}/{container_id}", "init": None,
        "supervisor": state.identity(pid), "complete": False,
        "managed": False, "auto_remove": False,
        "cgroup_path": config.cgroups_path or _own_cgroup(settings, container_id),
        "systemd_cgroup": settings.systemd_cgroup,
        "cgroup_version": settings.cgroup_version, "unprivileged": rootless.unprivileged(),
        KEY: config.choices.as_json(), **extra,
    }  # fmt: skip
    if record["unprivileged"]:
        rootless.check_home(settings.root)
        from minirun.oci import rootless as without_root

        record["groups_denied"] = without_root.check(config)
    container = Container(settings, config, record)
    container.cgroup.directories()  # a wrong path is refused before anything is made
    make_root(settings.root)
    roots.remember(settings)
    temporary = _make_unnamed(settings.root)
    try:
        for name in ("rootfs", "upper", "work") if config.layers else ():
            os.mkdir(f"{temporary}/{name}", 0o755)
        if container.lower_places() != config.layers:
            for number in range(len(config.layers)):
                os.makedirs(f"{temporary}/lower/{number}")
        state.write(f"{temporary}/config.json", jsonlite.dumps(config.raw, indent=2))
        state.write(f"{temporary}/state.json", jsonlite.dumps(record))
        os.rename(temporary, record["directory"])
    except UnicodeEncodeError as error:
        remove_tree(temporary)
        culprit = error.object[: error.end].rpartition("\n")[2].strip()
        raise ConfigError(f"config.json: not UTF-8: {culprit!r}") from None
    except OSError as error:
        remove_tree(temporary)
        if error.errno in (17, 39):  # EEXIST, ENOTEMPTY
            raise _name_in_use(container_id) from None
        raise
    return container


def make_root(root: str) -> None:
    """Make the directory that containers are kept in, where there is none yet. Raises OSError."""
    if not os.path.isdir(root):
        os.makedirs(root, mode=0o711, exist_ok=True)


def _make_unnamed(root: str) -> str:
    """Make the directory of a container that has no name yet, PID-TIME in one of the nurseries.

    On ext4 a directory's files lie in its group of inodes, and without a journal each new file
    passes over all inodes that were freed in that group in the last minutes. A new directory goes
    where there are the fewest: that may be the same group for every third container. A nursery
    stays, so each lies in a group of its own, and who is born in it stays in that group, whatever
    its name is then. Raises OSError.
    """
    now = time.monotonic_ns()
    nurseries = f"{root}/{NEW}"
    nursery = f"{nurseries}/{now // 1000 % _NURSERIES}"
    path = f"{nursery}/{os.getpid()}-{now}"
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        os.makedirs(nurseries, 0o700, exist_ok=True)
        files.spread_directories(nurseries)
        os.makedirs(nursery, 0o700, exist_ok=True)
        os.mkdir(path, 0o700)
    return path


def _own_cgroup(settings: Settings, container_id: str) -> str:
    """Return the cgroup of a container whose config.json names none.

    An id is unique below one state root; below another one a cgroup has that root's mark.
    """
    mark = "" if settings.root == ROOT else f".{crc32(settings.root.encode()):08x}"
    place = ":minirun:" if settings.systemd_cgroup else "/minirun/"
    return f"{place}{container_id}{mark}"


def _name_in_use(container_id: str) -> StateError:
    text = f'Conflict. The container name "/{container_id}" is already in use'
    hint = f"minirun delete {container_id}, or another --name"
    return StateError(text, hint, status=125)
