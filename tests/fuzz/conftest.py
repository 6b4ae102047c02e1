"""The cage of a module's cases."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from apart import HOST, apart
from fuzz.cage import Cage


@pytest.fixture(scope="module")
def cage(command: str) -> Iterator[Cage]:
    """A folder that the root of a user namespace may enter, with the decoy, and a cgroup.

    The cases have namespaces of a host of their own, since another test may change the machine's.
    It forwards already, as one with docker does: for a bridge minirun would switch that on.
    """
    folder = Path(tempfile.mkdtemp(prefix="minirun-fuzz."))
    folder.chmod(0o711)
    with apart(*HOST):
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        made = Cage(folder, [command, "--root", str(folder / "state")])
        yield made
        made.close()
    shutil.rmtree(folder)
