"""What is recorded below a state root: a table for `timeline`, out of the logs alone."""

import os
import re
import time
from pathlib import Path

from minirun.settings import HISTORY
from minirun.view import find, paint, recording, text
from minirun.view.recording import Recording

_HEAD = ("ID", "LAST EVENT", "STAGES", "RESULT", "GPUS", "IMAGE", "COMMAND")
_IMAGE = re.compile(r"/images/([^/:]+)/layers/")


def listing(root: str, last: int) -> str:
    """Return a table of what is recorded below `root`, newest first. Raises OSError."""
    paths = [*_below(root, "{}/events.jsonl"), *_below(f"{root}/{HISTORY}", "{}")]
    times = {path: os.stat(path).st_mtime for path in paths if os.path.exists(path)}
    newest = sorted(times, key=lambda path: -times[path])
    if not newest:
        return "no container is recorded yet: minirun replay has some to show\n"
    rows = [_row(path, times[path]) for path in newest[: last or None]]
    more = len(newest) - len(rows)
    return table([_HEAD, *rows]) + (f"{more} more: minirun timeline --last 0\n" if more else "")


def _below(directory: str, form: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return [f"{directory}/{form.format(name)}" for name in names if not name.startswith(".")]


def _row(path: str, when: float) -> tuple[str, ...]:
    shown = time.strftime("%m-%d %H:%M:%S", time.localtime(when))
    try:
        found = recording.read(path)[0]
    except (OSError, ValueError):
        return (find.id_of(Path(path)), shown, "", "unreadable", "", "", "")
    devices, image, command = "", "", ""
    for event in found.events:
        argv = event["args"].get("argv")
        words = [str(word) for word in argv] if isinstance(argv, list) else []
        if event["name"] == "nvidia-container-cli":
            devices = " ".join(w[9:] for w in words if w.startswith("--device="))
        elif event["name"] == "mount" and event["args"].get("fstype") == "overlay":
            image = " ".join(_IMAGE.findall(str(event["args"].get("data"))))
        elif event["kind"] == "exec" and event["actor"] == "init":
            command = " ".join(words)
    gpus = f"{devices} SIMULATED" if found.simulated and devices else devices
    word = result(found).split(" ")[0]
    return (found.id, shown, _stages(found), word, gpus, image, command)


def _stages(found: Recording) -> str:
    """Return 123--67 for a container without GPUs, 12x for a hook that failed."""
    marks = {s.number: "x" if s.error else str(s.number) if s.end else "?" for s in found.stages}
    return "".join(marks.get(number, "-") for number in range(1, 8))


def result(found: Recording) -> str:
    """Say how far a start came."""
    failed = [stage for stage in found.stages if stage.error]
    if failed:
        return f"failed in stage {failed[0].number}"
    reached = found.stages[-1].number if found.stages else 0
    return "started" if found.complete else f"unfinished in stage {reached}"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return rows as lines of aligned columns, printable whatever they hold.

    On a terminal they are cut at its edge.
    """
    unicode = paint.speaks_unicode()
    room = os.get_terminal_size(1).columns if os.isatty(1) else 0
    cells = [[text.clean(cell, unicode) for cell in row] for row in rows]
    widths = [max(map(text.display_width, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell + " " * (width - text.display_width(cell))
                  for cell, width in zip(row, widths, strict=True))
        for row in cells
    ]  # fmt: skip
    cut = [text.fit(line.rstrip(), room, unicode, full=not room) for line in lines]
    return "".join(f"{line}\n" for line in cut)
