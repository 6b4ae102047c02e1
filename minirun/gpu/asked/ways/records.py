"""The records of the ways to ask for GPUs: GpuRequest goes in, RunGpus and CdiEdits come out."""

from __future__ import annotations

from minirun.core import events
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.choices import DEFAULTS, Choices
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import say, warn
from minirun.core.lazy import lazy
from minirun.gpu import drivers

with lazy:
    from minirun.gpu import share
    from minirun.gpu.asked.ways import installed_hook  # for this mode alone
    from minirun.gpu.cdi import container_edits, inject
    from minirun.gpu.nvidia.cli import musl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.container import Container
    from minirun.core.keeping.settings import Settings
    from minirun.gpu.asked.request import GpuOptions
    from minirun.gpu.asked.select import GpuSelector
    from minirun.gpu.edits import Edits

_SIMULATED = "NO NVIDIA DRIVER ON THIS MACHINE: THE GPUS ARE SIMULATED (--gpu-driver=simulated)"


class GpuRequest(Record):
    """What one container asks for, and which container that is."""

    flags: GpuOptions
    selector: GpuSelector
    """The GPUs: of --gpus, else of the user's own NVIDIA_VISIBLE_DEVICES; empty if neither is."""
    settings: Settings
    container_id: str
    """GPUs that are chosen here (count=N) are reserved for it; "" reserves none."""

    def driver(self) -> str:
        """Return the driver: the chosen one, or what this host has. Raises UsageError, GPUError."""
        flags = self.flags
        return drivers.which_driver(
            flags.driver or "auto", flags.driver_root, load_kmods=flags.load_kmods
        )

    def driver_to_tell(self) -> str:
        """Return the driver, and say on standard error if it is the simulated one."""
        driver = self.driver()
        if driver == "simulated":
            self.tell_simulated()
        return driver

    def tell_simulated(self) -> None:
        """Say on standard error that the GPUs are simulated, unless the user chose that."""
        if not self.flags.driver:
            say(_SIMULATED)


class CdiEdits(Record):
    """The containerEdits for config.json, and what edits.json keeps of them."""

    edits: Edits
    """All of them; the device nodes are complete."""
    devices: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """What is written to the container's edits.json: see minirun.gpu.edits.Edits.as_json."""
        hooks = [container_edits.dump_hook(hook) for hook in self.edits.hooks]
        return {"cdi": list(self.devices), **self.edits.as_json(), "hooks": hooks}

    def record(self, container: Container) -> None:
        """Write down who has which GPU, which no stage 5 does. Raises GPUError, OSError."""
        edits = self.edits
        parts = {"nodes": edits.device_nodes, "mounts": edits.mounts, "hooks": edits.hooks}
        given = {"devices": self.devices} | {name: len(some) for name, some in parts.items()}
        why = "what they are made of stands in config.json: stage 1 makes it"
        events.emit("note", "CDI", given, why=why)
        share.record_holders(container, self.edits.gpus, self.edits.simulated)
        state.write(f"{container.directory}/{places.EDITS}", jsonlite.dumps(self.as_json()))

    def put_into(self, config: dict[str, Any], layers: tuple[str, ...]) -> None:
        """Put them into a config.json document for an image with these layers. Raises OSError."""
        if text := musl.misfit_of_layers(layers, self.edits):
            warn(f"{text} ({musl.ADVICE})")
        inject.apply(config, self.edits)


class RunGpus(Record):
    """What config.json, and the caller's choices, get for the GPUs of one container."""

    env: tuple[str, ...] = ()
    """The variables that NVIDIA's hook reads."""
    hook: dict[str, Any] | None = None
    cdi: CdiEdits | None = None
    warnings: tuple[str, ...] = ()
    choices: Choices = DEFAULTS
    names: tuple[str, ...] = ()
    """The CDI devices of another vendor than NVIDIA, before `cdi` has their edits."""
    kind: str = "nvidia.com/"
    """The beginning of CDI's names for GPUs of the vendor whose GPUs these are."""

    def by_variables(self, request: GpuRequest, driver: str, *env: str) -> RunGpus:
        """Return a copy with the variables `env`, which NVIDIA's hook reads. Raises UsageError."""
        is_hook = request.flags.mode == "hook"
        hook = installed_hook.row(driver, request.settings.store) if is_hook else None
        choices = self.choices._replace(gpu_driver=driver, gpu_hook=is_hook)
        return self._replace(env=env, hook=hook, choices=choices)
