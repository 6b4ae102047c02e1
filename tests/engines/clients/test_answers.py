"""runc's answers that are kept: to which scenarios, of which text; and a difference, explained."""

import inspect
import shutil
from pathlib import Path
from typing import Any

import pytest

from engines.clients import answers
from engines.clients.answers import AGAIN, CLIENTS, PASSED, masked, read, sum_of, write
from engines.clients.scenario import compare
from required import installed


class Toy:
    """In an engine's place: it has a runtime, and nothing to clean."""

    def __init__(self, runtime: str) -> None:
        self.runtime = runtime

    def clean(self) -> None:
        pass


def both_can(engine: Toy) -> None:
    assert engine.runtime in ("runc", "minirun")


def runc_alone_can(engine: Toy) -> None:
    assert engine.runtime == "runc", "minirun cannot"


def neither_can(engine: Toy) -> None:
    raise AssertionError(f"container 0123456789abcdef of {id(engine)}")


TOYS = (both_can, runc_alone_can, neither_can)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to the toys alone."""
    monkeypatch.setattr(answers, "KEPT", tmp_path / "runc.txt")
    monkeypatch.setitem(CLIENTS, "toy", list(TOYS))
    texts = (AGAIN, PASSED, "container 0123456789abcdef of 77")
    write(installed("runc"), [("toy", f.__name__, x) for f, x in zip(TOYS, texts, strict=True)])


def test_each_scenario_has_an_answer_and_no_other_has() -> None:
    """But those that not every machine can try. `make engines` writes them."""
    have = {key: answer.of for key, answer in read()[1].items()}
    every = {(c, f.__name__): f for c, found in CLIENTS.items() for f in found}
    must = {key for key, f in every.items() if "pytest.skip(" not in inspect.getsource(f)}
    assert must <= have.keys() <= every.keys()
    assert {key: sum_of(every[key]) for key in have} == have


def test_what_changes_from_run_to_run_is_not_kept(kept: None) -> None:
    texts = {name: answer.text for (_, name), answer in read()[1].items()}
    assert texts == {
        "both_can": PASSED, "runc_alone_can": PASSED, "neither_can": "container N of N",
    }  # fmt: skip
    assert masked("/tmp/mrc-x_y12/a: exit 7 after 0.3s") == "N/a: exit N after N.Ns"


def test_of_a_client_that_did_not_run_the_answers_stay(
    kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CLIENTS, "other", [both_can])
    write(installed("runc"), [("other", "both_can", PASSED)])
    assert len(read()[1]) == 4
    write(installed("runc"), [("toy", "both_can", PASSED)])
    assert sorted(read()[1]) == [("other", "both_can"), ("toy", "both_can")]


def test_minirun_alone_runs(kept: None, request: pytest.FixtureRequest) -> None:
    started: list[str] = []

    def engines(runtime: str) -> Any:
        started.append(runtime)
        return Toy(runtime)

    compare("toy", both_can, engines, request)
    with pytest.raises(pytest.xfail.Exception, match="with runc too: container N of N"):
        compare("toy", neither_can, engines, request)
    assert set(started) == {"minirun"}


def test_a_difference_fails_and_runc_explains_it(
    kept: None, request: pytest.FixtureRequest
) -> None:
    here = answers.version(installed("runc"))
    with pytest.raises(AssertionError, match="minirun cannot") as raised:
        compare("toy", runc_alone_can, Toy, request)
    assert f"\nrunc {here} passes" in str(raised.value)
    answers.KEPT.write_text(answers.KEPT.read_text().replace(here, "1.0.0"))
    with pytest.raises(AssertionError, match=r"its answer that is kept is of 1\.0\.0") as raised:
        compare("toy", runc_alone_can, Toy, request)
    assert str(raised.value).endswith(") passes")


def test_a_difference_where_no_runc_is(
    kept: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(AssertionError, match="passed; here there is none to explain it"):
        compare("toy", runc_alone_can, Toy, request)


def test_a_scenario_that_changed_has_no_answer(kept: None, request: pytest.FixtureRequest) -> None:
    """runc runs it, and so does a scenario that has none at all."""
    started: list[str] = []

    def engines(runtime: str) -> Any:
        started.append(runtime)
        return Toy(runtime)

    answers.KEPT.write_text(answers.KEPT.read_text().replace(sum_of(both_can), "0" * 8))
    compare("toy", both_can, engines, request)
    compare("new", both_can, engines, request)
    assert started == ["runc", "minirun"] * 2
