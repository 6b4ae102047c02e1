"""minirun beside runc."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.columns import Runtime
from conftest import Program
from required import installed


@pytest.fixture(params=["minirun", "runc"])
def runtime(request: pytest.FixtureRequest, minirun: Program, tmp_path: Path) -> Iterator[Runtime]:
    """First minirun, then runc: what a test asserts holds in both columns."""
    argv = minirun.argv()
    if request.param == "runc":
        installed("runc")
        (tmp_path / "runc").mkdir()  # runc 1.3 lists no containers of a root that is not there
        argv = ["runc", "--root", str(tmp_path / "runc")]
    made = Runtime(argv, tmp_path, f"{request.param}-{os.getpid()}")
    made.config()
    yield made
    made("delete", "--force", "ID")
