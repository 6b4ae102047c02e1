"""What the three shelves beside the runtime do in a run, if a flag or the container asks for it.

Each function loads the module that its body names, at the first call: the runtime imports no shelf,
and runs without them. minirun.core.rings does the same for the core. Where a shelf is not there,
each raises ModuleNotFoundError, of which :func:`missing` makes what the user is told.
"""

from __future__ import annotations

from minirun.core import rings
from minirun.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from minirun.core.container import Container
    from minirun.core.keeping.settings import Settings
    from minirun.oci.run_config import RunOptions
    from minirun.running.pipes import Audience

    class RunViewFlags(Protocol):
        """Flags of `run` that say what is shown of a start, as they were written."""

        step: str
        script: str
        rehearse: bool
        large: bool
        web: str
        progress: str
        plain: bool
        pace: str
        snapshots: bool
        tty: bool
        detach: bool


SHELVES = ("docker", "toolkit", "faces")


def audience(directory: str, stdin: int, master: int, once: bool) -> Audience:
    """Return the clients of a container in the background: none yet. Raises OSError."""
    make = rings.imported("minirun.docker.attached.Attached")
    made: Audience = make(directory, stdin, master, once)
    return made


def attach(
    container: Container, keys: str, *, stdin: bool, proxy: bool, first: Callable[[], None]
) -> int:
    """Put this terminal on a container; return its exit status: minirun.docker.attach.

    Raises MinirunError, OSError.
    """
    act = rings.imported("minirun.docker.attach.attach")
    return int(act(container, keys, stdin=stdin, proxy=proxy, first=first))


def check_restart(policy: str) -> None:
    """Raise UsageError unless --restart may say this."""
    rings.imported("minirun.docker.restarts.parse")(policy)


def go_on(container: Container, status: int, run: Callable[[Container], int]) -> int:
    """Run a container that has ended again, as --restart says; return its last exit status.

    Raises MinirunError, OSError.
    """
    return int(rings.imported("minirun.docker.restarts.go_on")(container, status, run))


def watch_health(container: Container) -> None:
    """Start the process that checks the health of a container, if one is to. Raises OSError."""
    rings.imported("minirun.docker.health.watch")(container)


def join_mps(options: RunOptions, text: str, settings: Settings) -> RunOptions:
    """Return the options of a client of NVIDIA's MPS. Raises UsageError, GPUError."""
    joined: RunOptions = rings.imported("minirun.toolkit.mps.join")(options, text, settings)
    return joined


def show_plan(container: Container) -> None:
    """Print what a start would do: --dry-run. Raises MinirunError, OSError."""
    rings.imported("minirun.faces.show.text.dry_run.write")(container)


def viewers(flags: RunViewFlags, *, show: bool) -> Any:
    """Return who looks on while the container starts, a minirun.running.output.Viewers.

    Raises UsageError, OSError.
    """
    return rings.imported("minirun.faces.commands.view.viewers")(flags, show=show)


def sweep_attempts(root: str) -> list[str]:
    """Remove what a killed `doctor` left below a state root; return its names. Raises OSError."""
    try:
        return list(rings.imported("minirun.faces.doctor.attempts.sweep")(root))
    except ModuleNotFoundError:
        return []  # without a doctor nothing is left of one


def missing(error: ModuleNotFoundError) -> UsageError | None:
    """Return what to tell the user if an import failed because a shelf is not there, else None."""
    shelf = (error.name or "").removeprefix("minirun.")
    return (
        UsageError(f"this needs minirun/{shelf}, which is not here") if shelf in SHELVES else None
    )
