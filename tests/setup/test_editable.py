"""`make setup` without apt's part, in a copy of the clone: an editable installation, made twice."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from required import skip

TOP = Path(__file__).parents[2]
PARTS = ("minirun", "rootfs-tools", ".ci", "pyproject.toml", "Makefile", "README.md", "LICENSE")
PROGRAM = """import minirun
container: minirun.Container = minirun.run("busybox", "true", env={"A": "1"})
wrong: int = container.output
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def make(clone: Path) -> None:
    argv = ["make", "-C", str(clone), "-o", "packages", "launcher"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "No matching distribution found for" in done.stderr:
        skip(f"pip reaches no index of packages: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the name that `git clone` gives it, with its .venv."""
    clone = tmp_path_factory.mktemp("above") / "minirun"
    clone.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in PARTS:
        copy = shutil.copytree if (TOP / name).is_dir() else shutil.copy
        more = {"ignore": ignored, "symlinks": True} if copy is shutil.copytree else {}
        copy(TOP / name, clone / name, **more)
    make(clone)
    return clone


@pytest.mark.parametrize("place", ["..", ".", "rootfs-tools", "/"])
def test_it_is_imported_from_every_folder(clone: Path, place: str) -> None:
    """The folder above has a folder of its name: a namespace package, which was found first."""
    words = "import minirun, minirun.faces.api; print(minirun.__file__, minirun.can_run)"
    argv = [clone / ".venv/bin/python", "-c", words]
    done = subprocess.run(argv, cwd=clone / place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{clone}/minirun/__init__.py <function can_run")


def test_a_type_checker_sees_it(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    argv = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "program.py"]
    argv += ["--python-executable", str(clone / ".venv/bin/python"), "--cache-dir", os.devnull]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("program.py:3: error: Incompatible types in assignment"), done
    assert done.stdout.count("error:") == 1, done.stdout


def test_the_command_is_there_all_the_time(clone: Path) -> None:
    """A class runs while `make setup` or `make lab` installs once more, after `git pull`."""
    command, over, failures = clone / ".venv/bin/minirun", threading.Event(), set()
    calls = 0

    def call() -> None:
        nonlocal calls
        while not over.is_set():
            try:
                text = command.read_text()
                done = subprocess.run([command, "--version"], capture_output=True, check=False)
            except OSError as error:
                failures.add(f"{error}")
                continue
            calls += 1
            if done.returncode or b"minirun version" not in done.stdout or "-IS" not in text:
                failures.add(f"{done.returncode} {done.stderr!r} {text[:40]!r}")

    caller = threading.Thread(target=call)
    caller.start()
    try:
        (clone / "pyproject.toml").touch()
        make(clone)
    finally:
        over.set()
        caller.join()
    assert calls > 5
    assert failures == set()


def test_pip_knows_it(clone: Path) -> None:
    argv = [clone / ".venv/bin/pip", "show", "-f", "minirun"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert f"Editable project location: {clone}" in shown
    assert "../../../bin/minirun" in shown
