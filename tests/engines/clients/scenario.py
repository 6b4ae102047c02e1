"""Scenarios: what a user does with an engine, with minirun below it, held against runc's answer.

A scenario is a function with asserts that takes an engine. It is held against minirun only where
runc passes it. runc's answers are kept (answers.py): runc itself runs only with --peers, where none
is kept, and to explain a difference. The table of both is printed at the end of a test run.
"""

import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from engines.clients.answers import AGAIN, PASSED, Scenario, read, sum_of, version
from engines.clients.screen import end_all

RUNTIMES = ("runc", "minirun")
Engines = Callable[[str], Any]
"""Gives the engine with the runtime of that name below it."""


def pair(kind: Callable[[str, str], Any], command: str) -> Iterator[Engines]:
    """For a fixture: one engine per runtime, made when it is first asked for, ended afterwards."""
    made: dict[str, Any] = {}

    def get(runtime: str) -> Any:
        if runtime not in made:
            made[runtime] = kind(runtime, command)
        return made[runtime]

    yield get
    for engine in made.values():
        engine.close()


class Verdict(NamedTuple):
    """How a scenario ended."""

    text: str
    failure: Exception | None = None

    @property
    def line(self) -> str:
        return self.text.splitlines()[0]


def tried(scenario: Scenario, engine: Any) -> Verdict:
    """Run a scenario, and once more if it fails."""
    for passed in (PASSED, AGAIN):
        try:
            scenario(engine)
            return Verdict(passed)
        except Exception as failure:
            failed = Verdict(str(failure).strip() or type(failure).__name__, failure)
        finally:
            end_all()
            engine.clean()
    return failed


def compare(
    client: str, scenario: Scenario, engines: Engines, request: pytest.FixtureRequest
) -> None:
    """Run a scenario with minirun below; fail where runc has passed it."""
    theirs = kept(client, scenario) if request.config.option.peers == "kept" else None
    theirs = theirs or tried(scenario, engines("runc"))
    ours = tried(scenario, engines("minirun"))
    row = (client, scenario.__name__, theirs.line, ours.line)
    request.node.user_properties.append(("client", row))
    if ours.failure and not has_passed(theirs.text):
        pytest.xfail(f"with runc too: {theirs.line}")
    if ours.failure:
        raise AssertionError(explained(ours, scenario, engines)) from ours.failure


def has_passed(text: str) -> bool:
    return text in (PASSED, AGAIN)


def kept(client: str, scenario: Scenario) -> Verdict | None:
    """runc's answer that is kept; None if there is none to this scenario as it is now."""
    answer = read()[1].get((client, scenario.__name__))
    return Verdict(answer.text) if answer and answer.of == sum_of(scenario) else None


def explained(ours: Verdict, scenario: Scenario, engines: Engines) -> str:
    """Say of a scenario that runc passed, and minirun did not, what the runc of here does now."""
    if not (path := shutil.which("runc")):
        return f"{ours.text}\nrunc {read()[0]} passed; here there is none to explain it"
    before, here = read()[0], version(path)
    other = "" if before == here else f" (its answer that is kept is of {before})"
    now = tried(scenario, engines("runc"))
    says = "passes" if has_passed(now.text) else f"fails too: {now.text}"
    return f"{ours.text}\nrunc {here}{other} {says}"


def table(rows: list[list[str]]) -> list[str]:
    """Return the lines of the table: each scenario with both verdicts, and the sums by client."""
    lines = [f"{'client':<8}{'scenario':<52}{'runc':<8}minirun"]
    sums: dict[str, list[int]] = {}
    for client, name, *verdicts in sorted(rows):
        words = [PASSED if has_passed(v) else "FAILED" for v in verdicts]
        lines.append(f"{client:<8}{name:<52}{words[0]:<8}{words[1]}")
        lines += [
            f"{'':<10}{r}: {v[:160]}"
            for r, v in zip(RUNTIMES, verdicts, strict=True)
            if v != PASSED
        ]
        count = sums.setdefault(client, [0, 0, 0])
        for at, passed in enumerate((True, *map(has_passed, verdicts))):
            count[at] += passed
    for client, (every, runc, minirun) in sorted(sums.items()):
        lines.append(f"{client}: runc {runc} of {every}, minirun {minirun} of {every}")
    return lines
