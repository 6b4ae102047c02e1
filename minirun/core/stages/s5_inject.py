"""Stage 5: nvidia-container-cli's work, in-line: the GPUs go into the half-started container.

It enters the container's mount namespace, as the real one does: the mounts are made, pivot_root
has not happened, and init waits. How the arguments become device nodes, mounts and rules is in
minirun.gpu.inject, the one module of the rings that a stage names.
"""

from __future__ import annotations

from minirun.core import events
from minirun.core.container import Container
from minirun.core.keeping import jsonlite, places, state
from minirun.gpu import inject


def cli(container: Container, argv: list[str], pid: int) -> None:
    """Do what `argv` says to the container whose init is `pid`; write edits.json.

    Raises GPUError, OSError.
    """
    if inject.is_simulated(container.config):
        events.mark("SIMULATED")
    why = "device nodes, libraries, binaries, /proc/driver/nvidia, cgroup rules, ldconfig"
    with events.stage(5, "cli", "put the GPUs in", why=why):
        edits = inject.put_in(container, argv, pid)
        state.write(f"{container.directory}/{places.EDITS}", jsonlite.dumps(edits.as_json()))
