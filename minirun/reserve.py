"""A name is taken: the directory and the first record of a container, before anything is made."""

import os

from minirun import jsonlite, nursery, rootless, roots
from minirun.choices import KEY
from minirun.container import Container, detail
from minirun.errors import ConfigError, StateError
from minirun.oci import state
from minirun.oci.config import Config
from minirun.rootfs.tree import remove_tree
from minirun.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def reserve(settings: Settings, container_id: str, config: Config, **extra: "Any") -> Container:
    """Take the name and write the first record; of several creators one wins.

    The directory is made complete under another name and then renamed, so it never exists without
    its record, which is written first. Raises StateError, ConfigError, UsageError, OSError.
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
        "cgroup_path": config.cgroups_path
        or state.own_cgroup(settings.root, container_id, systemd=settings.systemd_cgroup),
        "systemd_cgroup": settings.systemd_cgroup,
        "cgroup_version": settings.cgroup_version, "unprivileged": rootless.unprivileged(),
        KEY: config.choices.as_json(), **extra,
    }  # fmt: skip
    if record["unprivileged"]:
        rootless.check_home(settings.root)
        rootless.check_root(settings.root)
        from minirun.oci import rootless as without_root

        record["groups_denied"] = without_root.check(config)
    container = Container(settings, config, record)
    container.cgroup.directories()  # a wrong path is refused before anything is made
    make_root(settings.root)
    roots.remember(settings)
    temporary = nursery.make(settings.root)
    try:
        state.write(f"{temporary}/state.json", jsonlite.dumps(record))
        for name in ("rootfs", "upper", "work") if config.layers else ():
            os.mkdir(f"{temporary}/{name}", 0o755)
        if container.lower_places() != config.layers:
            for number in range(len(config.layers)):
                os.makedirs(f"{temporary}/lower/{number}")
        state.write(f"{temporary}/config.json", jsonlite.dumps(config.raw, indent=2))
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


def _name_in_use(container_id: str) -> StateError:
    text = f'Conflict. The container name "/{container_id}" is already in use'
    hint = f"minirun delete {container_id}, or another --name"
    return StateError(text, hint, status=125)
