"""The first record of a container, and its directory: before a cgroup or a process is made."""

from __future__ import annotations

import os

from minirun import cgroups
from minirun.common import descriptors, docker_record, naming
from minirun.core.config import Config
from minirun.core.container import Container, log_detail
from minirun.core.errors import ConfigError, MinirunError, StateError
from minirun.core.keeping import directories, jsonlite, places, state
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.lazy import lazy
from minirun.core.rootfs.tree import remove_tree
from minirun.running import own_cgroup

with lazy:
    from minirun.engines import rootless_config as without_root
    from minirun.engines import roots  # an engine has a root of its own
    from minirun.net import names
    from minirun.oci.mounts import copyup  # with an image

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

_TO_CLEAN_UP = 8
"""Descriptors that must be free. With fewer, what is begun could not be removed either."""


def reserve(
    settings: Settings, config: Config, record: ContainerRecord, name: str = ""
) -> Container:
    """Make the container's directory and write its first record (minirun.core.keeping.directories).

    `name`: what it is called besides its id. Raises StateError if the id or the name is in use,
    ConfigError, UsageError, OSError.
    """
    log_detail(config)  # a wrong word is told before anything is made
    container = Container(settings, config, record, name)
    cgroups.cgroup_of(container).directories()  # a wrong path is refused before anything is made
    if settings.root != f"{settings.store}/{places.CONTAINERS}":
        roots.remember(settings)
    descriptors.need(_TO_CLEAN_UP)
    path = directories.make(settings.root)
    try:
        _fill(path, container, name)
        with naming.NamesLocked(settings.root):
            if name:
                naming.refuse_taken(settings.root, name, 125)
                naming.take(settings.root, name, container.id)
            elif not state.is_made_up(container.id) and naming.id_of(settings.root, container.id):
                raise _id_in_use(container)
            directories.give_name(path, container.directory)
    except FileExistsError:
        remove_tree(path)
        raise _id_in_use(container) from None
    except (OSError, MinirunError):
        remove_tree(path)
        raise
    return container


def first_record(settings: Settings, container_id: str, config: Config) -> ContainerRecord:
    """Return the record of a container that is about to be made.

    Raises StateError for a wrong id, ConfigError, UsageError.
    """
    state.check_id(container_id)
    groups_denied, by_systemd = False, settings.systemd_cgroup
    if unprivileged():
        without_root.check_home(settings.root)
        without_root.check_root(settings.root)
        without_root.check_namespaces()
        groups_denied = without_root.check(config)
        if not (by_systemd or config.cgroups_path):
            by_systemd = cgroups.users_manager_makes_it(settings, bundle=not config.layers)
    return ContainerRecord(
        ociVersion=state.OCI_VERSION, id=container_id, status=state.CREATING,
        pid=0, bundle=config.bundle, rootfs=config.rootfs,
        annotations=config.annotations, created=state.timestamp(),
        directory=f"{settings.root}/{container_id}", init=None,
        supervisor=state.identity(os.getpid()), complete=False,
        cgroup_path=config.cgroups_path
        or own_cgroup(settings.root, container_id, systemd=by_systemd),
        systemd_cgroup=by_systemd,
        cgroup_version=settings.cgroup_version, unprivileged=unprivileged(),
        choices=config.choices, groups_denied=groups_denied,
    )  # fmt: skip


def _fill(path: str, container: Container, name: str) -> None:
    """Write a new container's files, the record first. Raises ConfigError, OSError."""
    config = container.config
    network = docker_record.of(container.record).network
    try:
        state.save(path, container.record)
        if name:
            state.write(f"{path}/{places.NAME}", name)
        for name in (places.ROOTFS, places.UPPER, places.WORK) if config.layers else ():
            os.mkdir(f"{path}/{name}", 0o755)
        if config.layers:  # of / OverlayFS shows the upper directory's own
            top = os.stat(config.layers[-1])
            os.chown(f"{path}/{places.UPPER}", top.st_uid, top.st_gid)
            os.chmod(f"{path}/{places.UPPER}", top.st_mode & 0o7777)
            for name in copyup.volumes(config):
                os.makedirs(f"{path}/{name}", 0o700)
        if network:
            hostname = config.raw.get("hostname") or os.uname().nodename  # --uts host
            names.make(path, network, hostname)
        if container.layer_paths() != config.layers:
            for number in range(len(config.layers)):
                os.makedirs(f"{path}/{places.LOWER}/{number}")
        state.write(f"{path}/{places.CONFIG}", jsonlite.dumps(config.raw, indent=2))
    except UnicodeEncodeError as error:
        culprit = error.object[: error.end].rpartition("\n")[2].strip()
        raise ConfigError(f"config.json: not UTF-8: {culprit!r}") from None


def _id_in_use(container: Container) -> StateError:
    """Return runc's error."""
    hint = f"minirun delete {container.id}, or another id"
    return StateError("container with given ID already exists", hint)
