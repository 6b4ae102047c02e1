"""Cells: what a test without a named root has for itself, and that nothing may stay in one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import STORE, Program
from minirun.core.keeping.places import CONTAINERS
from minirun.engines import roots

IN_A_CELL = """
import sys
from pathlib import Path
from defaults import DefaultCells
cells = DefaultCells()
try:
    with cells.one(Path(sys.argv[1])):
        exec(sys.stdin.read())
finally:
    cells.close()
"""
"""What a worker does for one test; the cell's folder, and then more words of the test's own."""
BOTH = """
import os, subprocess, time
def minirun(*words):
    done = subprocess.run([sys.argv[2], *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
assert minirun("ps", "-aq") == (0, "", "")
assert minirun("run", "-d", "--name", "same", "busybox", "sleep", "100")[::2] == (0, "")
print("runs", flush=True)
for _ in range(3000):
    if not os.path.exists(sys.argv[3]):
        time.sleep(0.01)
assert minirun("gc") == (0, "", "")
assert minirun("exec", "same", "echo", "lives") == (0, "lives\\n", "")
assert minirun("ps", "-a", "--format", "{{.Names}}") == (0, "same\\n", "")
assert minirun("rm", "-f", "same") == (0, "same\\n", "")
assert minirun("ps", "-aq") == (0, "", "")
"""


def cell(folder: Path, code: str, *words: str) -> "subprocess.Popen[str]":
    """Run a piece of Python in a cell of a process of its own."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_CELL, folder, *words], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert process.stdin
    process.stdin.write(code)
    process.stdin.close()
    process.stdin = None
    return process


def test_the_same_id_in_two_cells(command: str, tmp_path: Path) -> None:
    """The first deletes its own while the second's lives on, and gc takes nothing away."""
    doors = [tmp_path / "first-door", tmp_path / "second-door"]
    both = [cell(door.with_suffix(".cell"), BOTH, command, str(door)) for door in doors]
    for one in both:
        assert one.stdout and one.stdout.readline() == "runs\n", one.communicate()[1]
    for one, door in zip(both, doors, strict=True):
        door.touch()
        said = one.communicate(timeout=60)
        assert one.returncode == 0, said
    for door in doors:
        assert (door.with_suffix(".cell") / CONTAINERS).is_dir(), "the default root was there"
    assert not Path(STORE, CONTAINERS, "same").exists()


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("from minirun.core.kernel import mounts\nmounts.mount('x', '/mnt', 'tmpfs')", "/mnt"),
        ("Path('/sys/fs/cgroup', 'pids/minirun/x').mkdir(parents=True)", "/minirun/x"),
    ],
    ids=["mount", "cgroup"],
)
def test_what_is_left_is_an_error(tmp_path: Path, code: str, left: str) -> None:
    if "cgroup" in code and not Path("/sys/fs/cgroup/pids").is_dir():
        code = code.replace("pids/", "")
    process = cell(tmp_path / "cell", code)
    _, errors = process.communicate(timeout=60)
    assert "AssertionError: left behind in the cell: [" in errors and left in errors
    assert process.returncode == 1


def test_where_a_minirun_without_a_root_keeps_its_containers(minirun: Program) -> None:
    minirun("run", "--name", "c", "busybox", "true")
    assert (minirun.directory("c") / "state.json").exists()
    named = f"--root {minirun.root}" in " ".join(minirun.argv())
    assert named == (minirun.root != Path(STORE, CONTAINERS))
    assert os.path.lexists(roots.entry_of(STORE, str(minirun.root))) == named
