"""The first record of a container, and its directory: before a cgroup or a process is made."""

import os

from minirun.core import directories, jsonlite, places, state
from minirun.core.choices import KEY
from minirun.core.config import Config
from minirun.core.container import Container, detail
from minirun.core.errors import ConfigError, StateError
from minirun.core.rootfs.tree import remove_tree
from minirun.core.settings import Settings
from minirun.engines import rootless, roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def reserve(settings: Settings, container_id: str, config: Config, **extra: "Any") -> Container:
    """Make the container's directory and write its first record (minirun.core.directories).

    `extra` are more fields of the record. Raises StateError if the name is in use, ConfigError,
    UsageError, OSError.
    """
    state.check_id(container_id)
    detail(config)  # a wrong word is told before anything is made
    pid = os.getpid()
    record: dict[str, Any] = {
        "ociVersion": config.raw["ociVersion"], "id": container_id, "status": state.CREATING,
        "pid": 0, "bundle": config.bundle, "rootfs": config.rootfs,
        "annotations": config.annotations, "created": state.timestamp(),
        "directory": places.container(settings.root, container_id), "init": None,
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
        from minirun.engines import rootless_config as without_root

        record["groups_denied"] = without_root.check(config)
    container = Container(settings, config, record)
    container.cgroup.directories()  # a wrong path is refused before anything is made
    make_root(settings.root)
    roots.remember(settings)
    temporary = directories.make(settings.root)
    try:
        state.write(places.state_json(temporary), jsonlite.dumps(record))
        for name in (places.ROOTFS, places.UPPER, places.WORK) if config.layers else ():
            os.mkdir(f"{temporary}/{name}", 0o755)
        if container.lower_places() != config.layers:
            for number in range(len(config.layers)):
                os.makedirs(places.lower(temporary, number))
        state.write(places.config_json(temporary), jsonlite.dumps(config.raw, indent=2))
        directories.give_name(temporary, record["directory"])
    except UnicodeEncodeError as error:
        remove_tree(temporary)
        culprit = error.object[: error.end].rpartition("\n")[2].strip()
        raise ConfigError(f"config.json: not UTF-8: {culprit!r}") from None
    except FileExistsError:
        remove_tree(temporary)
        raise _name_in_use(container_id, record) from None
    except OSError:
        remove_tree(temporary)
        raise
    return container


def make_root(root: str) -> None:
    """Make the directory that containers are kept in, if it does not exist. Raises OSError."""
    if not os.path.isdir(root):
        os.makedirs(root, mode=0o711, exist_ok=True)


def _name_in_use(container_id: str, record: "dict[str, Any]") -> StateError:
    """Return docker's error for `run IMAGE`, and runc's for a bundle."""
    if "image" in record:
        text = f'Conflict. The container name "/{container_id}" is already in use'
        return StateError(text, f"minirun delete {container_id}, or another --name", status=125)
    hint = f"minirun delete {container_id}, or another id"
    return StateError("container with given ID already exists", hint)
