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
from minirun.oci.exec import join, sibling
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


def test_a_clone_into_a_namespace_that_ends(
    minirun: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """clone(2) says ENOMEM then, "Cannot allocate memory": pid_namespaces(7)."""
    made = Runtime(minirun.argv(), tmp_path, f"ends-{os.getpid()}")
    made.config()
    assert made("create", "-b", ".", "ID").returncode == 0
    assert made("start", "ID").returncode == 0
    found = existing.load(Settings(root=str(minirun.root)), made.name)
    found.prepare(join.POINTS)
    way, clone = join.access(found), sibling.clone_sibling

    def clone_late(*, why: str) -> int:
        os.kill(found.record["init"]["pid"], 9)  # by its number on the host: the joiner's own
        return clone(why=why)

    monkeypatch.setattr(sibling, "clone_sibling", clone_late)
    with pytest.raises(MinirunError, match=f"container {made.name} is not running"):
        join.enter(found, found.config, Console(), way)
    assert made("delete", "ID").returncode == 0
