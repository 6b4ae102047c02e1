"""Scenarios: what a user does with an engine, once with runc below it and once with minirun.

A scenario is a function with asserts that takes an engine. It is held against minirun only where
runc passes it on the same machine; the table of both is printed at the end of a test run.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engines.clients.screen import end_all

RUNTIMES = ("runc", "minirun")
Scenario = Callable[[Any], None]
Engines = Callable[[str], Any]
"""Gives the engine with the runtime of that name below it."""
Record = Callable[[str, object], None]
PASSED, AGAIN = "passed", "passed at the second try"
"""ctr, for one, sometimes loses what a short command prints, with either runtime."""


def scenarios(module: object) -> list[Scenario]:
    """The scenarios of a module: its public functions that it defines itself."""
    name = getattr(module, "__name__", "")
    found = [
        f for f in vars(module).values() if callable(f) and getattr(f, "__module__", "") == name
    ]
    return [f for f in found if not f.__name__.startswith("_") and not isinstance(f, type)]


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


def compare(scenario: Scenario, engines: Engines, record: Record, client: str) -> None:
    """Run a scenario under both runtimes; fail where only runc passes it."""
    tries = {runtime: [_try(scenario, engines(runtime))] for runtime in RUNTIMES}
    for runtime, results in tries.items():
        if results[0]:
            results.append(_try(scenario, engines(runtime)))
    verdicts = [_verdict(tries[runtime]) for runtime in RUNTIMES]
    record("client", [client, scenario.__name__, *verdicts])
    theirs, ours = (tries[runtime][-1] for runtime in RUNTIMES)
    if ours and theirs:
        pytest.xfail(f"with runc too: {verdicts[0]}")
    if ours:
        raise ours


def _try(scenario: Scenario, engine: Any) -> Exception | None:
    """Run a scenario; return why it failed, if it did."""
    try:
        scenario(engine)
    except Exception as failure:
        return failure
    finally:
        end_all()
        engine.clean()
    return None


def _verdict(tries: list[Exception | None]) -> str:
    failure = tries[-1]
    if failure is None:
        return PASSED if len(tries) == 1 else AGAIN
    text = str(failure).strip() or type(failure).__name__
    return text.splitlines()[0][:160]


def table(rows: list[list[str]]) -> list[str]:
    """Return the lines of the table: each scenario with both verdicts, and the sums by client."""
    lines = [f"{'client':<8}{'scenario':<52}{'runc':<8}minirun"]
    sums: dict[str, list[int]] = {}
    for client, name, *verdicts in sorted(rows):
        short = [PASSED if v in (PASSED, AGAIN) else "FAILED" for v in verdicts]
        lines.append(f"{client:<8}{name:<52}{short[0]:<8}{short[1]}")
        lines += [
            f"{'':<10}{r}: {v}" for r, v in zip(RUNTIMES, verdicts, strict=True) if v != PASSED
        ]
        count = sums.setdefault(client, [0, 0, 0])
        for at, passed in enumerate((True, *(v in (PASSED, AGAIN) for v in verdicts))):
            count[at] += passed
    for client, (every, runc, minirun) in sorted(sums.items()):
        lines.append(f"{client}: runc {runc} of {every}, minirun {minirun} of {every}")
    return lines
