"""`exec` into a container whose init ends meanwhile."""

import os
from pathlib import Path

import pytest

from cli.columns import Runtime
from conftest import Program, wait_until
from minirun.core import state
from minirun.core.errors import MinirunError
from minirun.core.process.streams import Console
from minirun.core.settings import Settings
from minirun.oci.exec import join
from minirun.running import existing


def test_an_init_that_ends_between_two_steps(minirun: Program, tmp_path: Path) -> None:
    """setns(2) says ESRCH then, "No such process", which does not tell of which one."""
    made = Runtime(minirun.argv(), tmp_path, f"ends-{os.getpid()}")
    made.config()
    assert made("create", "-b", ".", "ID").returncode == 0
    assert made("start", "ID").returncode == 0
    found = existing.load(Settings(root=str(minirun.root)), made.name)
    found.prepare(join.POINTS)
    way = join.access(found)
    os.kill(found.record["init"]["pid"], 9)
    wait_until(lambda: not state.is_alive(found.record["init"]))
    with pytest.raises(MinirunError, match=f"container {made.name} is not running"):
        join.enter(found, found.config, Console(), way)
    assert made("delete", "ID").returncode == 0
