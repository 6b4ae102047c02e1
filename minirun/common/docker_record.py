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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NotRequired, TypedDict

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

    class OutputRecord(TypedDict):
        """How much of the output is kept: minirun.running.output.OutputLimits."""

        max_size: int
        """Bytes of one file; -1: no limit."""
        max_file: int


STOP_TIMEOUT = 10
"""Seconds that `stop` waits before SIGKILL unless a flag says otherwise: docker's."""


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
    stop_timeout: int = STOP_TIMEOUT
    """Seconds that `stop` waits before SIGKILL."""
    interactive: bool = False
    """Its standard input is kept open (-i)."""
    output: OutputRecord | None = None
    """How much of what it writes is kept; None: nothing."""
    health: dict[str, Any] | None = None
    """How its health is checked: minirun.docker.health; None: it is not."""
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
    network: dict[str, Any] | None = None
    """What it is to have of networks: minirun.net.request. None: lo alone, or its config.json's."""


def of(record: ContainerRecord) -> DockerRecord:
    """Return docker's fields of a container's record."""
    set_ = {name: record.rest.get(name) for name in DockerRecord._fields}
    return DockerRecord(**{name: value for name, value in set_.items() if value is not None})


def put(record: ContainerRecord, docker: DockerRecord) -> ContainerRecord:
    """Return the record with these fields of docker's, in place of those that it has.

    A field that stood in it stays, also with its default: an earlier minirun may read it next.
    """
    usual, was, rows = DockerRecord._field_defaults, record.rest, docker._asdict().items()
    return record._replace(rest=was | {k: v for k, v in rows if k in was or v != usual[k]})


def check(rest: dict[str, Any]) -> None:
    """Check docker's fields in ContainerRecord.rest. Raises ValueError if one is wrong."""
    field_types.checked(rest, DockerRecord.__annotations__, DockerRecord._field_defaults, _TESTS)


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


_TESTS = {
    **TESTS, "MountRecords": (_are_mounts, "a list of mounts"),
    "Declared": TESTS["dict[str, Any]"], "OutputRecord": TESTS["dict[str, Any]"],
}  # fmt: skip
