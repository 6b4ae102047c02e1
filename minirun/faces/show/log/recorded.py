"""What is recorded: a table for `timeline`, out of the logs and states below each state root."""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

from minirun.common import screen
from minirun.common.table import aligned
from minirun.core import rings
from minirun.core.errors import MinirunError, StateError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.faces.show.log import event_row, find, milestones, recording
from minirun.faces.show.log.find import Log
from minirun.faces.show.log.recording import Recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import ImageDetails

_HEAD = (
    "NAME", "ID", "ENGINE", "LAST EVENT", "STATE", "STAGES", "RESULT", "GPUS", "IMAGE", "COMMAND",
)  # fmt: skip
_IMAGE = re.compile(r"/images/([^/:]+)/layers/|/layers/([0-9a-f]{12})[0-9a-f]{52}/fs")
"""The image of an overlay; of layers that images share the log has only their digests."""
_OWN = "minirun"
"""Stands for the engine where a container was made by `run IMAGE`."""
_LAST_STAGE = 7
_WIDEST = 18
"""Columns of a cell, except the last one, in a table that is wider than the terminal."""


def _image(overlay: str) -> str:
    """Return the images of an overlay's layers, from its options."""
    found = list(_IMAGE.finditer(overlay))
    return " ".join(match[1] for match in found if match[1]) or (found[0][2] if found else "")


def listing(settings: Settings, last: int, images: list[ImageDetails]) -> str:
    """Return a table of what is recorded below the known state roots: the newest starts.

    Those that failed come first, since they are what is looked for.

    `images` are those of the store: by them layers that images share get a name.
    """
    found = [log for root in roots.known(settings) for log in find.logs(root)]
    newest = sorted(found, key=lambda log: -log.when)
    closed = os.path.isdir(settings.root) and not os.access(settings.root, os.R_OK)
    said = f"{settings.root} may not be read: run as root\n" if closed else ""
    if not newest:
        return said + "no container is recorded yet: minirun replay has some to show\n"
    given, names = _given(settings), _names(images)
    rows = [_row(log, given, names) for log in newest[: last or None]]
    rows.sort(key=lambda row: row[_HEAD.index("RESULT")] != "failed")
    more = len(newest) - len(rows)
    said += f"{more} more: minirun timeline --last 0\n" if more else ""
    return table(_without_idle_columns([_HEAD, *rows])) + said


class FailedStart(NamedTuple):
    """A start that failed."""

    when: float
    """Seconds since 1970."""
    name: str
    stage: int
    error: str


def last_failure(settings: Settings) -> FailedStart | None:
    """Return the newest start that failed, below the known state roots; None without any."""
    found = [log for root in roots.known(settings) for log in find.logs(root)]
    for log in sorted(found, key=lambda log: -log.when):
        try:
            newest = recording.read(log.path)[0]
        except (OSError, StateError):
            continue
        for stage in newest.stages:
            if stage.error:
                return FailedStart(log.when, newest.name, stage.number, stage.error)
    return None


def _without_idle_columns(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Leave out ids and engines where there are none to tell apart."""
    idle = {
        at for at, head in enumerate(_HEAD)
        if (head == "ENGINE" and {row[at] for row in rows[1:]} <= {"", _OWN})
        or (head == "ID" and all(row[at] == row[0] for row in rows[1:]))
    }  # fmt: skip
    return [tuple(cell for at, cell in enumerate(row) if at not in idle) for row in rows]


def _given(settings: Settings) -> dict[str, str]:
    """Return container → the GPUs that it has, of those that run."""
    found: dict[str, list[str]] = {}
    try:
        for row in rings.gpu_holders(settings):
            found.setdefault(row.container, []).append(row.gpu)
    except (MinirunError, OSError):
        pass  # `gpu ps` says why
    return {name: ",".join(dict.fromkeys(gpus)) for name, gpus in found.items()}


def _names(images: list[ImageDetails]) -> dict[str, str]:
    """Return the topmost layer of each image whose layers are shared → its name."""
    found: dict[str, str] = {}
    for details in images:
        top = (details.get("layers") or [""])[-1].removeprefix("sha256:")[:12]
        tag = "" if details["tag"] == "latest" else f":{details['tag']}"
        if top:  # a broken image has no layers
            found.setdefault(top, f"{details['name']}{tag}")
    return found


def _row(log: Log, given: dict[str, str], names: dict[str, str]) -> tuple[str, ...]:
    shown = time.strftime("%m-%d %H:%M:%S", time.localtime(log.when))
    status = _status(log)
    try:
        found = recording.read(log.path)[0]
    except (OSError, StateError):
        name = state.short(log.id)
        return (name, name, "", shown, status, "", "unreadable", "", "", "")
    devices, image, command = "", "", ""
    nodes: list[str] = []
    asked: dict[str, str] = {}
    for event in found.events:
        words = event.words()
        if event.name == "nvidia-container-cli":
            devices = " ".join(w[9:] for w in words if w.startswith("--device="))
        elif event.name == "gpus chosen" and _are_uuids(devices):
            devices = ",".join(map(str, event.args.get("gpus") or ()))
        elif event.name in ("origin", "renamed"):
            asked |= {key: str(value) for key, value in event.args.items()}
        elif event.name == "mount" and event.args.get("fstype") == "overlay":
            image = _image(str(event.args.get("data")))
            image = names.get(image, image)
        elif event.kind == "exec" and event.actor == "init" and event.stage == _LAST_STAGE:
            command = " ".join(words)
        elif number := milestones.gpu_of(event):
            nodes.append(number)
    devices = devices or given.get(log.id) or ",".join(dict.fromkeys(nodes))
    gpus = f"{devices} SIMULATED" if found.simulated and devices else devices
    word = result(found).split(" ")[0]
    return (
        asked.get("name") or state.short(found.name), state.short(found.id),
        asked.get("engine", _OWN), shown, status, _stages(found), word, gpus,
        asked.get("image", image).removesuffix(":latest"), command,
    )  # fmt: skip


def _are_uuids(devices: str) -> bool:
    """Return True for UUIDs of whole GPUs: they are too long for a column."""
    return all(word.startswith("GPU-") for word in devices.split(","))


def _status(log: Log) -> str:
    """Return whether the container lives: its status, or removed."""
    try:
        return state.load(log.root, log.id).status if log.living else "removed"
    except (StateError, OSError):
        return "removed" if not log.path.exists() else "damaged"


def _stages(found: Recording) -> str:
    """Return 123--67 for a container without GPUs, 12x for a hook that failed."""
    marks = {s.number: "x" if s.error else str(s.number) if s.end else "?" for s in found.stages}
    return "".join(marks.get(number, "-") for number in range(1, 8))


def result(found: Recording) -> str:
    """Say how far a start came."""
    failed = [stage for stage in found.stages if stage.error]
    if failed:
        return f"failed in stage {failed[0].number}"
    if not found.stages and any(e.args.get("action") == "restore" for e in found.events):
        return "restored"  # from a checkpoint: it went through no stages again
    if not found.stages and "exec" in found.actors:
        return "a command executed in it"
    if not found.stages and found.observed:
        return "no stage was seen"
    if [stage.number for stage in found.stages] == [_LAST_STAGE] and found.stages[0].end:
        return "started"  # by `start`: what went before was not watched
    reached = found.stages[-1].number if found.stages else 0
    return "started" if found.complete else f"unfinished in stage {reached}"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return rows as lines of aligned columns, printable whatever they hold.

    On a terminal they are cut at its edge; if one does not fit, long names are cut before that.
    """
    unicode = screen.speaks_unicode()
    room = os.get_terminal_size(1).columns if os.isatty(1) else 0
    lines = aligned(rows, unicode=unicode)
    if room and max(map(screen.display_width, lines)) > room:
        end = event_row.dots(unicode)
        short = [
            [*(event_row.cut(cell, _WIDEST, end) for cell in row[:-1]), row[-1]] for row in rows
        ]
        lines = aligned(short, unicode=unicode)
    return "".join(f"{event_row.fit(line, room, unicode, full=not room)}\n" for line in lines)
