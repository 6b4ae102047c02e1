"""Who has which GPU: one table for all containers of a state root, changed under a lock.

    ROOT/.gpus/holders.json     a row for each GPU of each container
    ROOT/.gpus                  locked (flock(2)) from the look at the table to the new row

The driver lets any number of processes use a GPU, one after the other in time slices, and NVIDIA's
container stack keeps no books: whoever asks gets it. Kubernetes keeps them in its device plugin, so
that a GPU has one container. Here it is the user who says so, with `--gpus 0,exclusive`.

A row counts as long as its container runs; no process has to remove it, so a crash leaves no claim
behind. A GPU that `count=N` has chosen is reserved by the process that chose it, until stage 5 puts
the container's name there. Only containers of the same state root know of each other.
"""

import fcntl
import os

from minirun.core import events, jsonlite, places, state
from minirun.core.container import Container
from minirun.core.errors import GPUError, StateError
from minirun.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.gpu.edits import GivenGpu

TABLE = "holders.json"
HINT = "minirun gpu ps shows who has which"


class Holder(Record):
    """A row: a container, and a GPU or MIG device that it has."""

    gpu: str
    """Its index: N, or N:M for a MIG device."""
    driver: str
    """nvidia, simulated, or another vendor's: each counts its GPUs from 0."""
    container: str
    created: str
    """When that container was made, as its record says it; empty for a reservation."""
    exclusive: bool = False
    uuid: str = ""
    model: str = ""
    maker: "dict[str, Any] | None" = None
    """Of a reservation: the process that holds it (minirun.core.state.identity)."""

    def counts(self, root: str) -> bool:
        """Whether the container runs, or is about to."""
        if not self.created:
            return state.is_alive(self.maker)
        try:
            record = state.load(root, self.container)
        except StateError:
            return False
        alive: bool = record["status"] != state.STOPPED
        return alive and record["created"] == self.created


class Locked:
    """``with Locked(root) as table:`` reads the rows; no other process can until the block ends."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = f"{root}/{places.GPU_HOLDERS}"
        self.rows: "list[Holder]" = []
        os.makedirs(root, mode=0o711, exist_ok=True)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def __enter__(self) -> "Locked":
        self.fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            self.rows = read(self.root)
        except BaseException:
            os.close(self.fd)
            raise
        return self

    def write(self, rows: "list[Holder]") -> None:
        """Put these rows into the table, in one step. Raises OSError."""
        text = jsonlite.dumps([row._asdict() for row in rows])
        state.replace(f"{self.folder}/{TABLE}", text, f"{self.folder}/.{TABLE}")

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def read(root: str) -> "list[Holder]":
    """Return all rows, those that do not count any more too. Raises GPUError, OSError."""
    path = f"{root}/{places.GPU_HOLDERS}/{TABLE}"
    try:
        return [Holder(**row) for row in jsonlite.loads(state.read_text(path))]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise GPUError(f"{path} is damaged: {error}", "remove it") from None


def holders(root: str) -> "list[Holder]":
    """Return the rows of containers that run. Raises GPUError, OSError."""
    return [row for row in read(root) if row.created and row.counts(root)]


def overlap(one: str, other: str) -> bool:
    """Whether two indices are the same GPU, or a GPU and a MIG device of it."""
    return one == other or one == other.partition(":")[0] or other == one.partition(":")[0]


def record_holders(container: Container, given: "tuple[GivenGpu, ...]", simulated: bool) -> None:
    """Write down that a container has these GPUs; the log says which of them it shares.

    They are exclusive where the caller chose it. Raises GPUError, OSError.
    """
    exclusive = container.config.choices.exclusive
    driver = "simulated" if simulated else "nvidia"
    created = container.record["created"]
    rows = [
        Holder(
            gpu.name, gpu.vendor or driver, container.id, created, exclusive, gpu.uuid, gpu.model
        )
        for gpu in given
    ]
    if not rows:
        return
    for gpu, others in claim(container.settings.root, rows).items():
        why = "time-slicing: they take turns; its memory goes to whoever asks first"
        events.emit("note", "gpu shared", {"gpu": gpu, "with": others}, why=why)
    if exclusive:
        names = [row.gpu for row in rows]
        why = "no other container of this state root gets them while this one runs"
        events.emit("note", "gpu exclusive", {"gpus": names}, why=why)


def claim(root: str, rows: "list[Holder]") -> "dict[str, list[str]]":
    """Add one container's rows to the table; return GPU → the other holders, if there are any.

    Raises GPUError where one of them is exclusive and another container has it, or may not.
    """
    mine = rows[0].container
    shared: "dict[str, list[str]]" = {}
    with Locked(root) as table:
        kept = []
        for held in table.rows:
            if held.container == mine and held.created in ("", rows[0].created):
                continue  # what was reserved for it
            same = [row for row in rows if row.driver == held.driver]
            met = [row for row in same if overlap(row.gpu, held.gpu)]
            if met and not held.counts(root):
                continue
            kept.append(held)
            for row in met:
                if row.exclusive or held.exclusive:
                    raise _refusal(row, held)
                if held.container not in shared.setdefault(row.gpu, []):
                    shared[row.gpu].append(held.container)
        table.write([*kept, *rows])
    return shared


def _refusal(row: Holder, held: Holder) -> GPUError:
    it = "it" if row.gpu == held.gpu else held.gpu
    if held.exclusive:
        text = f"gpu {held.gpu} is exclusive to container {held.container!r}"
        return GPUError(text, f"--gpus count=1 takes another one; {HINT}")
    return GPUError(
        f"gpu {row.gpu} cannot be exclusive: container {held.container!r} has {it}", HINT
    )
