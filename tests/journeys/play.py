"""Types a journey in a surrounding, and says what became of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parents[i]) for i in (1, 2)]

from journeys.cells import CLONE, Place  # noqa: E402
from journeys.reader import Journey, Step  # noqa: E402
from journeys.surroundings import Surrounding  # noqa: E402
from tutorials.publish.runner import matches  # noqa: E402

SECONDS = 300
LONG = 3000
FIRST = f'cd /{CLONE}; export PATH="$PWD/.venv/bin:$PATH"'
"""What README has a reader type before anything else."""
SHELL = f"""
{FIRST}
while [ $# -gt 0 ]; do
    eval "$BETWEEN"
    eval "$1"
    status=$?
    printf '\\036%d\\n' $status
    [ $status = "$2" ] || exit 0
    shift 2
done
"""


class Outcome(NamedTuple):
    """ "passed", "not possible" or "failed", and what is to be said of it."""

    word: str
    why: str = ""


def play(journey: Journey, where: Surrounding, cell: Place) -> Outcome:
    """Type it, and compare. What it leaves behind fails it, and is removed."""
    other = journey.otherwise.get(where.name)
    steps = other.steps if other else journey.steps
    before = cell.state()
    seconds = (LONG if journey.is_long else SECONDS) * where.patience
    fault = _typed(steps, where, cell, seconds)
    left = _left(before, cell, 5 * where.patience)
    if not fault and left:
        fault = f"left behind: {', '.join(left)}"
    if fault:
        _clean(where, cell, before)
    if fault:
        return Outcome("failed", f"{journey.name}.session:{fault}")
    return Outcome("not possible", other.reason) if other else Outcome("passed")


def _typed(steps: tuple[Step, ...], where: Surrounding, cell: Place, seconds: int) -> str:
    """Type commands; return what differs first, with its line, or ""."""
    for is_roots, some in itertools.groupby(steps, lambda step: step.is_roots):
        user = "root" if is_roots else where.user
        if fault := _in_one_shell([*some], user, where, cell, seconds):
            return fault
    return ""


def _in_one_shell(
    steps: list[Step], user: str, where: Surrounding, cell: Place, seconds: int
) -> str:
    words = [word for step in steps for word in (step.command, str(step.status))]
    between = where.between if user == "root" else ""
    argv = cell.argv("env", f"BETWEEN={between}", "bash", "-c", SHELL, "bash", *words, user=user)
    late = ""
    with tempfile.TemporaryFile() as output:
        try:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False,
                timeout=seconds, preexec_fn=cell.enter_cgroups,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            late = f"no end after {seconds} s"
        output.seek(0)
        said = output.read().decode(errors="replace")
    for step in steps:
        text, mark, said = said.partition("\036")
        status, _, said = said.partition("\n")
        head = f"{step.line}: $ {step.command}\n{text.rstrip()}"
        if not mark:
            return f"{head}\n[{late or 'the shell has ended'}]"
        if int(status) != step.status:
            return f"{head}\n[{status}]"
        if not matches(*(_unindented(each) for each in (step.expected, text))):
            return f"{head}\n--- is not:\n{step.expected}"
    return ""


def _unindented(text: str) -> str:
    """Return a text without its lines' first blanks, and without the empty lines at its end."""
    return "".join(f"{line.lstrip()}\n" for line in text.rstrip().splitlines())


def _left(before: dict[str, set[str]], cell: Place, seconds: float) -> list[str]:
    """Return what is there now and was not before, once it has had a moment to go."""
    deadline = time.monotonic() + seconds
    while True:
        after = cell.state()
        left = [f"{kind} {one}" for kind in after for one in sorted(after[kind] - before[kind])]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _clean(where: Surrounding, cell: Place, before: dict[str, set[str]]) -> None:
    """Remove what a journey that failed has left, so that the next one finds what it found."""
    script = f"{FIRST}; minirun rm -f $(minirun ps -aq); minirun gc; minirun network prune -f"
    for user in {"root", where.user}:
        argv = cell.argv("sh", "-c", script, user=user)
        null = subprocess.DEVNULL
        subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=False)
    cell.end_all_but(before)
