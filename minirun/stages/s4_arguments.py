"""Stage 4: the hook turns config.json and environment into arguments for nvidia-container-cli.

It is an interface and nothing else: what it decides is all in the argument list that it makes,
and the list is in the log. The real one is nvidia-container-runtime-hook.
"""

from minirun import events, jsonlite
from minirun.gpu import hook as nvidia_hook
from minirun.oci import state as oci_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def hook(state: "dict[str, Any]") -> "list[str] | None":
    """Return the argument list for the container in `state`; None where it asks for no GPU.

    Reads config.json in the bundle that `state` names, as the real hook does.
    Raises GPUError, OSError.
    """
    why = "an interface only: OCI in, command line out"
    with events.stage(4, "hook", "make arguments for nvidia-container-cli", why=why):
        config = jsonlite.loads(oci_state.read_text(f"{state['bundle']}/config.json"))
        argv = nvidia_hook.command_line(config, state)
        note = "this is what the real hook would execute" if argv else "no GPU was asked for"
        events.emit("note", "nvidia-container-cli", {"argv": argv}, why=note)
    return argv
