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
from minirun.faces.show.template.values import Fields, NilList, NilMap
from minirun.image import split, store
from minirun.oci import run_config
from minirun.running import ends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.common.docker_record import DockerRecord
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
    if record.status == state.STOPPED and docker_record.of(record).never_began:
        return "created"
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
        Name=f"/{state.name_of(directory)}", RestartCount=docker.restarts, Driver="overlay2",
        Platform="linux",
        MountLabel="", ProcessLabel=container.config.process.get("selinuxLabel", ""),
        AppArmorProfile=container.config.process.get("apparmorProfile", ""), ExecIDs=NilList(),
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
        Restarting=status == "restarting", OOMKilled=ends.oom_killed(record), Dead=False,
        Pid=record.pid if status in ("running", "paused") else 0,
        ExitCode=record.exit_status or 0, Error=docker_record.of(record).start_error,
        StartedAt=started,
        FinishedAt=record.finished or NEVER,
    ).optionally(Health=Fields(checks) if checks and started != NEVER else None)  # fmt: skip


def _started(container: Container) -> str:
    """Return when the command began: by the log, which has its execve; else when it was made."""
    record = container.record
    if record.status in (state.CREATED, state.CREATING) or docker_record.of(record).never_began:
        return NEVER
    try:
        begun = past.started(f"{container.directory}/{places.EVENTS}")
    except OSError:
        begun = None
    return state.timestamp(begun[0]) if begun else container.record.created


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
    asked, checked = docker.asked, docker.health
    declared, user = docker.declared or {}, config.process.get("user") or {}
    uid, gid = user.get("uid", 0), user.get("gid", 0)
    entrypoint = _entrypoint(docker, image, args)
    streams = asked.get("attach") or _STREAMS[not docker.interactive :]
    attached = [name in streams and not asked.get("detach") for name in _STREAMS]
    environment = [f"{name}={value}" for name, value in config.environment.items()]
    timeout = docker.stop_timeout if docker.stop_timeout != docker_record.STOP_TIMEOUT else None
    shown = Fields(
        Hostname=config.raw.get("hostname", ""), Domainname=config.raw.get("domainname", ""),
        User=asked.get("user", f"{uid}:{gid}" if uid or gid else ""),
        AttachStdin=attached[0], AttachStdout=attached[1], AttachStderr=attached[2],
        ExposedPorts={}, Tty=config.terminal, OpenStdin=docker.interactive,
        StdinOnce=docker.stdin_once,
        Env=asked.get("env", environment),
        Cmd=args[entrypoint:] or NilList(), Healthcheck=None,
        Image=asked.get("image", docker.image or ""),
        Volumes={path: {} for path in declared.get("volumes") or ()} or NilMap(),
        WorkingDir=config.process.get("cwd", "").rstrip("/"),
        Entrypoint=args[:entrypoint] or NilList(), OnBuild=NilList(), Labels=docker.labels,
    )  # fmt: skip
    return shown.optionally(
        ExposedPorts={port: {} for port in exposed(container)},
        Healthcheck=Fields(checked.as_json()) if checked else None,
        StopSignal=declared.get("stop_signal", ""), StopTimeout=timeout, Shell=NilList(),
    )  # fmt: skip


_STREAMS = ("stdin", "stdout", "stderr")


def _entrypoint(docker: DockerRecord, image: Image | None, args: list[str]) -> int:
    """Return how many of the first arguments are the entrypoint: the image's, if no flag is."""
    if "entrypoint" in docker.asked:
        return docker.asked["entrypoint"]
    words = list(image.entrypoint) if image else []
    return len(words) if args[: len(words)] == words else 0
