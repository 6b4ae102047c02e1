"""Writes tutorials/reference/spec-conformance.md from the rows of table.py: `make reference`.

The numbers on the page are counted from the rows.
"""

from pathlib import Path

from tutorials.publish.reference.table import DEPARTURES, ROWS, Row

PAGE = Path(__file__).parents[2] / "reference" / "spec-conformance.md"
WORDS = {"yes": "supported", "part": "in part", "refused": "refused"}
HEAD = """\
# What of the runtime-spec minirun does

<!-- written from tutorials/publish/reference/table.py: change that, then `make reference` -->

The specification is the Open Container Initiative's runtime-spec 1.3.0, for Linux. A row is a
property of config.json, or an operation. "Refused" means: an error that names the property, since a
container that was to have it must not run without it; the remark tells of exceptions. Each test
makes real containers, or asks the kernel directly, and is run by `make test`.

{summary}

| section | property | support | code | tests | remark |
|---|---|---|---|---|---|
"""


def _line(row: Row) -> str:
    code = ", ".join(f"[{m}](../../minirun/{m})" for m in row.modules)
    tests = "<br>".join(
        f"[{t.removesuffix('.py')}](../../tests/{t.partition('::')[0]})" for t in row.tests
    )
    cells = (row.section, row.name, WORDS[row.support], code, tests, row.remark)
    return f"| {' | '.join(cells)} |\n"


def text() -> str:
    """Return the page."""
    counts = [f"{sum(r.support == key for r in ROWS)} {word}" for key, word in WORDS.items()]
    named = {test for row in ROWS for test in row.tests}
    summary = f"{len(ROWS)} rows: {', '.join(counts)}; {len(named)} tests, or files of tests."
    return HEAD.format(summary=summary) + "".join(map(_line, ROWS)) + _departures()


def _departures() -> str:
    lines = [
        f"- {what} {why} ([test](../../tests/{test.partition('::')[0]}))\n"
        for what, why, test in DEPARTURES
    ]
    return "".join(["\n## Where it departs from runc on purpose\n\n", *lines])
