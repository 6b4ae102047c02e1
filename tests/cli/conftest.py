"""A program whose containers lie where the root of a user namespace can reach them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program


@pytest.fixture
def reachable(command: str) -> Iterator[Program]:
    """Unlike `minirun`, whose tmp_path only the host's root may enter."""
    directory = Path(tempfile.mkdtemp(prefix="minirun-test."))
    directory.chmod(0o711)
    program = Program(command, directory / "containers")
    yield program
    program.clean()
    shutil.rmtree(directory)
