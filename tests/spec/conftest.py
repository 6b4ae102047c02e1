"""A bundle whose config.json has this and that property, and a container made from it."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program

Done = subprocess.CompletedProcess[str]
GONE = object()
"""In place of a value: the property is taken away."""


class Bundle:
    """A directory with a root filesystem, busybox's, and a config.json, `minirun spec`'s."""

    def __init__(self, program: Program, path: Path) -> None:
        self.program = program
        self.path = path
        self.rootfs = path / "rootfs"
        self.name = f"s-{path.name[-20:]}-{os.getpid()}"
        self.config = program.spec("true")

    def write(self, command: str | list[str], **changes: Any) -> None:
        """Write config.json; `linux__sysctl={…}` is a change of linux.sysctl."""
        config = json.loads(json.dumps(self.config))
        config["process"]["args"] = ["sh", "-c", command] if isinstance(command, str) else command
        for path, value in changes.items():
            place, names = config, path.split("__")
            for name in names[:-1]:
                place = place.setdefault(name, {})
            if value is GONE:
                place.pop(names[-1], None)
            else:
                place[names[-1]] = value
        (self.path / "config.json").write_text(json.dumps(config))

    def run(self, command: str | list[str], **changes: Any) -> Done:
        """Run a command (a shell's, where it is one string) in a container to its end."""
        self.write(command, **changes)
        return self.program("run", "--bundle", str(self.path), self.name)

    def says(self, command: str | list[str], **changes: Any) -> str:
        """Return what the command prints, without the last newline; it must end well."""
        done = self.run(command, **changes)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def refuses(self, command: str | list[str] = "true", **changes: Any) -> str:
        """Return the one line that an error is; nothing of the container must be left."""
        done = self.run(command, **changes)
        assert done.returncode == 1, (done.stdout, done.stderr)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        assert not self.program.directory(self.name).exists()
        return done.stderr

    def create(self, command: str | list[str] = "sleep 100", **changes: Any) -> dict[str, Any]:
        """Create a container and return its state."""
        self.write(command, **changes)
        argv = self.program.argv("create", "--bundle", str(self.path), self.name)
        with (self.path / "stderr").open("w") as stderr:  # the container keeps it: no pipe
            null = subprocess.DEVNULL
            done = subprocess.run(argv, stdin=null, stdout=null, stderr=stderr, check=False)
        assert done.returncode == 0, (self.path / "stderr").read_text()
        return self.state()

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.program("state", self.name).stdout)
        return state

    def let_others_in(self) -> None:
        """Let other users, such as a user namespace's root, through the directories above it."""
        for path in (self.path, *self.path.parents):
            if not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)

    def mounts(self, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """The usual mounts, and these."""
        return [*self.config["mounts"], *rows]

    def namespaces(self, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """The usual namespaces, with these in place of theirs."""
        kinds = {row["type"] for row in rows}
        usual = [row for row in self.config["linux"]["namespaces"] if row["type"] not in kinds]
        return [*usual, *rows]


@pytest.fixture
def bundle(minirun: Program, layer: Path, tmp_path: Path) -> Bundle:
    """A bundle, below tmp_path."""
    assert layer == tmp_path / "rootfs"
    return Bundle(minirun, tmp_path)


@pytest.fixture
def bundle_both(minirun_both: Program, layer: Path, tmp_path: Path) -> Bundle:
    """The same with containers on cgroup v1, and on cgroup2."""
    return Bundle(minirun_both, tmp_path)


@pytest.fixture
def hook(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Makes a hook out of a shell script."""

    def make(script: str, name: str = "hook", **more: Any) -> dict[str, Any]:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return {"path": str(path), "env": ["PATH=/bin:/usr/bin"], **more}

    return make
