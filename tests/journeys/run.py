"""Makes the journeys in their surroundings, and prints the table: `make journeys`.

`make journeys SURROUNDINGS="root user" JOURNEYS="03 compose"` makes some: a word is part of a name.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[i]) for i in (1, 2)]

from journeys import virtual  # noqa: E402
from journeys.cells import Place  # noqa: E402
from journeys.play import Outcome, play  # noqa: E402
from journeys.reader import Journey, journeys  # noqa: E402
from journeys.surroundings import STATIC, SURROUNDINGS, Surrounding, entered  # noqa: E402

IMAGE = "02-"
"""The journey whose image the others use: it is always made."""


def made_in(
    columns: list[Surrounding], todo: list[Journey]
) -> Iterator[tuple[Surrounding, Journey, Outcome]]:
    """Make journeys in surroundings; those of one release's machine are made on one boot."""
    for suite, some in itertools.groupby(columns, lambda each: each.is_booted and each.suite):
        with ExitStack() as stack:
            machine = stack.enter_context(virtual.booted(suite)) if suite else None
            for where in some:
                for journey, outcome in made(where, todo, machine):
                    yield where, journey, outcome


def made(
    where: Surrounding, todo: list[Journey], machine: Place | None = None
) -> Iterator[tuple[Journey, Outcome]]:
    """Make journeys in one surrounding, in their order; those that need packages come last."""
    todo = [each for each in todo if where.makes(each)]
    installed = {name for each in journeys() for name in each.needs}
    plain = [each for each in todo if not each.needs]
    if any(not each.name.startswith(IMAGE) for each in plain):
        with nullcontext(machine) if machine else entered(where) as cell:
            for journey in plain:
                yield journey, play(journey, where, cell)
    if packed := [each for each in todo if each.needs]:
        ready = where._replace(prepared=f"{STATIC}\n{where.prepared}", images=("busybox",))
        with entered(ready, installed) as cell:
            for journey in packed:
                yield journey, play(journey, ready, cell)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surroundings", default="", metavar="WORDS",
                        help=" ".join(each.name for each in SURROUNDINGS))  # fmt: skip
    parser.add_argument("--journeys", default="", metavar="WORDS", help="parts of their names")
    options = parser.parse_args()
    names, words = options.surroundings.split(), options.journeys.split()
    if unknown := sorted({*names} - {each.name for each in SURROUNDINGS}):
        known = ", ".join(each.name for each in SURROUNDINGS)
        parser.error(f"--surroundings {unknown[0]}: one of {known}")
    table = journeys()
    todo = [
        each for each in table if not words or any(word in each.name for word in [*words, IMAGE])
    ]
    columns = [each for each in SURROUNDINGS if not names or each.name in names]
    found: dict[tuple[str, str], Outcome] = {}
    for where, journey, outcome in made_in(columns, todo):
        found[journey.name, where.name] = outcome
        print(f"{where.name:12} {journey.name:28} {outcome.word:12} {outcome.why}", flush=True)
    width = max(len(each.name) for each in todo) + 1
    print("\n" + " " * width, *(f"{each.name:>12}" for each in columns))
    for journey in todo:
        cells = [found.get((journey.name, each.name), Outcome("-")).word for each in columns]
        print(f"{journey.name:{width}}", *(f"{word:>12}" for word in cells))
    return int(any(outcome.word == "failed" for outcome in found.values()) or not found)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that cells go with this
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    start = time.monotonic()
    status = main()
    print(f"{time.monotonic() - start:.0f} s")
    sys.exit(status)
