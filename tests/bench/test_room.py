"""Several users of one machine at once: no error, nothing left. room.py measures thirty."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import room  # this folder's

USERS, ROUNDS = 6, 2


@pytest.mark.parametrize("many", [room.as_root, room.without_privileges, room.on_the_ladder])
def test_a_small_class(many: Callable[[Path, int, int], room.Report]) -> None:
    with room.place() as folder:
        report = many(folder, USERS, ROUNDS)
    assert (report.errors, report.left) == ([], [])
    assert len(report.waits) == USERS * ROUNDS
