"""The processes that /proc shows."""

import os

from minirun.common.processes import pids


def test_pids() -> None:
    found = pids()
    assert {1, os.getpid()} <= set(found)
    assert len(found) == len(set(found))
