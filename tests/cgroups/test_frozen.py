"""A container whose cgroup is frozen would never begin: it is refused, for create and for run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from minirun.cgroups import hierarchies, open_cgroup, stopping, tree


class Frozen:
    """An empty cgroup that is frozen, and a bundle that names it."""

    def __init__(self, program: Program, bundle: Path) -> None:
        self.program, self.bundle = program, bundle
        self.is_v2 = "v2" in program.flags
        self.path = f"/minirun-frozen-{os.getpid()}"
        wanted = (h for h in hierarchies.mounted()
                  if (h.version == 2 if self.is_v2 else "freezer" in h.names))  # fmt: skip
        self.directory = Path(next(wanted).path + self.path)
        self.directory.mkdir()
        self._write("FROZEN", "1")

    def _write(self, v1: str, v2: str) -> None:
        name = "cgroup.freeze" if self.is_v2 else "freezer.state"
        (self.directory / name).write_text(v2 if self.is_v2 else v1)

    def thaw(self) -> None:
        if self.directory.exists():
            self._write("THAWED", "0")

    def config(self, path: str) -> None:
        config = self.program.spec("true")
        config["linux"]["cgroupsPath"] = path
        (self.bundle / "config.json").write_text(json.dumps(config))

    def __call__(self, verb: str) -> subprocess.CompletedProcess[str]:
        argv = (verb, "--bundle", str(self.bundle), f"frozen-{os.getpid()}")
        return self.program(*argv, timeout=20)


@pytest.fixture
def frozen(minirun_both: Program, layer: Path) -> Iterator[Frozen]:
    made = Frozen(minirun_both, layer.parent)
    try:
        yield made
    finally:
        made.thaw()
        minirun_both("delete", "--force", f"frozen-{os.getpid()}")
        stopping.clear(open_cgroup(made.path, "v2" if made.is_v2 else "v1"), 5)


@pytest.mark.parametrize("below", ["", "/new", "/a/b/new"], ids=["itself", "new", "deeper"])
@pytest.mark.parametrize("verb", ["create", "run"])
def test_a_frozen_cgroup_is_refused(verb: str, below: str, frozen: Frozen) -> None:
    frozen.config(frozen.path + below)
    done = frozen(verb)
    assert done.returncode == 1, done
    what = f"container's cgroup unexpectedly frozen: {frozen.directory}"
    start = f"minirun: linux.cgroupsPath: {frozen.path}{below}: {what} ("
    assert done.stderr.startswith(start), done.stderr
    assert done.stderr.count("\n") == 1
    assert frozen.program.left() == []
    assert frozen.directory.is_dir(), "it is not the container's"
    assert [path for path in frozen.directory.iterdir() if path.is_dir()] == []


def test_one_that_was_thawed_is_taken(frozen: Frozen) -> None:
    frozen.config(frozen.path)
    frozen.thaw()
    done = frozen("run")
    assert done.returncode == 0, done.stderr


def test_a_cgroup_that_goes_while_it_is_asked() -> None:
    """The parent of all containers goes with the last one: reading what was opened is ENODEV."""
    top = next(h.path for h in hierarchies.mounted() if "freezer" in h.names or h.version == 2)
    path = f"{top}/minirun-going-{os.getpid()}"
    pid = os.fork()
    if pid == 0:
        while os.getppid() != 1:
            os.mkdir(path)
            os.rmdir(path)
    try:
        assert {tree.is_frozen(path) for _ in range(8_000)} <= {None, False}
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if os.path.isdir(path):
            os.rmdir(path)
