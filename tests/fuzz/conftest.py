"""The cage of a module's cases, and how many cases there are: MINIRUN_FUZZ, or a part of them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.cage import Cage

CASES = int(os.environ.get("MINIRUN_FUZZ") or 0)
"""How many configurations are tried, and then all images in all ways; 0: a part, in a minute."""


@pytest.fixture(scope="module")
def cage(command: str) -> Iterator[Cage]:
    """A folder that the root of a user namespace may enter, with the decoy, and a cgroup."""
    folder = Path(tempfile.mkdtemp(prefix="minirun-fuzz."))
    folder.chmod(0o711)
    made = Cage(folder, [command, "--root", str(folder / "state")])
    yield made
    made.close()
    shutil.rmtree(folder)
