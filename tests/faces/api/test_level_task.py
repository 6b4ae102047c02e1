"""minirun.level: a level of the ladder in Python."""

from pathlib import Path

import pytest

import minirun as api
from minirun.core.errors import MinirunError, UsageError
from minirun.faces.teach.levels import programs


def test_what_is_to_be_written(tmp_path: Path) -> None:
    """The gaps are shown in the asked language; a file that is there stays as it is."""
    task = api.level(3, "ko", folder=str(tmp_path))
    level = programs.find("3", "ko")
    assert task.path.read_text() == programs.skeleton(level)
    assert (tmp_path / programs.LIBRARY).exists()
    shown = str(task)
    assert level.title in shown and str(task.path) in shown
    assert all(f"\n{name}:\n" in shown for name in level.gaps)
    task.path.write_text("mine")
    api.level(3, folder=str(tmp_path))
    assert task.path.read_text() == "mine"


def test_it_is_checked(tmp_path: Path) -> None:
    task = api.level(0, "en", folder=str(tmp_path))
    assert not task.holds() and "is not written yet" in task.check()
    task.path.write_text(task.level.path.read_text())
    assert task.holds() and "\nLevel 0 holds: " in task.check()


def test_without_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a browser: what is to be written is known still."""

    def nowhere() -> Path:
        raise MinirunError("the ladder's programs are not here")

    monkeypatch.setattr(programs, "folder", nowhere)
    task = api.level(3, folder=str(tmp_path))
    assert all(name in str(task) for name in task.level.gaps)
    assert not task.path.exists()


def test_no_such_level(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no level '11'"):
        api.level(11, folder=str(tmp_path))
