"""What `run IMAGE` keeps of a container for docker's verbs, field by field: in state.json, too.

The core has fields of its own there (minirun.core.keeping.container_record), and carries all others
along unread, as ContainerRecord.rest. This class is the one list of docker's. Each has a default,
which is left out of the file: a container of a bundle has none of them, so its `start`, `kill` and
`delete` do without this module. For any other the reader of state.json loads it, and calls `check`.
"""

from __future__ import annotations

from minirun.core.keeping import field_types
from minirun.core.keeping.field_types import TESTS, texts
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy

with lazy:
    from minirun.common import network_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NotRequired, TypedDict

    from minirun.common.network_request import Attachment, NetworkRequest
    from minirun.core.keeping.container_record import ContainerRecord

    class MountRecord(TypedDict):
        """What a container was given by -v, --mount, --tmpfs, --volumes-from or its image."""

        type: str
        """volume, bind or tmpfs."""
        name: str
        """The volume's; "" for a bind mount, a tmpfs, and a volume in the container's directory."""
        source: str
        """On the host, absolute; volumes/N below the container's directory; "" for a tmpfs."""
        target: str
        options: list[str]
        anonymous: NotRequired[bool]
        """The volume goes with the container, if --rm or `rm -v` says so."""
        subpath: NotRequired[str]
        """What of the volume is mounted."""
        tmpfs: NotRequired[str]
        """The options as --tmpfs has them: docker lists such a one apart from --mount's."""

    MountRecords = list[MountRecord]

    class Declared(TypedDict, total=False):
        """What an image declares that no stage needs. Its own words, so any of them may be wrong.

        OCI's image-spec, config.md; the check of health is docker's addition to it.
        """

        ports: list[Any]
        """Texts such as 80 or 53/udp."""
        volumes: list[str]
        labels: dict[str, str]
        stop_signal: str
        healthcheck: dict[str, Any]
        gpu_variables: list[str]
        """Names of the image's own variables about GPUs, without those that -e replaces."""

    class Asked(TypedDict, total=False):
        """Flags of `run` as they were typed, by name, if they were; and three that always are."""

        attach: list[str]
        cgroup_parent: str
        cidfile: str
        detach: bool
        device_cgroup_rule: list[str]
        group_add: list[str]
        init: bool
        log_opt: list[str]
        mount: list[str]
        publish: list[str]
        publish_all: bool
        sysctl: list[str]
        user: str
        userns: str
        volume: list[str]
        volumes_from: list[str]
        image: str
        """The image's name."""
        env: list[str]
        """The flags' variables, and then the image's others."""
        entrypoint: int
        """So many of the first arguments are the entrypoint."""

    class OutputRecord(TypedDict):
        """How much of the output is kept: minirun.running.output.OutputLimits."""

        max_size: int
        """Bytes of one file; -1: no limit."""
        max_file: int


STOP_TIMEOUT = 10
"""Seconds that `stop` waits before SIGKILL unless a flag says otherwise: docker's."""


class HealthCheck(Record):
    """How a container's health is checked, with docker's names; times in nanoseconds.

    0 is docker's default: minirun.docker.health. Source: moby's image specification v1.3.
    """

    Test: list[str] = []
    """CMD and the words of a command; CMD-SHELL and a line for a shell; NONE."""
    Interval: int = 0
    """Between two checks."""
    Timeout: int = 0
    StartPeriod: int = 0
    """From the start on failures do not count for so long."""
    StartInterval: int = 0
    """Between two checks in that time."""
    Retries: int = 0
    """After so many failures in a row it is unhealthy."""

    def as_json(self) -> dict[str, Any]:
        """Return what is set."""
        return {name: value for name, value in self._asdict().items() if value}


def health_check(row: dict[str, Any]) -> HealthCheck:
    """Return what an image or a record says of a check. Raises ValueError if a field is wrong."""
    types, usual = HealthCheck.__annotations__, HealthCheck._field_defaults
    return HealthCheck(**field_types.checked(row, types, usual, TESTS))


class DockerRecord(Record):
    """Docker's fields of a container's record. state.json has these names."""

    managed: bool = False
    """True if `run IMAGE` made it, and so a supervisor records its end."""
    auto_remove: bool = False
    """It is removed at its end (--rm)."""
    image: str | None = None
    """The image's name; "" for a step of a build, None for a bundle."""
    gpus: str | None = None
    """--gpus as the caller wrote it."""
    warnings: list[str] | None = None
    """What was said before there was a container."""
    seccomp: str | None = None
    """The name of its seccomp profile, for error messages; None: the bundle's."""
    default_pids_limit: bool = False
    """The limit of processes is minirun's default: it is left out if it cannot be set."""
    pids_unlimited: bool = False
    """The default limit of processes could not be set."""
    declared: Declared | None = None
    """What the image declares: ports, volumes, the signal that stops it, variables about GPUs."""
    labels: dict[str, str] = {}
    """--label, and the image's."""
    restart: str = ""
    """--restart: minirun.docker.restarts; empty: it does not start again by itself."""
    restarts: int = 0
    """How often it has, since the last `start`."""
    begun: bool = False
    """Its command has run, and has ended: once, at least."""
    start_error: str = ""
    """Why its last start failed."""
    oom_killed: bool = False
    """The kernel has killed in it for memory, in its last run."""
    stop_timeout: int = STOP_TIMEOUT
    """Seconds that `stop` waits before SIGKILL."""
    interactive: bool = False
    """Its standard input is kept open (-i)."""
    stdin_once: bool = False
    """It ends with the input of the first client: the container was not made with -d."""
    output: OutputRecord | None = None
    """How much of what it writes is kept; None: nothing."""
    health: HealthCheck | None = None
    """How its health is checked; None: it is not."""
    mounts: MountRecords | None = None
    """Mounts from flags and image. Their volumes count as used while the container exists."""
    cap_add: list[str] | None = None
    """--cap-add, as the user wrote it."""
    cap_drop: list[str] | None = None
    """--cap-drop, too."""
    joined: dict[str, str] = {}
    """Kind of namespace → id of the container whose it is: --network, --pid, --ipc container:ID."""
    shared_memory: bool = False
    """Its /dev/shm is mounted on the host: minirun.running.shared_memory."""
    asked: Asked = {}
    """What the command line said, if nothing else says it as it was typed."""
    network: NetworkRequest | None = None
    """The networks that it asks for. None: lo alone, or those that its config.json has."""

    @property
    def never_began(self) -> bool:
        """True if its start has failed, and its command has never run."""
        return bool(self.start_error) and not self.begun

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The networks that it is to be on."""
        return self.network.networks if self.network else ()


def of(record: ContainerRecord) -> DockerRecord:
    """Return docker's fields of a container's record."""
    rows = ((name, record.rest.get(name)) for name in DockerRecord._fields)
    set_ = {name: value for name, value in rows if value is not None}
    return DockerRecord(**set_ | _inner(set_))


def put(record: ContainerRecord, docker: DockerRecord) -> ContainerRecord:
    """Return the record with these fields of docker's, in place of those that it has.

    A field that does not change stays as it stands: an earlier minirun may read it next.
    """
    was = of(record)._asdict()
    new = {name: value for name, value in docker._asdict().items() if value != was[name]}
    new |= {name: new[name].as_json() for name in _RECORDS if new.get(name)}
    return record._replace(rest=record.rest | new)


def check(rest: dict[str, Any]) -> None:
    """Check docker's fields in ContainerRecord.rest. Raises ValueError if one is wrong."""
    usual = DockerRecord._field_defaults
    found = field_types.checked(rest, DockerRecord.__annotations__, usual, _TESTS)
    _inner(found)
    try:
        field_types.checked(found.get("asked", {}), _ASKED, _ASKED, TESTS)
    except ValueError as error:
        raise ValueError(f"asked: {error}") from None


def _inner(rows: dict[str, Any]) -> dict[str, Any]:
    """Return the records among the fields. Raises ValueError if a field of one is wrong."""
    found: dict[str, Any] = {}
    for name in _RECORDS.keys() & rows.keys():
        try:
            found[name] = _RECORDS[name](rows[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def _are_mounts(value: Any) -> bool:
    """Return True if this is a list of what minirun.cli.run.mount_flags notes."""
    if not isinstance(value, list):
        return False
    for row in value:
        if not isinstance(row, dict) or not texts(row.get("options")):
            return False
        words = [row.get(key) for key in ("name", "source", "target")]
        words += [row.get(key, "") for key in ("subpath", "tmpfs")]
        if row.get("type") not in ("volume", "bind", "tmpfs") or not texts(words):
            return False
        if row["target"][:1] != "/" or type(row.get("anonymous", False)) is not bool:
            return False
    return True


_RECORDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "health": health_check, "network": lambda row: network_request.from_json(row),
}  # fmt: skip
"""Field → what makes a record of its object."""
_ASKED = {
    "attach": "list[str]", "cgroup_parent": "str", "cidfile": "str", "detach": "bool",
    "device_cgroup_rule": "list[str]", "group_add": "list[str]", "init": "bool",
    "log_opt": "list[str]", "mount": "list[str]", "publish": "list[str]", "publish_all": "bool",
    "sysctl": "list[str]", "user": "str", "userns": "str", "volume": "list[str]",
    "volumes_from": "list[str]", "image": "str", "env": "list[str]", "entrypoint": "int",
}  # fmt: skip
"""Field of Asked → its type, as the class has it: each may be missing."""
_TESTS = {
    **TESTS, "MountRecords": (_are_mounts, "a list of mounts"),
    **dict.fromkeys(
        ("Asked", "Declared", "OutputRecord", "HealthCheck", "NetworkRequest"),
        TESTS["dict[str, Any]"],
    ),
}  # fmt: skip
