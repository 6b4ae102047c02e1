"""--gpus as docker's users type it: a number that stands alone, and the flag twice."""

import pytest

from conftest import Program

SIMULATED = "--gpu-driver=simulated"
LIST = ("busybox", "sh", "-c", "ls /dev | grep '^nvidia[0-9]'")


@pytest.mark.parametrize("number", ["1", "2"])
def test_a_number_alone_is_an_index_and_a_line_says_so(minirun: Program, number: str) -> None:
    done = minirun("run", "--gpus", number, SIMULATED, *LIST)
    assert done.stdout == f"nvidia{number}\n"
    text = f"--gpus {number} is the GPU with index {number}, and no count"
    assert done.stderr == f"minirun: {text} (that is --gpus count={number})\n"
    notes = [event for event in minirun.events() if event["kind"] == "note"]
    assert any(text in str(note) for note in notes), "the log keeps it"


@pytest.mark.parametrize("gpus", ["0", "0,1", "device=1", "count=1", "1,2"])
def test_nothing_is_said_of_what_is_plain(minirun: Program, gpus: str) -> None:
    assert minirun("run", "--rm", "--gpus", gpus, SIMULATED, "busybox", "true").stderr == ""


@pytest.mark.parametrize("second", ["--gpus=device=1", "--gpu=device=1"])
def test_of_two_the_last_counts_as_with_docker(minirun: Program, second: str) -> None:
    done = minirun("run", "--rm", "--gpus", "0", second, SIMULATED, *LIST)
    assert done.stdout == "nvidia1\n"
    assert done.stderr == "minirun: --gpus is given twice: the last one counts, device=1\n"


def test_nothing_is_said_of_the_same_twice(minirun: Program) -> None:
    done = minirun("run", "--rm", "--gpus", "0", "--gpu=0", SIMULATED, *LIST)
    assert (done.stdout, done.stderr) == ("nvidia0\n", "")
