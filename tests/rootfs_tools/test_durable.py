"""After a loss of power the store is whole: what a command has said is done, is on the disk."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import STORE, Program
from required import installed
from tests.rootfs_tools.layouts import LayoutFolder, member, tar

FILES = tar(*(member(f"{number}", content=os.urandom(20_000)) for number in range(40)))
MEGABYTES = 48


class Disk:
    """A file system of its own, in a file, whose power can be lost."""

    def __init__(self, folder: Path) -> None:
        self.file, self.place = folder / "disk", folder / "mounted"
        self.place.mkdir()
        self.file.write_bytes(b"")
        os.truncate(self.file, MEGABYTES << 20)
        subprocess.run([installed("mkfs.ext4"), "-q", self.file], check=True)
        self.mount()

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", self.file, self.place], check=True)

    def lose_power(self) -> None:
        """Go on with what has come to the disk, and nothing else: what is in memory is lost."""
        copy = self.file.with_suffix(".copy")
        shutil.copy(self.file, copy)
        subprocess.run(["umount", self.place], check=True)
        copy.rename(self.file)
        self.mount()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    os.sync()
    yield made
    subprocess.run(["umount", made.place], check=True)


@pytest.fixture
def program(command: str, disk: Disk, tmp_path: Path) -> Program:
    return Program(command, store=disk.place / "store")


def test_what_was_loaded_is_there(program: Program, disk: Disk, tmp_path: Path) -> None:
    layout = LayoutFolder(tmp_path / "layout", FILES, tar(member("one", content=b"1")))
    assert program("load", "-i", str(layout.path), "app").returncode == 0
    disk.lose_power()
    assert program("images", "--verify").stdout == "app:latest: intact\n"
    assert program("save", "-o", str(tmp_path / "saved"), "app").returncode == 0


def test_what_was_built_is_there(program: Program, disk: Disk, tmp_path: Path) -> None:
    with open(tmp_path / "busybox.tar", "wb") as file:
        save = [program.path, "--store", STORE, "save", "busybox"]
        subprocess.run(save, stdout=file, check=True)
    assert program("load", "-i", str(tmp_path / "busybox.tar")).returncode == 0
    text = "FROM busybox\nRUN cp -a /bin /bin2\nRUN echo 1 > /one\n"
    assert program("build", "-q", "-t", "app", "-", input=text).returncode == 0
    disk.lose_power()
    done = program("images", "--verify")
    assert "app:latest: intact\n" in done.stdout and done.returncode == 0
    again = program("build", "-t", "app", "-", input=text)
    assert again.stdout.count("using cache") == 2, again


def test_what_was_begun_is_whole_or_not_there(program: Program, disk: Disk, tmp_path: Path) -> None:
    """The name of an image never comes to the disk before what it means."""
    layout = LayoutFolder(tmp_path / "layout", FILES)
    for moment in range(4):
        process = program.start("load", "-i", str(layout.path), "app")
        try:
            process.wait(0.1 + 0.05 * moment)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        disk.lose_power()
        assert set(program("images", "--verify").stdout.splitlines()) <= {"app:latest: intact"}
    assert program("load", "-i", str(layout.path), "app").returncode == 0
    assert program("images", "--verify").returncode == 0


def test_killed_at_each_call_that_names_something(command: str, tmp_path: Path) -> None:
    """No directory of an image is there without its record, for a moment or for good."""
    layout = LayoutFolder(tmp_path / "layout", FILES)
    killed = 0
    for number in range(1, 40):
        program = Program(command, store=tmp_path / str(number))
        fault = f"inject=syncfs,fsync,rename,renameat2:signal=KILL:when={number}"
        argv = program.argv("load", "-i", str(layout.path), "app")
        done = subprocess.run(
            [installed("strace"), "-f", "-qq", "-o", "/dev/null", "-e", fault, *argv],
            capture_output=True, check=False,
        )  # fmt: skip
        assert set(program("images", "--verify").stdout.splitlines()) <= {"app:latest: intact"}
        if done.returncode == 0:
            break
        killed += 1
    assert 3 < killed < 39
