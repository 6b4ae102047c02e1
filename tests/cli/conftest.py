"""minirun beside runc, and its command line in this process."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.columns import Called, Runtime
from conftest import Program
from minirun import cli
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


@pytest.fixture
def called(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Called:
    """The command line, called in this process.

    The program is nothing else: it ends with the status that main() returns (test_table.py holds
    one against the other). For words that are read and refused, or answered with help.
    """

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        argv = ["--root", str(tmp_path / "containers"), *words]
        status = cli.main(argv)
        return subprocess.CompletedProcess(argv, status, *capfd.readouterr())

    return call
