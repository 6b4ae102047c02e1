"""Hostile images, and a directory of the host that they try to reach."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program

NAME = f"evil-{os.getpid()}"


class Evil:
    """A bundle on an image that a test may spoil, and what of the host it is after."""

    def __init__(self, minirun: Program, layer: Path, host: Path) -> None:
        self.minirun = minirun
        self.layer = layer
        self.host = host
        config: dict[str, Any] = minirun.spec("true")
        config["root"]["path"] = str(layer)
        self.config = config
        (host / "secret").write_text("the host's secret\n")
        for name in ("null", "ptmx", "console", "full"):
            (host / name).write_text("the host's file\n")
        self.before = self.look()

    def look(self) -> dict[str, tuple[int, int, bytes]]:
        """What the host's directory holds: name → inode, mode, content."""
        return {
            str(path.relative_to(self.host)): (
                path.lstat().st_ino, path.lstat().st_mode,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in self.host.rglob("*")
        }  # fmt: skip

    def link(self, path: str, target: str | Path) -> None:
        """Put a link in the place of `path` of the image."""
        place = self.layer / path.lstrip("/")
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def write(self, path: str, text: str, mode: int = 0o755) -> None:
        """Put a file into the image."""
        place = self.layer / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def mount(self, destination: str, source: str | Path, *options: str) -> None:
        """Ask for a bind mount."""
        row = {"destination": destination, "type": "bind", "source": str(source)}
        self.config["mounts"].append(row | {"options": ["rbind", *options]})

    def drop_mounts(self, *prefixes: str) -> None:
        """Take mounts out of config.json, so that the image's own files show."""
        rows = self.config["mounts"]
        self.config["mounts"] = [r for r in rows if not r["destination"].startswith(prefixes)]

    def save(self) -> Path:
        """Write config.json; return the bundle."""
        (self.layer.parent / "config.json").write_text(json.dumps(self.config))
        return self.layer.parent

    def run(
        self, *args: str, env: dict[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run `args` in it, and see that the host's directory is as it was."""
        if args:
            self.config["process"]["args"] = list(args)
        done = self.minirun("run", "--bundle", str(self.save()), NAME, env=env, timeout=timeout)
        assert self.look() == self.before
        return done

    def refused(self, *args: str) -> str:
        """Run it, expect a refusal in one line, and return that line."""
        done = self.run(*args)
        assert done.returncode == 1, done  # as runc
        assert done.stdout == ""
        assert done.stderr.startswith("minirun: ")
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


@pytest.fixture
def evil(minirun: Program, layer: Path) -> Iterator[Evil]:
    """An image to spoil. The host's directory lies outside of the test's own."""
    host = Path(tempfile.mkdtemp(prefix="minirun-host."))
    yield Evil(minirun, layer, host)
    shutil.rmtree(host)
