"""What minirun knows of a container between two commands, field by field: state.json.

This class is the one list of the core's fields. A field without a default stands in every record;
one that has its default is left out of the file. A field's type says what it has to be when it is
read back: minirun.core.keeping.field_types has a test for each type. A record is not changed but
replaced (`_replace`), and then written whole: minirun.core.container.Container.save.
"""

from __future__ import annotations

import os

from minirun.core.errors import StateError
from minirun.core.keeping import field_types
from minirun.core.keeping.choices import DEFAULTS, Choices
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy

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

    class HostMountRecord(TypedDict):
        """What a mount among the host's is found by: minirun.oci.mounts.host_namespace."""

        id: int
        directory: list[int]
        """Device and inode of the directory that is mounted."""
        boot: str


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
    cgroup_path: str
    """linux.cgroupsPath, or minirun's own name for the cgroup; of systemd slice:prefix:name."""
    systemd_cgroup: bool
    """systemd makes the cgroup (--systemd-cgroup)."""
    cgroup_version: CgroupVersion
    """auto, v1 or v2: which hierarchies are used."""
    unprivileged: bool = False
    """Its user has no privileges on the host: minirun.engines.rootless."""
    choices: Choices = DEFAULTS
    """What only the caller may choose; in state.json without its defaults."""
    groups_denied: bool = False
    """setgroups(2) is denied in its user namespace: user_namespaces(7)."""
    args: list[str] | None = None
    """The command at the start."""
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
    rest: dict[str, Any] = {}
    """All else in state.json, by name, which the core does not read and writes again.

    For docker's verbs: minirun.common.docker_record; and what another version of minirun has
    written.
    """

    def as_json(self) -> dict[str, Any]:
        """Return what state.json says."""
        fields, usual = self._asdict(), self._field_defaults
        rest: dict[str, Any] = fields.pop("rest")
        written = {k: v for k, v in fields.items() if k not in usual or v != usual[k]}
        if "choices" in written:
            written["choices"] = self.choices.as_json()
        return written | rest

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
    defaults = ContainerRecord._field_defaults
    fields = field_types.checked(value, _TYPES, defaults, field_types.TESTS)
    if "choices" in fields:
        fields["choices"] = _choices(fields["choices"])
    if fields["id"] != directory.rpartition("/")[2]:
        raise ValueError(f"it is the record of {fields['id']!r}")
    if fields["directory"] != directory and not _is_same(fields["directory"], directory):
        raise ValueError(f"it is the record of {fields['directory']!r}")
    rest = {name: value[name] for name in value if name not in _TYPES}
    if rest:
        lazy.load("minirun.common.docker_record").check(rest)
    record = ContainerRecord(**fields, rest=rest)
    if record.cgroup and not _is_own(record.cgroup, record):
        raise ValueError(f"cgroup {record.cgroup['path']!r} is not the container's")
    return record


def _choices(value: dict[str, Any]) -> Choices:
    """Return the choices in a record. Raises ValueError for one that there is not, or is wrong."""
    if strange := value.keys() - _CHOICES.keys():
        raise ValueError(f"choices: there is no {min(strange)}")
    try:
        kept = field_types.checked(value, _CHOICES, Choices._field_defaults, field_types.TESTS)
    except ValueError as error:
        raise ValueError(f"choices: {error}") from None
    if "layers" in kept:
        kept["layers"] = tuple(kept["layers"])
    return Choices(**kept)


def _is_own(cgroup: CgroupRecord, record: ContainerRecord) -> bool:
    """Return True if a cgroup is the one that the record names. It goes with the container."""
    path, named = cgroup["path"], record.cgroup_path
    if record.systemd_cgroup:
        return path.endswith(f"{named.rpartition(':')[2]}.scope") and "scope" in cgroup
    return [part for part in named.split("/") if part not in ("", ".")] == path[1:].split("/")


def _is_same(one: str, other: str) -> bool:
    """Return True if two paths lead to one directory: a root may be reached by a link."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


_TYPES: dict[str, str] = {
    name: kind for name, kind in ContainerRecord.__annotations__.items() if name != "rest"
}
"""Field of state.json → its type, as it is written above."""
_CHOICES: dict[str, str] = Choices.__annotations__
