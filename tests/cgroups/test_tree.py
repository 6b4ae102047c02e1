"""Directories: races of making and removing, and what is not followed."""

import os
import subprocess
import sys

import pytest

from minirun.cgroups import hierarchies, tree
from minirun.core.errors import StateError

RACER = """
import os, sys
from minirun.cgroups import tree
mount, parent, name = sys.argv[1:]
for n in range(150):
    tree.make(mount, f"{parent}/{name}-{n}")
    tree.remove([f"{mount}{parent}/{name}-{n}"], 5)
    try:
        os.rmdir(mount + parent)
    except OSError:
        pass
"""


@pytest.fixture
def mount():
    found = [h.path for h in hierarchies.mounted() if "pids" in h.names or h.version == 2]
    assert found, "no pids hierarchy and no cgroup2 is mounted here"
    return found[0]


def test_creators_and_removers_of_one_parent_do_not_hurt_each_other(mount):
    parent = f"/minirun-race-{os.getpid()}"
    argv = [sys.executable, "-I", "-c", RACER, mount, parent]
    racers = [subprocess.Popen([*argv, str(n)]) for n in range(3)]
    assert [racer.wait() for racer in racers] == [0, 0, 0]
    assert not os.path.exists(mount + parent)


def test_the_parent_goes_with_the_last_one_and_only_if_it_is_our_own(mount, tmp_path):
    place = str(tmp_path)
    for path in ("/minirun/a", "/minirun/b", "/other/c"):
        assert tree.make(place, path)
        assert not tree.make(place, path)
    tree.remove([place + "/minirun/a"], 0)
    tree.remove_own_parent(place, "/minirun/a")
    assert os.listdir(place + "/minirun") == ["b"]
    tree.remove([place + "/minirun/b", place + "/other/c"], 0)
    tree.remove_own_parent(place, "/minirun/b")
    tree.remove_own_parent(place, "/other/c")
    tree.remove_own_parent(place, "/minirun")
    assert os.listdir(place) == ["other"]


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside" / "kept"
    outside.mkdir(parents=True)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "outside")
    assert list(tree.below(str(inside))) == []
    assert tree.processes(str(inside)) == []
    with pytest.raises(StateError, match="cannot be removed: it is in use"):
        tree.remove([str(inside)], 0)
    assert outside.exists()


def test_a_file_in_the_place_of_a_directory_is_an_error_with_its_path(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as caught:
        tree.remove([str(tmp_path / "file")], 0)
    assert caught.value.filename == str(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        tree.make(str(tmp_path / "file"), "/x")


def test_a_directory_may_be_closed_twice(tmp_path):
    directory = tree.Dir(str(tmp_path))
    (tmp_path / "n").write_text("42\n")
    assert directory.read("n") == "42\n"
    directory.close()
    directory.close()


def test_cgroups_nested_deeper_than_a_path_reaches(mount):
    """A container once made so many that no `delete` could remove it: PATH_MAX is 4096."""
    top = f"{mount}/minirun-deep-{os.getpid()}"
    os.mkdir(top)
    here = os.open(top, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("n" * 200, dir_fd=here)
        os.mkdir("beside", dir_fd=here)
        following = os.open("n" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    process = subprocess.Popen(["sleep", "100"])
    try:
        file = os.open("cgroup.procs", os.O_WRONLY, dir_fd=here)
        os.write(file, str(process.pid).encode())
        os.close(file)
        assert tree.processes(top) == [process.pid]
        with pytest.raises(StateError, match=f"such as {process.pid}"):
            tree.remove([top], 0)
    finally:
        process.kill()
        process.wait()
        os.close(here)
    tree.remove([top], 5)
    assert not os.path.exists(top)
