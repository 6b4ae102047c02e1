"""Who has which GPU: one table for all containers of a state root, changed under a lock.

    ROOT/.gpus/holders.json     a row for each GPU of each container
    ROOT/.gpus                  locked (flock(2)) from the look at the table to the new row

The driver lets any number of processes use a GPU, one after the other in time slices, and NVIDIA's
container stack keeps no books: each container that asks gets it. Kubernetes keeps them in its
device plugin, so that a GPU has one container. Here it is the user who says so, with `--gpus
0,exclusive`.

A row counts as long as its container runs; no process has to remove it, so a crash leaves no claim
behind. A GPU that `count=N` has chosen is reserved by the process that chose it, until stage 5 puts
the container's name there.

Each state root has a table of its own. An exclusive GPU is so in every root that is known, and no
container has it by another way either (minirun.engines.holders). Where a root was named, it alone
counts, and beside it what minirun's own root has exclusively.

    count       which GPUs `--gpus count=N` chooses
    usage       who uses which GPU, now: Figure 1
"""

from __future__ import annotations

import fcntl
import os

from minirun.core import events, rings
from minirun.core.container import Container
from minirun.core.errors import GPUError, StateError
from minirun.core.keeping import jsonlite, places, state, state_file
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ProcessIdentity
    from minirun.gpu.edits import GivenGpu

_FOLDER, TABLE = ".gpus", "holders.json"
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
    called: str = ""
    """The container's name when this was read: the table has the id alone."""
    maker: ProcessIdentity | None = None
    """Of a reservation: the process that holds it (minirun.core.keeping.state.identity)."""

    @property
    def name(self) -> str:
        """What the container is called."""
        return self.called or self.container

    def counts(self, root: str) -> bool:
        """Whether the container runs, or is about to."""
        if not self.created:
            return state.is_alive(self.maker)
        try:
            record = state.load(root, self.container)
        except StateError:
            return False
        return record.status != state.STOPPED and record.created == self.created


class Locked:
    """``with Locked(root) as table:`` reads the rows; no other process can until the block ends."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = f"{root}/{_FOLDER}"
        self.rows: list[Holder] = []
        os.makedirs(root, mode=0o711, exist_ok=True)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def __enter__(self) -> Locked:
        self.fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            self.rows = read(self.root)
        except BaseException:
            os.close(self.fd)
            raise
        return self

    def write(self, rows: list[Holder]) -> None:
        """Put these rows into the table, in one step. Raises OSError."""
        text = jsonlite.dumps([row._replace(called="")._asdict() for row in rows])
        state.replace(f"{self.folder}/{TABLE}", text, f"{self.folder}/.{TABLE}")

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def read(root: str) -> list[Holder]:
    """Return all rows, those that do not count any more too. Raises GPUError, OSError."""
    folder = f"{root}/{_FOLDER}"
    try:
        fd = state_file.open_directory(folder)
    except FileNotFoundError:
        return []
    try:
        rows = jsonlite.loads(state_file.read_file(fd, TABLE).decode())
        found = [Holder(**row) for row in rows]
        return [row._replace(called=state.name_of(f"{root}/{row.container}")) for row in found]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise GPUError(f"{folder}/{TABLE} is damaged: {error}", "remove it") from None
    finally:
        os.close(fd)


def holders(root: str) -> list[Holder]:
    """Return the rows of containers that run. Raises GPUError, OSError."""
    return [row for row in read(root) if row.created and row.counts(root)]


def overlap(one: str, other: str) -> bool:
    """Whether two indices are the same GPU, or a GPU and a MIG device of it."""
    return one == other or one == other.partition(":")[0] or other == one.partition(":")[0]


def record_holders(container: Container, given: tuple[GivenGpu, ...], simulated: bool) -> None:
    """Write down that a container has these GPUs; the log says which of them it shares.

    They are exclusive where the caller chose it. Raises GPUError, OSError.
    """
    exclusive = container.config.choices.exclusive
    driver = "simulated" if simulated else "nvidia"
    created = container.record.created
    rows = [
        Holder(
            gpu.name, gpu.vendor or driver, container.id, created, exclusive, gpu.uuid, gpu.model
        )
        for gpu in given
    ]
    if not rows:
        return
    settings = container.settings
    shared = claim(settings.root, rows)
    others = rings.gpu_holders(settings, container.directory) if exclusive else []
    for held in (*others, *exclusive_elsewhere(settings)):
        for row in rows:
            if row.driver == held.driver and overlap(row.gpu, held.gpu):
                _refuse_exclusive(row, held)
    for gpu, names in shared.items():
        why = "time-slicing: they take turns; its memory goes to whoever asks first"
        events.emit("note", "gpu shared", {"gpu": gpu, "with": names}, why=why)
    if exclusive:
        names = [row.gpu for row in rows]
        why = "no other container gets them while this one runs"
        events.emit("note", "gpu exclusive", {"gpus": names}, why=why)


def claim(root: str, rows: list[Holder]) -> dict[str, list[str]]:
    """Add one container's rows to the table; return GPU → the other holders, if there are any.

    Raises GPUError where one of them is exclusive and another container has it, or may not.
    """
    mine = rows[0].container
    shared: dict[str, list[str]] = {}
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
                _refuse_exclusive(row, held)
                if held.name not in shared.setdefault(row.gpu, []):
                    shared[row.gpu].append(held.name)
        table.write([*kept, *rows])
    return shared


def exclusive_elsewhere(settings: Settings) -> list[Holder]:
    """Return the exclusive rows of the other roots: of all; from a named root, of minirun's own.

    Raises GPUError, OSError.
    """
    known, folder = {f"{settings.store}/{places.CONTAINERS}"}, f"{settings.store}/{places.ROOTS}"
    if not settings.root_is_named and os.path.isdir(folder):
        known |= {os.path.realpath(entry.path) for entry in os.scandir(folder)}
    found: list[Holder] = []
    for root in sorted(known - {settings.root}):
        try:
            found += [row for row in holders(root) if row.exclusive]
        except (PermissionError, StateError):
            continue  # another user's
    return found


def _refuse_exclusive(row: Holder, held: Holder) -> None:
    """Raise GPUError if one of the two is exclusive: both are of the same GPU."""
    if not (row.exclusive or held.exclusive):
        return
    it = "it" if row.gpu == held.gpu else held.gpu
    if held.exclusive:
        text = f"gpu {held.gpu} is exclusive to container {held.name!r}"
        raise GPUError(text, f"--gpus count=1 takes another one; {HINT}")
    raise GPUError(f"gpu {row.gpu} cannot be exclusive: container {held.name!r} has {it}", HINT)
