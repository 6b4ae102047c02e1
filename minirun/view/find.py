"""Finding a recording by what a user types: a file, a living container, or one that has gone."""

from pathlib import Path

from minirun.errors import StateError
from minirun.settings import HISTORY
from minirun.view import recording
from minirun.view.recording import Recording

SHIPPED = Path(__file__).parent.parent / "recordings"
"""The recordings that come with minirun."""


def find(name: str, root: str) -> list[Recording]:
    """Return the recordings that `name` means, below the state root `root`.

    A path of a file; a container's id, or the begin of one; a shipped recording's name. Of several
    runs of one id the newest. Raises StateError where there is none, or several; OSError.
    """
    path = Path(name)
    if path.is_file():
        return _read(path)
    found = of_container(name, root)
    if found:
        return _read(found)
    shipped = SHIPPED / f"{name}.jsonl"
    if shipped.is_file() and shipped.parent == SHIPPED:
        return _read(shipped)
    hint = "minirun timeline lists what is recorded"
    raise StateError(f"no recording of {name!r}", hint, status=1)


def of_container(name: str, root: str) -> Path | None:
    """Return the events file of a container, living or gone. Raises StateError for several."""
    if "/" in name or name.startswith("."):
        return None
    living = {p.parent.name: p for p in Path(root).glob("[!.]*/events.jsonl")}
    gone = {id_of(p): p for p in sorted((Path(root) / HISTORY).glob("*.jsonl"))}
    known = {**gone, **living}
    if name in known:
        return known[name]
    near = sorted(each for each in known if name and each.startswith(name))
    if len(near) > 1:
        raise StateError(f"{name!r} may be {', '.join(near[:4])}", "type more of it", status=1)
    return known[near[0]] if near else None


def id_of(path: Path) -> str:
    """Return the container's id in the name of a history file: WHEN.NUMBER.ID.jsonl."""
    return path.name.removesuffix(".jsonl").split(".", 2)[-1]


def _read(path: Path) -> list[Recording]:
    try:
        return recording.read(path)
    except ValueError as error:
        raise StateError(str(error), "a file of events, as --log FILE makes it", status=1) from None
