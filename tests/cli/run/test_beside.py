"""docker's answers that are kept: a real one is asked anew, and a difference is explained by it."""

from pathlib import Path

import pytest

import beside
from beside import Beside, Side
from engines.clients.engine import IMAGE
from program import Program

WORD = "one"


def status(side: Side, word: str) -> int:
    return side.call("run", "--rm", "--network=none", side.image, "sh", "-c", word).returncode


def name_of_image(side: Side, word: str) -> str:
    """What the two differ in."""
    return side.image if word == WORD else ""


def test_a_sum_is_of_all_that_a_function_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = beside.sum_of(status), beside.sum_of(name_of_image)
    monkeypatch.setitem(globals(), "WORD", "two")
    after = beside.sum_of(status), beside.sum_of(name_of_image)
    assert before[0] == after[0] and before[1] != after[1]
    assert beside.name_of(status) == "test_beside.status"


def test_answers_are_kept_and_docker_explains_a_difference(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "KEPT", tmp_path / "docker.txt")
    program = Program(command, tmp_path / "containers")
    keeping = Beside(program, "keep", None)
    try:
        for word in ("exit 3", "true"):
            keeping.same(status, word)
        with pytest.raises(AssertionError, match="docker has just said so"):
            keeping.same(name_of_image, WORD)
        beside.write(keeping.asked)
        kept = Beside(program, "kept", None)
        kept.same(status, "exit 3")
        assert kept.theirs(name_of_image, WORD) == IMAGE
        assert kept._docker is None, "it was not needed"
        with pytest.raises(AssertionError, match="docker's answer is not kept"):
            kept.same(status, "exit 4")
        kept._docker = keeping._docker
        with pytest.raises(AssertionError, match=rf"docker \S+ answers now: {IMAGE}"):
            kept.same(name_of_image, WORD)
    finally:
        keeping.close()
    head = f"# What docker {beside.version()} answers; `make engines` writes it anew.\n"
    assert beside.KEPT.read_text() == (
        f"{head}\ntest_beside.name_of_image {beside.sum_of(name_of_image)}\n"
        f'  one\n    "{IMAGE}"\n'
        f"\ntest_beside.status {beside.sum_of(status)}\n"
        "  'exit 3'\n    3\n  true\n    0\n"
    )


def test_what_was_not_asked_anew_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "KEPT", tmp_path / "docker.txt")
    beside.write([(("a.one", "0" * 8, "x"), 1), (("a.two", "0" * 8, "'x y'"), [1, "word"])])
    beside.write([(("a.one", "1" * 8, "z"), 2)])
    assert beside.read()[1] == {
        ("a.one", "1" * 8, "z"): 2, ("a.two", "0" * 8, "'x y'"): [1, "word"],
    }  # fmt: skip
