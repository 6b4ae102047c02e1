"""Builds in a store of their own, over a small base image that knows names of users."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import STORE, Program
from rootfs_tools.archives.saving import SavedSource, collected
from rootfs_tools.take import take

BASE = """FROM busybox
RUN echo 'games:x:5:60:games:/:/bin/sh' >> /etc/passwd; echo 'staff:x:77:' >> /etc/group; \\
    mkdir -p /usr/share/deep/er /real && echo old > /usr/share/deep/file && \\
    echo other > /usr/share/deep/er/x && ln -s real /link && chmod 700 /real
"""


def build(program: Program, folder: Path, text: str, *flags: str) -> str:
    """Build the Dockerfile `text` in a folder; return what it prints."""
    (folder / "Dockerfile").write_text(text)
    done = program("build", *flags, str(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def base_store(command: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with busybox, and `base` built on it."""
    folder = tmp_path_factory.mktemp("base")
    with collected(STORE, ["busybox"]) as (image,):
        take(str(folder / "store"), "busybox", SavedSource(image, "busybox"))
    program = Program(command, store=folder / "store")
    (folder / "context").mkdir()
    build(program, folder / "context", BASE, "-t", "base")
    return folder / "store"


@pytest.fixture
def builder(command: str, base_store: Path, tmp_path: Path) -> Iterator[Program]:
    """The program, with a copy of that store."""
    store = tmp_path / "store"
    subprocess.run(["cp", "-a", str(base_store), str(store)], check=True)
    program = Program(command, store=store)
    yield program
    program.clean()
    shutil.rmtree(store)


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """An empty folder for a Dockerfile and its files."""
    folder = tmp_path / "context"
    folder.mkdir()
    return folder
