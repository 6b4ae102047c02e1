"""What a container is made of, key by key: `minirun inspect --json` prints it, the page reads it.

None, or an empty list, stands for what is not known: after the container's end the kernel says
nothing of it, and `live` is false.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import CgroupRecord


class NamespaceFacts(TypedDict):
    """One of init's namespaces, and who else lives in it."""

    inode: int
    host: bool
    """True if process 1 of the host is in it."""
    containers: list[str]
    """Ids of the other containers in it."""
    processes: int
    unseen: int
    """How many processes of the host could not be asked."""


class UserFacts(TypedDict):
    """Ids of init, as this process's user namespace has them: credentials(7)."""

    uid: dict[str, int]
    """Keys: real, effective, saved, filesystem."""
    gid: dict[str, int]
    groups: list[int]
    uidMap: list[dict[str, int]]
    """Rows of /proc/PID/uid_map: containerID, hostID, size."""
    gidMap: list[dict[str, int]]


class SeccompFacts(TypedDict):
    """`mode` is none, strict or filter; `filters` counts those that are installed."""

    mode: str
    filters: int


class Rights(TypedDict):
    """What a process may do: /proc/PID/status."""

    user: UserFacts
    capabilities: dict[str, list[str]]
    """Name of the set (effective, …) → names of capabilities."""
    seccomp: SeccompFacts
    noNewPrivileges: bool


class LayerFacts(TypedDict):
    """One layer of an overlay: number `layer` of `image`, if it is an image's."""

    path: str
    image: str
    layer: int | None
    idMapped: bool


class OverlayFacts(TypedDict):
    """The layers of an overlay; `lower` begins with the topmost."""

    lower: list[LayerFacts]
    upper: str
    volatile: bool


class MountFacts(TypedDict):
    """One mount: the fields of its line in /proc/PID/mountinfo, and its place in the tree."""

    id: int
    parent: int
    device: str
    root: str
    path: str
    type: str
    source: str
    options: list[str]
    propagation: list[str]
    superOptions: str
    masked: bool
    """True if the mount hides one of config.json's maskedPaths."""
    depth: int
    layers: NotRequired[OverlayFacts]


class NodeFacts(TypedDict):
    """One device node in the container's /dev; `access` is out of "rwm", None if not known."""

    path: str
    type: str
    major: int
    minor: int
    access: str | None
    simulated: bool


class NetworkRow(TypedDict):
    """One network that the container is on; None for a link that the kernel does not have."""

    network: str
    bridge: str | None
    """The bridge that the host's end is plugged into."""
    link: str | None
    """The host's end of the veth pair."""
    interface: str | None
    """The container's."""
    addresses: list[str]
    """With the length of the network: 10.88.0.2/16."""
    ports: list[str]
    """Published ones, 0.0.0.0:8080->80/tcp, as its record has them."""


class Ending(TypedDict):
    """How a hook ended: `status` is None if it did not end by itself, `duration` is in ns."""

    ran: bool
    status: int | None
    duration: int | None
    inLine: NotRequired[bool]
    """True for NVIDIA's hook, of which stages 4 and 5 do the work."""


class HookFacts(Ending):
    """One hook of config.json."""

    kind: str
    path: str


class StageFacts(TypedDict):
    """One stage as the log has it; `duration` is in ns, None if it never ended."""

    stage: int
    actor: str
    name: str
    duration: int | None
    error: str


class LimitFacts(TypedDict, total=False):
    """Limits of a cgroup: bytes, tasks, weights, CPUs (1.5), a list of CPUs; None for no limit."""

    memory: int | None
    swap: int | None
    memoryAndSwap: int | None
    pids: int | None
    cpuShares: int | None
    cpuWeight: int | None
    cpus: float | None
    cpuset: str | None


class ConfigUser(TypedDict):
    """config.json's process.user."""

    uid: int
    gid: int
    groups: list[int]


class ConfigSeccomp(TypedDict):
    """A profile of system calls: its name, calls allowed by name, BPF instructions."""

    profile: str
    allowed: int
    instructions: int


class ConfigFacts(TypedDict):
    """What config.json asks for."""

    namespaces: dict[str, str]
    """Kind → "new", or the path of the one to join."""
    user: ConfigUser
    capabilities: dict[str, list[str]]
    noNewPrivileges: bool
    seccomp: ConfigSeccomp | None
    readonly: bool
    layers: list[str]
    mounts: list[dict[str, Any]]
    """Rows of config.json."""
    deviceRules: list[str]
    limits: LimitFacts


class Anatomy(TypedDict):
    """All that is known of a container. The first nine keys but the name are runc's `state`."""

    ociVersion: str
    id: str
    name: str
    """Its id, if it has no other."""
    status: str
    pid: int
    bundle: str
    annotations: dict[str, str]
    rootfs: str
    created: str
    owner: str
    live: bool
    """True if the container runs, and the kernel was asked."""
    image: str | None
    layers: list[dict[str, Any]]
    """Lowest first, as minirun.image.store.LayerOrigin has them; empty without an overlay."""
    declared: dict[str, Any]
    """What its image declares beside files: volumes, stop_signal, labels, healthcheck."""
    args: list[str] | None
    exitStatus: int | None
    cgroup: CgroupRecord | None
    namespaces: dict[str, NamespaceFacts]
    user: UserFacts | None
    capabilities: dict[str, list[str]]
    seccomp: SeccompFacts | None
    noNewPrivileges: bool | None
    mounts: list[MountFacts]
    devices: list[NodeFacts]
    deviceRules: list[str] | None
    interfaces: list[dict[str, Any]]
    """As minirun.net.interfaces has them."""
    networks: list[NetworkRow]
    limits: LimitFacts
    usage: dict[str, int | None] | None
    """As minirun.cgroups.stats.usage has it."""
    memberOf: dict[str, str]
    """Hierarchy → init's cgroup."""
    hooks: list[HookFacts]
    gpus: dict[str, Any]
    """edits.json, as stage 5 wrote it."""
    stages: list[StageFacts]
    wanted: ConfigFacts
    differences: list[str]
