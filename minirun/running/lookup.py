"""Load an existing container: its record and its config.json."""

from __future__ import annotations

import os

from minirun.core import config as oci_config
from minirun.core import rings
from minirun.core.container import Container
from minirun.core.errors import ConfigError, reason
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping import state_file as records
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.running import own_cgroup

with lazy:
    from minirun.cgroups import hierarchies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.keeping.container_record import ContainerRecord

_CGROUPS = "/sys/fs/cgroup/"


def load(settings: Settings, container_id: str, *, whole: bool = False) -> Container:
    """Return an existing container.

    If its config.json is damaged, a line says so: it can be ended and deleted without, but its
    hooks are not known. If the caller needs the `whole` of it, that is an error. Raises StateError,
    ConfigError, OSError.
    """
    record = state.load(settings.root, container_id)
    saved = None
    try:
        saved = saved_config(record.directory, whole=whole)
    except FileNotFoundError:  # another command has just removed it
        raise state.no_such_container(container_id) from None
    except ConfigError as error:
        error.hint = f"minirun delete --force {state.name_of(record.directory)}"
        if whole:
            raise
        warn(str(error))
    raw = saved or {"ociVersion": state.OCI_VERSION, "root": {"path": record.rootfs}}
    config = oci_config.Config(raw, record.bundle, record.choices)
    if reason := _wrong_cgroup(record, config if saved else None):
        raise records.DamagedRecord(record.directory, reason, ours=True)
    return Container(settings._replace(cgroup_version=record.cgroup_version), config, record)


def saved_config(directory: str, *, whole: bool = True) -> dict[str, Any] | None:
    """config.json as it was at create; later changes to the bundle have no effect (the spec).

    None if there is none: the container is being removed. Unless the `whole` is asked for,
    linux.seccomp is not looked at, the largest part. Raises ConfigError, StateError, OSError.
    """
    path = f"{directory}/{places.CONFIG}"
    fd = records.open_directory(directory)
    try:
        raw = jsonlite.loads(records.read_file(fd, places.CONFIG).decode())
        linux = raw.get("linux") if isinstance(raw, dict) else None
        seccomp = linux.pop("seccomp", None) if linux.__class__ is dict and not whole else None
        checked = rings.check_config(raw)
    except FileNotFoundError:
        return None
    except ConfigError as error:
        raise ConfigError(f"{directory}/{error}", status=1) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {reason(error)}", status=1) from None
    finally:
        os.close(fd)
    if seccomp is not None:
        checked["linux"]["seccomp"] = seccomp
    return checked


def _wrong_cgroup(record: ContainerRecord, config: oci_config.Config | None) -> str:
    """Return why the record's cgroup may not be this container's; empty if it is.

    It is killed and removed with the container. What the record says of it has to be what
    config.json says, or minirun's own name for it; and it has to lie where cgroups are mounted.
    """
    named = record.cgroup_path
    if config:
        root, container_id = record.directory.rsplit("/", 1)
        own = own_cgroup(root, container_id, systemd=record.systemd_cgroup)
        if named != (config.cgroups_path or own):
            return f"cgroup_path is {named!r}, and not {config.cgroups_path or own!r}"
    dirs = record.cgroup["dirs"] if record.cgroup else {}
    strange = [place for place in dirs.values() if not _is_cgroup(place)]
    return f"cgroup {strange[0]!r} is not the container's" if strange else ""


def _is_cgroup(place: str) -> bool:
    """Return True if a path lies in a mounted cgroup file system."""
    if place.startswith(_CGROUPS):
        return True
    return any(place.startswith(f"{each.path}/") for each in hierarchies.mounted())
