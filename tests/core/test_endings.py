"""The end of a container: what its log, which stays, says of it."""

import json
import os
from typing import Any

import pytest

from conftest import Program
from minirun.core.container import LOG_LIMIT
from minirun.core.keeping import places

NAME = f"endings-{os.getpid()}"


def ends(minirun: Program) -> list[Any]:
    """Return what the one log of the history says of the command's end."""
    (log,) = minirun.logs(NAME)
    rows = [json.loads(line) for line in log.read_text().splitlines() if line]
    return [row["args"] for row in rows if (row["kind"], row["name"]) == ("note", "command ended")]


def test_the_log_of_one_that_goes_at_its_end_says_its_status(minirun: Program) -> None:
    run = minirun("run", "--rm", "--name", NAME, "busybox", "sh", "-c", "exit 3")
    assert run.returncode == 3, run.stderr
    assert ends(minirun) == [{"status": 3}]


@pytest.mark.parametrize("is_large", [False, True])
def test_the_log_is_opened_again_by_who_removes_the_container(
    minirun: Program, is_large: bool
) -> None:
    """The record says the status until then. A log of too many events grows no more."""
    minirun("run", "--name", NAME, "busybox", "sh", "-c", "exit 3")
    log = minirun.directory(NAME) / places.EVENTS
    assert "command ended" not in log.read_text()
    if is_large:
        with log.open("a") as file:
            file.write("\n" * LOG_LIMIT)
    assert minirun("rm", NAME).returncode == 0
    assert ends(minirun) == ([] if is_large else [{"status": 3}])


def test_one_that_never_ran_has_no_status(minirun: Program) -> None:
    minirun("create", "--name", NAME, "busybox", "true")
    assert minirun("delete", "--force", NAME).returncode == 0
    assert ends(minirun) == []
