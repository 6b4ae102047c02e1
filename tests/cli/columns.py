"""Two columns: minirun and the real runc, called with the same words."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import wait_until
from layers import copy_layer, layer_of
from minirun import cli
from program import Program
from required import installed

IMAGE = layer_of("busybox")
Done = subprocess.CompletedProcess[str]
Called = Callable[..., Done]


class Runtime:
    """One column: a runtime with a state root, a bundle and one container of its own."""

    def __init__(self, argv: list[str], bundle: Path, name: str) -> None:
        self.argv = argv
        self.bundle = bundle
        self.name = name
        if not (bundle / "rootfs").exists():
            copy_layer(IMAGE, bundle / "rootfs")

    def __call__(self, *words: str, input: str = "", env: dict[str, str] | None = None) -> Done:
        """Run it; ID in `words` is the container's."""
        argv = [*self.argv, *(self.name if word == "ID" else word for word in words)]
        out = self.bundle / "out"
        with open(out, "w+") as stdout:  # a container would keep a pipe open
            done = subprocess.run(
                argv, input=input, stdout=stdout, stderr=subprocess.PIPE if input else stdout,
                text=True, check=False, timeout=60, env=env, cwd=self.bundle,
            )  # fmt: skip
        return Done(argv, done.returncode, out.read_text(), done.stderr or "")

    def config(self, **process: Any) -> None:
        """Write config.json: a sleep, and no terminal."""
        config = {
            "ociVersion": "1.0.2",
            "root": {"path": "rootfs", "readonly": True},
            "process": {
                "cwd": "/", "args": ["sleep", "100"], "user": {"uid": 0, "gid": 0},
                "env": ["PATH=/bin:/usr/bin"], "capabilities": {"bounding": ["CAP_KILL"]},
            } | process,
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},  # not all hold nodes
            ],
            "linux": {
                "cgroupsPath": f"/minirun-test-{self.name}",
                "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")],
                "resources": {"devices": [{"allow": True, "access": "rwm"}]},
            },
        }  # fmt: skip
        (self.bundle / "config.json").write_text(json.dumps(config))

    def status(self) -> str:
        return str(json.loads(self("state", "ID").stdout)["status"])

    def running(self) -> Runtime:
        """Create and start the container."""
        for words in (("create", "ID"), ("start", "ID")):
            done = self(*words)
            assert done.returncode == 0, done.stdout
        return self

    def stopped(self) -> Runtime:
        self.running()("kill", "ID", "KILL")
        wait_until(lambda: self.status() == "stopped")
        return self


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
