"""`exec` into a container whose init ends meanwhile."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.columns import Runtime
from conftest import Program, wait_until
from minirun.core import extras
from minirun.core.container import Console, Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.oci.exec import join, sibling
from minirun.running import lookup


@pytest.fixture
def living(minirun: Program, tmp_path: Path) -> Iterator[Container]:
    """A container that runs, and is deleted in the end."""
    made = Runtime(minirun.argv(), tmp_path, f"ends-{os.getpid()}")
    made.config()
    assert made("create", "-b", ".", "ID").returncode == 0
    assert made("start", "ID").returncode == 0
    found = lookup.load(Settings(root=str(minirun.root)), made.name)
    extras.prepare(found, join.POINTS)
    yield found
    assert made("delete", "ID").returncode == 0


def test_an_init_that_ends_between_two_steps(living: Container) -> None:
    """setns(2) says ESRCH then, "No such process", which does not tell of which one."""
    way = join.access(living)
    os.kill(living.record.first_process()["pid"], 9)
    wait_until(lambda: not state.is_alive(living.record.init))
    with pytest.raises(MinirunError, match=f"container {living.id} is not running"):
        join.enter(living, living.config, Console(), way)


def test_a_clone_into_a_namespace_that_ends(
    living: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """clone(2) says ENOMEM then, "Cannot allocate memory": pid_namespaces(7)."""
    way, clone = join.access(living), sibling.clone_sibling

    def clone_late(*, why: str) -> int:
        pid = living.record.pid  # its number on the host is the joiner's own, too
        poll = select.poll()
        poll.register(os.pidfd_open(pid))
        os.kill(pid, 9)
        assert poll.poll(10_000)
        return clone(why=why)

    monkeypatch.setattr(sibling, "clone_sibling", clone_late)
    with pytest.raises(MinirunError, match=f"container {living.id} is not running"):
        join.enter(living, living.config, Console(), way)
