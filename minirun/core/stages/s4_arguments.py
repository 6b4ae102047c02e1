"""Stage 4: the hook turns config.json and environment into arguments for nvidia-container-cli.

It only translates: all that it decides is in the argument list, and the list is in the log;
stages/s5_inject does what the list says. The real one is nvidia-container-runtime-hook, and
minirun's own program of that name makes the list with the same function: minirun.gpu.nvidia.hook.
GPUs of another vendor need no hook: they are in config.json before stage 1, by CDI.
"""

from __future__ import annotations

from minirun.core import events, rings
from minirun.core.config import Config
from minirun.core.keeping import jsonlite, places
from minirun.core.keeping import state as oci_state
from minirun.core.keeping.choices import Choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def hook(state: dict[str, Any], chosen: Choices) -> list[str] | None:
    """Return the argument list for the container in `state`; None if it asks for no GPU.

    Reads config.json in the bundle that `state` names, as the real hook does. `chosen`,
    from the container's record, is what config.json cannot choose. Raises GPUError, OSError.
    """
    why = "an interface only: OCI in, command line out"
    with events.stage(4, "hook", "make arguments for nvidia-container-cli", why=why):
        document = jsonlite.loads(oci_state.read_text(f"{state['bundle']}/{places.CONFIG}"))
        config = Config(document, state["bundle"], chosen)
        argv = rings.gpu_arguments(config, state)
        note = "this is what the real hook would execute" if argv else "no GPU was asked for"
        events.emit("note", "nvidia-container-cli", {"argv": argv}, why=note)
    return argv
