"""A CRIU that works, first in PATH, and a bundle whose container counts."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from toolkit.criu import working

COUNTER = "i=0; while :; do i=$((i+1)); echo $$ $i >/new; mv /new /count; sleep 0.02; done"
"""Writes its own pid and how far it is, whole, over and over."""


TRIES = 4
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def criu() -> str:
    """The directory of a CRIU that works on this machine."""
    try:
        return working.directory()
    except working.Unreachable as error:
        pytest.skip(str(error))


class Bundle:
    """A bundle with a busybox of its own, and the files of its checkpoints next to it."""

    def __init__(self, minirun: Program, rootfs: Path) -> None:
        self.minirun = minirun
        self.rootfs = rootfs
        self.path = rootfs.parent
        self.images = self.path / "images"
        self.output = self.path / "output"
        subprocess.run(minirun.argv("spec"), cwd=self.path, check=True)
        self.config: dict[str, Any] = json.loads((self.path / "config.json").read_text())
        self.config["process"]["terminal"] = False
        self.config["root"]["readonly"] = False
        self.command("sh", "-c", f"sh -c '{COUNTER}' & wait")

    def command(self, *args: str) -> None:
        """Choose what the container runs."""
        self.config["process"]["args"] = list(args)
        self.save()

    def save(self) -> None:
        """Write config.json."""
        (self.path / "config.json").write_text(json.dumps(self.config))

    def run(self, name: str = "c") -> None:
        """Start the container with nothing to read, and wait until it counts."""
        self._detached("run", "-d", "--bundle", str(self.path), name)
        wait_until(lambda: (self.rootfs / "count").exists())

    def restore(self, *flags: str, name: str = "c") -> None:
        """Restore it in the background."""
        places = ("--image-path", str(self.images), "--bundle", str(self.path))
        self._detached("restore", "-d", *places, *flags, name)

    def goes_on(self) -> None:
        """Restore it, and see it count on from where it was."""
        number = self.count()[1]
        self.restore()
        wait_until(lambda: self.count()[1] > number)

    def _detached(self, *args: str) -> None:
        with self.output.open("a") as file:
            done = subprocess.run(
                self.minirun.argv(*args), stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        assert done.returncode == 0, self.output.read_text()

    def checkpoint(self, *flags: str, name: str = "c") -> Done:
        """Save it."""
        return self.dump("--image-path", str(self.images), *flags, name)

    def dump(self, *words: str, cwd: Path | None = None) -> Done:
        """Run `checkpoint`; once more if CRIU waits in vain for a process that it has frozen.

        CRIU 4.2 does it on cgroup v1 in about one of eight dumps, for runc too. It gives up after
        ten seconds, and the container runs on.
        """
        for _ in range(TRIES):
            done = self.minirun("checkpoint", *words, cwd=cwd)
            print(done.stderr)  # pytest shows it if a test fails
            if "Timeout reached" not in done.stderr:
                break
        return done

    def count(self) -> tuple[int, int]:
        """The counter's pid, as it sees it, and how far it is."""
        pid, number = (self.rootfs / "count").read_text().split()
        return int(pid), int(number)

    def status(self, name: str = "c") -> str:
        """What `state` says, or "" of a container that is not there."""
        done = self.minirun("state", name)
        return str(json.loads(done.stdout)["status"]) if done.returncode == 0 else ""

    def init(self, name: str = "c") -> int:
        """The host's number of its first process."""
        return int(json.loads(self.minirun("state", name).stdout)["pid"])


@pytest.fixture
def working_criu(criu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CRIU that works is the first in PATH."""
    monkeypatch.setenv("PATH", f"{criu}:{os.environ['PATH']}")


@pytest.fixture
def bundle(minirun: Program, layer: Path, working_criu: None) -> Bundle:
    """A bundle, and a CRIU for it."""
    return Bundle(minirun, layer)


@pytest.fixture
def bundle_both(minirun_both: Program, layer: Path, working_criu: None) -> Bundle:
    """The same, on cgroup v1 and on cgroup2."""
    return Bundle(minirun_both, layer)
