"""What is printed of a comparison: a table, every disagreement in full, and one line of sums.

Arguments were chosen by the container's user, and paths by its image: all of it goes through
minirun.faces.show.log.event_row.clean.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from minirun.common import table
from minirun.common.screen import speaks_unicode
from minirun.faces.show.log import event_row
from minirun.faces.show.log.recording import Recording
from minirun.faces.teach.oracle.findings import Finding, Report
from minirun.faces.teach.oracle.witness import Watched


def document(
    report: Report, watched: Watched, command: list[str], *, verbose: bool
) -> dict[str, Any]:
    """Return the report as what JSON can hold; with `verbose`, row by row."""
    found = {
        "command": command, "status": watched.status, "logs": report.logs,
        "simulated": _simulated(report), "events": report.events, "system_calls": report.calls,
        "untrue": report.untrue, "missing": report.missing,
        "counts": [
            {"stage": stage, "actor": actor, "event": name, "count": count, "agree": agree}
            for stage, actor, name, count, agree in _counts(report)
        ],
    }  # fmt: skip
    return found | {"rows": [_row(finding) for finding in report.findings]} if verbose else found


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "stage": finding.stage, "actor": finding.actor, "pid": finding.pid, "event": finding.name,
        "log": finding.event.fields() if finding.event else None,
        "strace": str(finding.call) if finding.call else None,
        "agree": not finding.problem, "problem": finding.problem,
    }  # fmt: skip


def show(report: Report, watched: Watched, *, verbose: bool) -> None:
    """Print the report on standard output."""
    unicode = speaks_unicode()
    print(table.text(_table(report, verbose=verbose), unicode=unicode))
    for line in _lines(report, watched):
        print(event_row.clean(line, unicode))


def _table(report: Report, *, verbose: bool) -> list[list[str]]:
    if verbose:
        heads = ["stage", "actor", "event", "what the log says", "what strace saw", "agree"]
        return [heads, *(_cells(finding) for finding in report.findings)]
    rows = [
        [str(stage), actor, name, str(count), "yes" if count == agree else "NO"]
        for stage, actor, name, count, agree in _counts(report)
    ]
    return [["stage", "actor", "event", "times", "agree"], *rows]


def _cells(finding: Finding) -> list[str]:
    says, saw = "(nothing)", str(finding.call) if finding.call else "(nothing)"
    if finding.event:
        row = event_row.row(finding.event)
        says = f"{row.what.removeprefix(finding.name).strip()} {row.result}".strip()
    agree = "NO" if finding.problem else "yes"
    return [str(finding.stage), finding.actor, finding.name, says, saw, agree]


def _counts(report: Report) -> Iterator[tuple[int, str, str, int, int]]:
    """Yield (stage, actor, name, how many, how many of them agree), in the order of stages."""
    found = [(f.stage, f.actor, f.name) for f in report.findings]
    good = Counter((f.stage, f.actor, f.name) for f in report.findings if not f.problem)
    order = {key: at for at, key in enumerate(dict.fromkeys(found))}
    for key, count in sorted(Counter(found).items(), key=lambda item: (item[0][0], order[item[0]])):
        yield *key, count, good[key]


def _lines(report: Report, watched: Watched) -> Iterator[str]:
    for finding in report.findings:
        if finding.problem:
            yield from f"{'MISSING' if finding.missing else 'UNTRUE'}: {finding}".split("\n")
    if watched.status:
        yield f"the command ended with status {watched.status}"
    if watched.let_go:
        yield "the container lives on: strace has let go of it"
    if _simulated(report):
        yield "the GPUs in it are SIMULATED; the system calls are not"
    told = f"{report.events} events, {report.calls} system calls"
    yield f"{told}, {len(report.untrue)} untrue, {len(report.missing)} missing"


def _simulated(report: Report) -> bool:
    return Recording("", report.written).simulated
