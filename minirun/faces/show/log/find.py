"""Finding a recording by what a user types: a file, a living container, or one that has gone."""

from pathlib import Path
from typing import NamedTuple

from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.faces import recordings
from minirun.faces.show.log import recording
from minirun.faces.show.log.recording import Recording


class Log(NamedTuple):
    """A container's events file; `living`: the container has not been deleted yet."""

    id: str
    path: Path
    root: str
    living: bool

    @property
    def when(self) -> float:
        """The time of its last event, in seconds since the epoch; 0 if it is gone."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0


def logs(root: str) -> list[Log]:
    """Return what is recorded below a state root; nothing if it may not be read."""
    here = Path(root)
    living = [Log(p.parent.name, p, root, True) for p in here.glob(f"[!.]*/{places.EVENTS}")]
    gone = here.glob(f"{places.HISTORY}/*.jsonl")
    return [*living, *(Log(id_of(p), p, root, False) for p in gone)]


def find(name: str, *roots: str) -> list[Recording]:
    """Return the recordings that `name` means, below these state roots.

    A path of a file; a container's name; its id, or the begin of one; a shipped recording's name.
    Of several runs of one name the one that lives, or the newest. Raises StateError if there is
    none, or several; OSError.
    """
    path = Path(name)
    if path.is_file():
        return recording.read(path)
    found = of_container(name, *roots)
    if found:
        return recording.read(found)
    if name in recordings.RECORDINGS:
        return recording.read(recordings.path(name))
    hint = "minirun timeline lists what is recorded"
    raise StateError(f"no recording of {name!r}", hint, status=1)


def of_container(name: str, *roots: str) -> Path | None:
    """Return the events file of a container, living or gone. Raises StateError for several."""
    if not name or "/" in name or name.startswith("."):
        return None
    there = [log for root in roots for log in logs(root)]
    near = [log for log in there if log.id.startswith(name)]
    found = [log for log in near if log.id == name]
    if not found and (called := [log for log in there if _is_called(log, name)]):
        found = [max(called, key=lambda log: (log.living, log.when))]
    found = found or near
    ids = sorted({log.id for log in found})
    if len(ids) > 1:
        raise StateError(f"{name!r} may be {', '.join(ids[:4])}", "type more of it", status=1)
    return max(found, key=lambda log: (log.living, log.when)).path if found else None


def _is_called(log: Log, name: str) -> bool:
    """Return True if a container has this name, or had it at its end."""
    if log.living:
        return state.name_of(f"{log.root}/{log.id}") == name
    try:
        text = log.path.read_bytes()
        return name.encode() in text and recording.parse(text)[0].name == name
    except (FileNotFoundError, PermissionError, StateError):
        return False


def is_left(name: str, *roots: str) -> bool:
    """Return True if there is a log of a container of exactly this id or name."""
    there = (log for root in roots for log in logs(root))
    return any(log.id == name or _is_called(log, name) for log in there)


def id_of(path: Path) -> str:
    """Return the container's id in the name of a history file: WHEN.NUMBER.ID.jsonl."""
    return path.name.removesuffix(".jsonl").split(".", 2)[-1]
