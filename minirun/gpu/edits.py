"""Edits: what a GPU needs in a container, in the words of CDI's containerEdits.

Every vendor is a planner that makes Edits; one applier (minirun.gpu.apply) puts them in. CDI groups
them by kind; here they stand as steps in the order in which they are applied, since the log, the
cgroup and the lesson all follow that order, and the groups are read from it.

Source: the Container Device Interface specification, "containerEdits".
"""

from minirun.cgroups.rules import DeviceRule
from minirun.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class DeviceNode(Record):
    """A device node: CDI's deviceNodes entry. `permissions` is out of "rwm".

    CDI may leave open what it is: `kind` "" and `major` 0 are looked up on the host, `mode` None is
    the runtime's default, `uid` and `gid` None are those of the container's process.
    """

    path: str
    kind: str
    major: int
    minor: int
    mode: "int | None" = 0o666
    uid: "int | None" = 0
    gid: "int | None" = 0
    permissions: str = "rw"
    host_path: str = ""
    """The host's node to bind. Empty: none exists there (simulated driver), so one is made.

    In CDI, where the runtime makes every node: empty if its path is the same.
    """


FILE = ("ro", "nosuid", "nodev")
"""Options of a mounted file of the driver."""


class BindMount(Record):
    """A file, directory or socket of the host, bound into the container."""

    host_path: str
    path: str
    options: "tuple[str, ...]" = FILE
    kind: str = ""
    """CDI's type, for what is no file of the host."""


class Link(Record):
    """A symbolic link made in the container; a name that is there already is left alone."""

    target: str
    path: str


class File(Record):
    """A file of a Tmpfs; `path` is its whole path in the container."""

    path: str
    data: bytes
    mode: int = 0o444


class Tmpfs(Record):
    """A fresh tmpfs that hides what the container had at `path` and holds these files."""

    path: str
    files: "tuple[File, ...]" = ()
    mode: int = 0o555


class GivenGpu(Record):
    """A GPU, or a MIG device of one, that the container gets: `name` is its index, N or N:M."""

    name: str
    minor: int
    uuid: str
    model: str
    vendor: str = ""
    """amd, intel or gaudi; empty for NVIDIA, and for the simulated driver."""

    def as_json(self) -> "dict[str, Any]":
        """Return its row in edits.json."""
        return {"index": self.name, "minor": self.minor, "uuid": self.uuid, "model": self.model}


class CompatLibrary(Record):
    """A CUDA compatibility library of the image, bound beside the driver's own.

    The only thing of an image that is ever a mount's source, and never by its path: `fd` was opened
    inside the container's root (minirun.gpu.nvidia.cli.compat). `source` is only shown.
    """

    fd: int
    source: str
    path: str


class CdiHook(Record):
    """A hook for config.json: CDI's hooks entry; `timeout` in seconds, 0 for none."""

    name: str
    """The kind of hook: createContainer, ..."""
    path: str
    args: "tuple[str, ...]" = ()
    env: "tuple[str, ...]" = ()
    timeout: int = 0


class CdiNetDevice(Record):
    """A network interface of the host that is moved into the container: CDI's netDevices entry."""

    host_name: str
    name: str


if TYPE_CHECKING:
    Step = DeviceNode | BindMount | Link | Tmpfs | CompatLibrary


class Edits(Record):
    """All that one request adds to a container."""

    steps: "tuple[Step, ...]" = ()
    """In the order in which they are applied."""
    env: "tuple[str, ...]" = ()
    gpus: "tuple[GivenGpu, ...]" = ()
    ldconfig: str = ""
    """The host's ldconfig to run in the container afterwards; empty for none."""
    library_folders: "tuple[str, ...]" = ()
    """Folders of the container that it looks through for new libraries."""
    driver: str = ""
    driver_root: str = ""
    """The folder out of which no source leads (minirun.gpu.driverroot); "" for the host's own."""
    simulated: bool = False
    """True where no driver is behind all this (design, section 4)."""
    rules: "tuple[DeviceRule, ...]" = ()
    """Rules of the cgroup for devices without a node of their own here: MIG configuration."""
    hooks: "tuple[CdiHook, ...]" = ()
    net_devices: "tuple[CdiNetDevice, ...]" = ()
    intel_rdt: "dict[str, Any] | None" = None
    """linux.intelRdt, as config.json has it."""
    groups: "tuple[int, ...]" = ()
    """CDI's additionalGids: the groups that may use the nodes."""

    @property
    def device_nodes(self) -> "tuple[DeviceNode, ...]":
        """CDI's deviceNodes."""
        return tuple(step for step in self.steps if isinstance(step, DeviceNode))

    @property
    def mounts(self) -> "tuple[BindMount, ...]":
        """CDI's mounts."""
        return tuple(step for step in self.steps if isinstance(step, BindMount))

    @property
    def links(self) -> "tuple[Link, ...]":
        """The symbolic links."""
        return tuple(step for step in self.steps if isinstance(step, Link))

    @property
    def names(self) -> "list[str]":
        """The paths that need a name in the container's own tree: what is not in /dev or /proc."""
        steps = (step for step in self.steps if not isinstance(step, DeviceNode))
        return [step.path for step in steps if not step.path.startswith("/proc/")]

    def device_rules(self) -> "list[DeviceRule]":
        """The cgroup's rules: exactly these nodes, by major and minor, never a whole major."""
        nodes = [
            DeviceRule(True, node.kind, node.major, node.minor, node.permissions)
            for node in self.device_nodes
        ]
        return [*nodes, *self.rules] if self.rules else nodes

    def as_json(self) -> "dict[str, Any]":
        """What is written to the container's edits.json: CDI's names where CDI has one."""
        nodes = [
            {
                "path": node.path, "hostPath": node.host_path, "type": node.kind,
                "major": node.major, "minor": node.minor, "fileMode": node.mode,
                "permissions": node.permissions, "uid": node.uid, "gid": node.gid,
            }
            for node in self.device_nodes
        ]  # fmt: skip
        mounts = [
            {"hostPath": m.host_path, "containerPath": m.path, "options": list(m.options)}
            for m in self.mounts
        ]
        return {
            "gpus": [gpu.as_json() for gpu in self.gpus],
            "driver": self.driver,
            "simulated": self.simulated,
            "env": list(self.env),
            "deviceNodes": nodes,
            "mounts": mounts,
            "links": [link._asdict() for link in self.links],
            "compatLibraries": [
                {"source": step.source, "containerPath": step.path}
                for step in self.steps
                if isinstance(step, CompatLibrary)
            ],
            "ldconfig": self.ldconfig,
            "libraryFolders": list(self.library_folders),
        }
