"""The inventory: what this host has to give, before anybody has chosen.

The real stack asks twice: NVML (in a process of its own, without privileges) for the GPUs, and the
file system for everything else: ld.so.cache for libraries, PATH for binaries, fixed places for
nodes, sockets and firmware. So does minirun (minirun.gpu.nvidia.shared.real). The simulated driver
makes the same record; no code asks again which of the two it is, except to print SIMULATED.
"""

from __future__ import annotations

from minirun.core.keeping.record import Record


class Mig(Record):
    """A MIG device: a compute instance in a gpu instance, and the minors that guard the two.

    `gi_minor` and `ci_minor` are minors of nvidia-caps (/proc/driver/nvidia-caps/mig-minors).
    """

    uuid: str
    gi: int
    ci: int
    gi_minor: int
    ci_minor: int
    number: int = 0
    """NVML's, M in the CDI name N:M; where an instance was taken away, there is a hole."""


class Gpu(Record):
    """A GPU. `number` is NVML's index, which is not the minor; `bus_id` is NVML's, in full."""

    number: int
    minor: int
    uuid: str
    bus_id: str
    model: str
    brand: str = ""
    arch: str = ""
    migs: tuple[Mig, ...] = ()
    mig_enabled: bool = False
    """Whether it is split, if only into no MIG devices yet: as a whole it is of no use then."""

    @property
    def node(self) -> str:
        """The path of its device node."""
        return f"/dev/nvidia{self.minor}"

    @property
    def proc_name(self) -> str:
        """Its folder below /proc/driver/nvidia/gpus: the bus id with a domain of four digits."""
        domain, rest = self.bus_id.lower().split(":", 1)
        return f"{int(domain, 16):04x}:{rest}"


class HostFile(Record):
    """A file of the driver: `path` below the driver root, and the capabilities that bring it.

    `needs` names capabilities, separated by blanks; empty means that every container gets it.
    """

    path: str
    needs: str = ""

    def is_needed(self, capabilities: frozenset[str]) -> bool:
        """Return True if one of these capabilities brings it."""
        return not self.needs or not capabilities.isdisjoint(self.needs.split())


class ControlNode(Record):
    """A control node of the driver, which is not one of a GPU: nvidiactl, nvidia-uvm, …"""

    path: str
    major: int
    minor: int
    needs: str = ""


class Inventory(Record):
    """What the host has. Paths are below `root`, the driver root: "" for the host's own root."""

    driver: str
    cuda: str
    root: str
    gpus: tuple[Gpu, ...]
    libraries: tuple[HostFile, ...]
    libraries32: tuple[HostFile, ...]
    binaries: tuple[HostFile, ...]
    firmware: tuple[HostFile, ...]
    sockets: tuple[HostFile, ...]
    nodes: tuple[ControlNode, ...]
    major: int
    """The major of the GPUs' nodes."""
    caps_major: int
    """The major of nvidia-caps (MIG); 0 where there is none."""
    simulated: bool
    imex_major: int = 0
    """The major of the IMEX channels' nodes; 0 where there is none."""
    dev_root: str = ""
    """Below which root the nodes are."""
    store: tuple[HostFile, ...] = ()
    """WSL2: files that a container with a GPU gets at their own place. Its GPUs have no node."""

    def why_no_gpu(self) -> tuple[str, str]:
        """Return what to say if it has no GPU at all, and a hint."""
        if self.simulated:
            return "the SIMULATED driver has no gpu", "MINIRUN_SIM=count=4 gives it four"
        text = f"this host has no gpu: driver {self.driver} is loaded and sees none"
        return text, "nvidia-smi -L; dmesg | grep NVRM says why; --gpus none gives its files alone"

    def describe_gpus(self) -> str:
        """Say what there is: the hint of every error about a GPU that there is not."""
        names = [str(gpu.number) for gpu in self.gpus]
        names += [f"{gpu.number}:{at}" for gpu in self.gpus for at in range(len(gpu.migs))]
        kind = "the simulated driver" if self.simulated else "this host"
        return f"{kind} has {', '.join(names)}" if names else f"{kind} has no gpu"


class Notice(Record):
    """Something that is wrong with the host: what, where, and what to do."""

    text: str
    hint: str
    fatal: bool = False
    """The container would have nothing of what was asked for."""

    def __str__(self) -> str:
        """It as one line."""
        return f"{self.text} ({self.hint})"
