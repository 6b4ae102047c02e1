"""What minirun knows of a container between two commands, field by field: state.json.

This class is the one list of the fields. A field without a default stands in every record; one that
has its default is left out of the file. A field's type says what it has to be when it is read back:
minirun.core.keeping.field_types has a test for each type. A record is not changed but replaced
(`_replace`), and then written whole: minirun.core.container.Container.save.
"""

from __future__ import annotations

import os

from minirun.core.errors import StateError
from minirun.core.keeping import field_types
from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NotRequired, TypedDict

    Pid = int
    Status = str
    Time = str
    ExitStatus = int
    CgroupVersion = str
    Switch = bool | str  # a text, empty for false, in records of early versions

    class ProcessIdentity(TypedDict):
        """What a process is recognized by: minirun.core.keeping.state.identity."""

        pid: int
        start: int
        """In clock ticks since boot."""
        boot: str
        """The id of that boot of the machine."""

    class CgroupRecord(TypedDict):
        """What is kept of a cgroup: minirun.cgroups.Cgroup.record."""

        version: int
        """0 if there is none."""
        path: str
        dirs: dict[str, str]
        """Controller → directory; on version 2 the one name is empty."""
        rootless: NotRequired[bool]
        reason: NotRequired[str]
        """Why there is none."""
        slice: NotRequired[str]
        scope: NotRequired[str]
        """The unit of systemd."""

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

    class HostMountRecord(TypedDict):
        """What a mount among the host's is found by: minirun.oci.mounts.host_namespace."""

        id: int
        directory: list[int]
        """Device and inode of the directory that is mounted."""
        boot: str


STOP_TIMEOUT = 10
"""Seconds that `stop` waits before SIGKILL unless a flag says otherwise: docker's."""


class ContainerRecord(Record):
    """A container's record. state.json has these names, in this order."""

    ociVersion: str
    """The version of the runtime-spec that the container was made by."""
    id: str
    """Its name below the state root: minirun.core.keeping.state.check_id."""
    status: Status
    """One of field_types.STATUSES, as of the last write; minirun.core.keeping.state.refresh."""
    pid: Pid
    """Init's, as the host counts; 0 before there is one and after its end."""
    bundle: str
    """The directory of config.json at the start, absolute."""
    rootfs: str
    """The directory that becomes the container's root, absolute."""
    annotations: dict[str, str]
    """Of config.json."""
    created: Time
    """When it was made: minirun.core.keeping.state.timestamp."""
    directory: str
    """The container's own directory: ROOT/ID."""
    init: ProcessIdentity | None
    """The container's first process; None before it is made."""
    supervisor: ProcessIdentity
    """The process that makes the container; of `run` it stays until the end."""
    complete: bool
    """True once `create` or `run` has done all. If not, and the supervisor is gone: an orphan."""
    managed: bool
    """True if `run IMAGE` made it, and so a supervisor records its end."""
    auto_remove: bool
    """It is removed at its end (--rm)."""
    cgroup_path: str
    """linux.cgroupsPath, or minirun's own name for the cgroup; of systemd slice:prefix:name."""
    systemd_cgroup: bool
    """systemd makes the cgroup (--systemd-cgroup)."""
    cgroup_version: CgroupVersion
    """auto, v1 or v2: which hierarchies are used."""
    unprivileged: bool = False
    """Its user has no privileges on the host: minirun.engines.rootless."""
    choices: Any = {}
    """minirun.core.keeping.choices.Choices, without its defaults; minirun.running.lookup checks."""
    groups_denied: bool = False
    """setgroups(2) is denied in its user namespace: user_namespaces(7)."""
    image: str | None = None
    """The image's name; "" for a step of a build, None for a bundle."""
    args: list[str] | None = None
    """The command at the start."""
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
    declared: dict[str, Any] | None = None
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
    output: dict[str, Any] | None = None
    """minirun.running.output.OutputLimits; None: what it writes is not kept."""
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
    no_pivot: Switch = False
    """Stage 7 moves the root mount in place of pivot_root (--no-pivot)."""
    no_new_keyring: Switch = False
    """It stays in the caller's session keyring (--no-new-keyring)."""
    origin: dict[str, str] | None = None
    """Which engine has asked for it, for what: minirun.engines.origin."""
    cgroup: CgroupRecord | None = None
    """The cgroup that was made; None before."""
    root_mount: HostMountRecord | None = None
    """Its root among the host's mounts, if it has no mount namespace of its own."""
    resources: dict[str, Any] | None = None
    """The limits that `update` has set, in place of config.json's linux.resources."""
    exit_status: ExitStatus | None = None
    """The command's, 128 + n for signal n; None while it runs, or if no supervisor saw its end."""
    finished: Time | None = None
    """When it ended; None as for the exit status."""
    poststop_done: bool = False
    """The poststop hooks have run, or run now."""
    unknown: dict[str, Any] = {}
    """What another version of minirun has written, by name: it is written again."""

    def as_json(self) -> dict[str, Any]:
        """Return what state.json says."""
        known = self._asdict()
        unknown: dict[str, Any] = known.pop("unknown")
        usual = self._field_defaults
        rows = known.items()
        return {k: v for k, v in rows if k not in usual or v != usual[k]} | unknown

    def first_process(self) -> ProcessIdentity:
        """Return what init is recognized by. Raises StateError if there was none yet."""
        if self.init is None:
            raise StateError("container not running")
        return self.init


def parse(value: Any, directory: str) -> ContainerRecord:
    """Return the record that a state.json holds.

    Raises ValueError if it is not one that minirun has written for the container `directory`.
    """
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    field_types.check_plain(value)
    fields = {name: value[name] for name in value if _is_set(value, name)}
    for name, kind in _TYPES.items():
        if name not in fields:
            if name not in ContainerRecord._field_defaults:
                raise ValueError(f"{name} is missing")
        elif fields[name] is not None or not kind.endswith(_OR_NONE):
            is_right, what = field_types.TESTS[kind.removesuffix(_OR_NONE)]
            if not is_right(fields[name]):
                raise ValueError(f"{name} is not {what}")
    if fields["id"] != directory.rpartition("/")[2]:
        raise ValueError(f"it is the record of {fields['id']!r}")
    if fields["directory"] != directory and not _is_same(fields["directory"], directory):
        raise ValueError(f"it is the record of {fields['directory']!r}")
    unknown = {name: value[name] for name in value if name not in _TYPES}
    return ContainerRecord(**fields, unknown=unknown)


def _is_set(value: dict[str, Any], name: str) -> bool:
    """Return True for a field of ours, unless it is null and has a default."""
    is_unset = value[name] is None and name in ContainerRecord._field_defaults
    return name in _TYPES and not is_unset


def _is_same(one: str, other: str) -> bool:
    """Return True if two paths lead to one directory: a root may be reached by a link."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


_OR_NONE = " | None"
_TYPES: dict[str, str] = {
    name: kind for name, kind in ContainerRecord.__annotations__.items() if name != "unknown"
}
"""Field of state.json → its type, as it is written above."""
