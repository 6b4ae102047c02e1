"""A container as docker's `inspect` describes it: what `inspect --format` reads.

It is made of the record (state.json), config.json, the leases of its networks and the log. Field
names and their order are docker's (Engine API, "Inspect a container"). What docker keeps of a
command line, and minirun does not, is read back from config.json: Entrypoint is the image's if the
command begins with it.
"""

from __future__ import annotations

from minirun.common import docker_record
from minirun.core.errors import ImageError
from minirun.core.keeping import places, state
from minirun.docker import health
from minirun.docker.docker_host import host_config, mounts
from minirun.docker.docker_network import exposed, leases_of, network_rows, network_settings
from minirun.faces.inspect import past
from minirun.faces.inspect.sizes import sizes
from minirun.faces.show.template.values import Fields
from minirun.image import split, store
from minirun.oci import run_config
from minirun.running import renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.container import Container
    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.image.store import Image

NEVER = "0001-01-01T00:00:00Z"
"""Go's zero time: what docker says if a thing has not happened."""
_STATUS = {state.CREATING: "created", state.STOPPED: "exited"}
"""Status of ours → docker's, if it has another word."""


def status_of(record: ContainerRecord) -> str:
    """Return docker's word for a container's status: exited for stopped, or restarting."""
    if (
        record.status == state.STOPPED
        and docker_record.of(record).restart
        and state.is_alive(record.supervisor)
    ):
        return "restarting"
    return _STATUS.get(record.status, record.status)


def document(container: Container, *, size: bool = False) -> Fields:
    """Return the document; with `size` SizeRw and SizeRootFs too, for which all files are counted.

    Raises OSError.
    """
    record = container.record
    image = _image(container)
    own = [lease for row in network_rows(container) for lease in leases_of(container, row)]
    args = list(record.args or container.config.process.get("args") or [])
    if args[:2] == [run_config.INIT, "--"]:
        del args[:2]
    written = dict(zip(("SizeRw", "SizeRootFs"), sizes(record), strict=True)) if size else {}
    directory, files = record.directory, f"{record.directory}/{places.NETWORK_FILES}"
    docker = docker_record.of(record)
    has_files = bool(docker.network)
    return Fields(
        Id=record.id, Created=record.created, Path=args[0] if args else "", Args=args[1:],
        State=_state(container), Image=_image_id(container) if image else "",
        ResolvConfPath=f"{files}/resolv.conf" if has_files else "",
        HostnamePath=f"{files}/hostname" if has_files else "",
        HostsPath=f"{files}/hosts" if has_files else "",
        LogPath=f"{directory}/{places.OUTPUT}" if docker.output else "",
        Name=f"/{renamed.name_of(directory)}", RestartCount=docker.restarts, Driver="overlay2",
        Platform="linux",
        MountLabel="", ProcessLabel=container.config.process.get("selinuxLabel", ""),
        AppArmorProfile=container.config.process.get("apparmorProfile", ""), ExecIDs=None,
        HostConfig=host_config(container),
        GraphDriver=_graph_driver(container), **written,
        Mounts=mounts(container), Config=_config(container, image, args),
        NetworkSettings=network_settings(container, own),
    )  # fmt: skip


def _image(container: Container) -> Image | None:
    """Return the image in the store; None if it is gone, or damaged."""
    try:
        return store.find(
            container.settings.store, split(docker_record.of(container.record).image or "")
        )
    except (ImageError, OSError):
        return None


def _image_id(container: Container) -> str:
    """Return the id that `image inspect` shows: the digest of the image's configuration."""
    name = docker_record.of(container.record).image
    for row in store.list_images(container.settings.store):
        if name == f"{row['name']}:{row['tag']}" and "broken" not in row:
            return row.get("id") or row["digest"]
    return ""


def _state(container: Container) -> Fields:
    record = container.record
    status = status_of(record)
    checks, started = health.read(record.directory), NEVER
    if record.pid or record.exit_status is not None or record.status == state.STOPPED:
        started = _started(container)
    return Fields(
        Status=status, Running=status in ("running", "paused"), Paused=status == "paused",
        Restarting=status == "restarting", OOMKilled=_oom_killed(container), Dead=False,
        Pid=record.pid,
        ExitCode=record.exit_status or 0, Error="", StartedAt=started,
        FinishedAt=record.finished or NEVER, **({"Health": Fields(checks)} if checks else {}),
    )  # fmt: skip


def _started(container: Container) -> str:
    """Return when the command began: by the log, which has its execve; else when it was made."""
    if container.record.status in (state.CREATED, state.CREATING):
        return NEVER
    try:
        begun = past.started(f"{container.directory}/{places.EVENTS}")
    except OSError:
        begun = None
    return state.timestamp(begun[0]) if begun else container.record.created


def _oom_killed(container: Container) -> bool:
    """Return True if the kernel has killed for memory in its cgroup, which goes with its end."""
    cgroup = container.record.cgroup
    if not cgroup or not cgroup["version"]:
        return False
    name, file = (
        ("memory", "memory.oom_control") if cgroup["version"] == 1 else ("", "memory.events")
    )
    try:
        text = state.read_text(f"{cgroup['dirs'][name]}/{file}")
    except (OSError, LookupError):
        return False
    return any(row.startswith("oom_kill ") and row != "oom_kill 0" for row in text.splitlines())


def _graph_driver(container: Container) -> Fields:
    if not container.config.layers:
        return Fields(Data=None, Name="none")
    directory = container.directory
    return Fields(
        Data={
            "LowerDir": ":".join(reversed(container.config.layers)),
            "MergedDir": f"{directory}/{places.ROOTFS}", "UpperDir": f"{directory}/{places.UPPER}",
            "WorkDir": f"{directory}/{places.WORK}",
        },
        Name="overlay2",
    )  # fmt: skip


def _config(container: Container, image: Image | None, args: list[str]) -> Fields:
    record, config = container.record, container.config
    docker = docker_record.of(record)
    declared, user = docker.declared or {}, config.process.get("user") or {}
    entrypoint = list(image.entrypoint) if image else []
    begins = bool(entrypoint) and args[: len(entrypoint)] == entrypoint
    uid, gid = user.get("uid", 0), user.get("gid", 0)
    checked = docker.health
    return Fields(
        Hostname=config.raw.get("hostname", ""), Domainname=config.raw.get("domainname", ""),
        User=f"{uid}:{gid}" if uid or gid else "",
        ExposedPorts={port: {} for port in exposed(container)},
        Tty=config.terminal, OpenStdin=docker.interactive,
        Env=[f"{name}={value}" for name, value in config.environment.items()],
        Cmd=args[len(entrypoint) :] if begins else args,
        **({"Healthcheck": checked} if checked else {}), Image=docker.image or "",
        Volumes={path: {} for path in declared.get("volumes") or ()} or None,
        WorkingDir=config.process.get("cwd", "").rstrip("/"),
        Entrypoint=entrypoint if begins else None,
        Labels=docker.labels, StopSignal=declared.get("stop_signal", ""),
        StopTimeout=docker.stop_timeout,
    )  # fmt: skip
