"""`minirun help`: it prints what --help prints, and starts nothing."""

import pytest

from conftest import Program


@pytest.mark.parametrize(
    "words", ["run busybox", "exec c reboot", "spec nosuch", "ps c", "observe true", "gpu why", ""]
)
def test_help_calls_no_other_program(minirun: Program, words: str) -> None:
    """`help run busybox` was `run busybox --help`, which is a container with the command --help."""
    done = minirun("help", *words.split())
    named = words if words == "gpu why" else words.partition(" ")[0]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: minirun {named}".rstrip() + " ")
    assert not minirun.root.exists()


@pytest.mark.parametrize(
    "words", [("gc", "x"), ("lab", "list", "x"), ("ps", "-a", "x"), ("ps", "-q", "x")]
)
def test_no_word_without_effect(minirun: Program, words: tuple[str, ...]) -> None:
    """`gc ID` collected all; `ps -q ID` printed the table."""
    done = minirun(*words)
    assert done.returncode == 1
    assert "needs no argument, got 1" in done.stderr or "no effect with an id" in done.stderr
    assert done.stderr.count("\n") == 1
