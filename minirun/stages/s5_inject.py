"""Stage 5: nvidia-container-cli's work, in-line: the GPUs go into the half-started container.

It enters the container's mount namespace, as the real one does: the mounts are made, pivot_root
has not happened, and init waits.
"""

from minirun import events, jsonlite
from minirun.container import Container
from minirun.gpu import apply
from minirun.gpu.inventory import Inventory, inventory
from minirun.oci import state
from minirun.oci.config import GPU_DRIVER


def look(container: Container) -> Inventory:
    """Return what GPUs and driver files the host has. Raises GPUError, OSError."""
    driver = container.config.annotations.get(GPU_DRIVER) or "nvidia"
    return inventory(driver, container.settings.store)


def cli(container: Container, argv: "list[str]", pid: int, found: Inventory) -> None:
    """Do what `argv` says to the container whose init is `pid`; write edits.json.

    Raises GPUError, OSError.
    """
    if found.simulated:
        events.mark("SIMULATED")
    why = "device nodes, libraries, binaries, /proc/driver/nvidia, cgroup rules, ldconfig"
    with events.stage(5, "cli", "put the GPUs in", why=why):
        edits = apply.configure(
            argv, found=found, pid=pid, cgroup=container.cgroup,
            undo_failure=not container.config.layers,
        )  # fmt: skip
        state.write(f"{container.directory}/edits.json", jsonlite.dumps(apply.record(edits)))
