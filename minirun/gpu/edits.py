"""Edits: what a GPU needs in a container, in the words of CDI's containerEdits.

Every vendor is a planner that makes Edits; one applier (minirun.gpu.apply) puts them in. CDI groups
them by kind; here they stand as steps (minirun.gpu.steps) in the order in which they are applied:
the log, the cgroup and the lesson all follow that order, and the groups are read from it.

Source: the Container Device Interface specification, "containerEdits".
"""

from __future__ import annotations

from minirun.cgroups.rules import DeviceRule
from minirun.core.keeping.record import Record
from minirun.gpu.steps import BindMount, CompatLibrary, DeviceNode, Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.gpu.steps import Step

_NODE = (
    "path", "type", "major", "minor", "fileMode", "uid", "gid", "permissions", "hostPath",
)  # fmt: skip
"""CDI's names for the fields of a DeviceNode, in their order."""


class GivenGpu(Record):
    """A GPU, or a MIG device of one, that the container gets: `name` is its index, N or N:M."""

    name: str
    minor: int
    uuid: str
    model: str
    vendor: str = ""
    """amd, intel or gaudi; empty for NVIDIA, and for the simulated driver."""

    def as_json(self) -> dict[str, Any]:
        """Return its row in edits.json."""
        return {"index": self.name, "minor": self.minor, "uuid": self.uuid, "model": self.model}


class CdiHook(Record):
    """A hook for config.json: CDI's hooks entry; `timeout` in seconds, 0 for none."""

    name: str
    """The kind of hook: createContainer, ..."""
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int = 0


class CdiNetDevice(Record):
    """A network interface of the host that is moved into the container: CDI's netDevices entry."""

    host_name: str
    name: str


class Edits(Record):
    """All that one request adds to a container."""

    steps: tuple[Step, ...] = ()
    """In the order in which they are applied."""
    env: tuple[str, ...] = ()
    gpus: tuple[GivenGpu, ...] = ()
    ldconfig: str = ""
    """The host's ldconfig to run in the container afterwards; empty for none."""
    library_folders: tuple[str, ...] = ()
    """Folders of the container that it looks through for new libraries."""
    driver: str = ""
    driver_root: str = ""
    """The folder out of which no source leads (minirun.gpu.driverroot); "" for the host's own."""
    simulated: bool = False
    """True if the driver is simulated: the nodes are real, but no driver serves them."""
    no_cgroups: bool = False
    """True if no rule is given: no-cgroups in config.toml of NVIDIA's toolkit."""
    rules: tuple[DeviceRule, ...] = ()
    """Rules of the cgroup for devices without a node of their own here: MIG configuration."""
    hooks: tuple[CdiHook, ...] = ()
    net_devices: tuple[CdiNetDevice, ...] = ()
    intel_rdt: dict[str, Any] | None = None
    """linux.intelRdt, as config.json has it."""
    groups: tuple[int, ...] = ()
    """CDI's additionalGids: the groups that may use the nodes."""

    @property
    def device_nodes(self) -> tuple[DeviceNode, ...]:
        """The device nodes: CDI's deviceNodes."""
        return tuple(step for step in self.steps if isinstance(step, DeviceNode))

    @property
    def mounts(self) -> tuple[BindMount, ...]:
        """The bind mounts: CDI's mounts."""
        return tuple(step for step in self.steps if isinstance(step, BindMount))

    @property
    def links(self) -> tuple[Link, ...]:
        """The symbolic links."""
        return tuple(step for step in self.steps if isinstance(step, Link))

    def device_rules(self) -> list[DeviceRule]:
        """The cgroup's rules: exactly these nodes, by major and minor, never a whole major."""
        nodes = [
            DeviceRule(True, node.kind, node.major, node.minor, node.permissions)
            for node in self.device_nodes
        ]
        return [*nodes, *self.rules] if self.rules else nodes

    def as_json(self) -> dict[str, Any]:
        """What is written to the container's edits.json: CDI's names where CDI has one."""
        mounts = [
            {"hostPath": m.host_path, "containerPath": m.path, "options": list(m.options)}
            for m in self.mounts
        ]
        return {
            "gpus": [gpu.as_json() for gpu in self.gpus],
            "driver": self.driver,
            "simulated": self.simulated,
            "noCgroups": self.no_cgroups,
            "env": list(self.env),
            "deviceNodes": [dict(zip(_NODE, node, strict=True)) for node in self.device_nodes],
            "mounts": mounts,
            "links": [link._asdict() for link in self.links],
            "compatLibraries": [
                {"source": step.host_path, "containerPath": step.path}
                for step in self.steps
                if isinstance(step, CompatLibrary)
            ],
            "ldconfig": self.ldconfig,
            "libraryFolders": list(self.library_folders),
        }
