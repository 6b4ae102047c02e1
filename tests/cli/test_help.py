"""`minirun help`: it prints what --help prints, and starts nothing."""

import importlib
from collections.abc import Iterator

import pytest

from conftest import Program
from minirun.cli import COMMANDS
from minirun.cli import help as texts
from minirun.cli.flags import Flags


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


def classes(base: type[Flags] = Flags) -> Iterator[type[Flags]]:
    """Yield every class of flags."""
    for each in base.__subclasses__():
        yield each
        yield from classes(each)


def test_each_command_and_flag_stands_in_one_group() -> None:
    assert sorted(texts.COMMANDS) == sorted(COMMANDS)
    assert len(texts.COMMANDS) == sum(map(len, texts.TEXTS["commands"].values()))
    for module in set(COMMANDS.values()):
        importlib.import_module(module)
    found = list(classes())
    assert len(found) > 60
    for each in found:
        keys = [key for group in texts.groups(each).values() for key in group.split()]
        assert set(each.known()) <= set(keys), each
        assert len(keys) == len(set(keys)), each


def test_one_group_of_flags(minirun: Program) -> None:
    whole, one = minirun("run", "--help"), minirun("run", "--help", "gpu")
    assert one.stdout.startswith("Usage: minirun run [flags] IMAGE")
    assert "--gpus GPUS" in one.stdout and "--memory" not in one.stdout
    assert one.stdout.split("\n\n", 1)[1].rstrip() in whole.stdout
    assert minirun("help", "run", "GPU").stdout == one.stdout
    assert minirun("run", "--help", "busybox").stdout == whole.stdout
    assert "One group" not in minirun("ps", "--help").stdout
