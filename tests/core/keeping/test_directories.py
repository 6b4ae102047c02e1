"""A container's directory: who may enter it, and what is removed."""

import os
from pathlib import Path

import pytest

from minirun.core.keeping import directories


@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_others_pass_through_a_root_and_enter_nothing_in_it(tmp_path: Path, mask: int) -> None:
    """The root of a user namespace reaches its container by its path, and sees no other's name."""
    before = os.umask(mask)
    try:
        path = Path(directories.make(str(tmp_path / "containers")))
    finally:
        os.umask(before)
    modes = [each.stat().st_mode & 0o777 for each in (path.parents[1], path.parent, path)]
    assert modes == [0o711, 0o700, 0o700]


def test_a_file_that_goes_while_the_others_are_removed(tmp_path: Path) -> None:
    """A process of the container may still remove what it made there."""
    for name in ("a", "b", "state.json"):
        (tmp_path / name).write_text("")
    (tmp_path / "directory/inner").mkdir(parents=True)
    listed = os.listdir

    def then_removed(fd: int) -> list[str]:
        names = listed(fd)
        (tmp_path / "b").unlink(missing_ok=True)
        return names

    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "listdir", then_removed)
            directories.empty(fd)
    finally:
        os.close(fd)
    assert listed(tmp_path) == ["state.json"]
