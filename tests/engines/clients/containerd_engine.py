"""containerd in a cell, driven by its own client, ctr.

The runtime is one flag, --runc-binary: the shim (containerd-shim-runc-v2) calls it instead of runc.
"""

import itertools
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import tomlkit

from engines.clients import images, limits
from engines.clients.engine import IMAGE, Engine, program
from engines.clients.screen import Screen

REFERENCE = Path(__file__).parents[3] / "tutorials/reference/engines"
"""The configuration files that users are given: the tests start the engines with them."""


def flags(args: tuple[str, ...]) -> int:
    """How many words begin with a dash, before the first that does not."""
    return next((n for n, word in enumerate(args) if not word.startswith("-")), len(args))


class Containerd(Engine):
    """A containerd with state, socket and shims of its own."""

    off = ("io.containerd.grpc.v1.cri",)
    """Plugins that are not needed."""
    other = ""
    """The path of another containerd than the installed one; its shim lies beside it."""

    def set_up(self) -> None:
        self.env["MINIRUN_STORE"] = f"{self.home}/store"
        self.socket = f"{self.home}/containerd.sock"
        self.ctr = (program("ctr"), "--address", self.socket)
        self.begin()
        self.load(images.archive(self.home / "image.tar", IMAGE))

    def begin(self) -> None:
        """Start the daemon and wait for it. Where none is named, the shim looks for `runc`."""
        path = self.home / "config.toml"
        path.write_text(tomlkit.dumps(self.configuration()))
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        link(folder / "runc", self.path)
        own = self.other or program("containerd")
        self.env["PATH"] = f"{folder}:{os.path.dirname(own)}:{os.environ['PATH']}"
        argv = (own, "--config", str(path))
        self.daemon = self.cell.start(*argv, log="containerd", env=self.env)
        answers = (*self.ctr, "version")
        self.cell.wait_for(lambda: self.cell.run(*answers).returncode == 0, "containerd")

    def configuration(self) -> dict[str, Any]:
        """What users have in their config.toml, at places within the cell."""
        config = tomllib.loads((REFERENCE / "containerd-config.toml").read_text())
        places = {"root": f"{self.home}/root", "state": "/run/containerd"}
        return (
            config | places | {"disabled_plugins": list(self.off), "grpc": {"address": self.socket}}
        )

    def load(self, archive: Path) -> None:
        """Import an image."""
        self.cell.run(
            *self.ctr, "--namespace", "k8s.io", "images", "import", str(archive), check=True
        )

    def close(self) -> None:
        super().close()
        if hasattr(self, "daemon"):
            self.daemon.wait()


def link(path: Path, target: str) -> None:
    """Make a symbolic link, unless it is there."""
    if not path.is_symlink():
        path.symlink_to(target)


class Ctr(Containerd):
    """ctr's commands. Every container has a name of its own.

    A container's cgroup is /NAMESPACE/NAME: the namespace has the name of the cell's cgroup.
    """

    numbers = itertools.count()
    dirty = False
    """Whether there may be containers."""

    def load(self, archive: Path) -> None:
        self.space = self.cell.parent.lstrip("/")
        self.client = (*self.ctr, "--namespace", self.space)
        self("images", "import", str(archive))

    def full(
        self, *args: str, input: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        self.dirty |= not {"--rm", "ls"} & set(args)
        return super().full(*args, input=input, timeout=timeout)

    def name(self) -> str:
        return f"c{next(self.numbers)}"

    def words(self, *args: str, name: str = "", image: str = IMAGE) -> list[str]:
        """The command line from --runc-binary on: flags, the image, a name, the command."""
        first = flags(args)
        return [
            "--runc-binary",
            self.path,
            *args[:first],
            image,
            name or self.name(),
            *args[first:],
        ]

    def all(
        self, *args: str, input: str = "", image: str = IMAGE
    ) -> subprocess.CompletedProcess[str]:
        """`ctr run --rm` of a command; all that came back."""
        return self.full("run", "--rm", *self.words(*args, image=image), input=input)

    def run(self, *args: str, code: int = 0, input: str = "", image: str = IMAGE) -> str:
        """`ctr run --rm` of a command; check its exit status, and return what it printed."""
        return self("run", "--rm", *self.words(*args, image=image), code=code, input=input)

    def detached(self, *args: str) -> str:
        """Start a container in the background; return its name."""
        name = self.name()
        self("run", "--detach", "--null-io", *self.words(*(args or ("sleep", "300")), name=name))
        return name

    def exec(self, name: str, *args: str, code: int = 0, input: str = "") -> str:
        """`ctr tasks exec`: another process in a container."""
        first = flags(args)
        own = ("--exec-id", self.name(), *args[:first])
        return self("tasks", "exec", *own, name, *args[first:], code=code, input=input)

    def status(self, name: str) -> str:
        """What `ctr tasks ls` says: RUNNING, STOPPED, PAUSED; "" where there is no task."""
        rows = [line.split() for line in self("tasks", "ls").splitlines()[1:]]
        return next((row[2] for row in rows if row[0] == name), "")

    def wait(self, name: str) -> None:
        """Wait until a container's process has ended."""
        self.cell.wait_for(lambda: self.status(name) == "STOPPED", "containerd")

    def ended(self, name: str) -> str:
        """Wait for a container's end, delete its task, and return the status ctr tells of."""
        self.wait(name)
        said = self.full("tasks", "delete", name).stderr
        return said.rpartition("exit code ")[2].strip('"\n') or "0"

    def limit(self, name: str, limit: str) -> list[str]:
        """What the files of a limit hold, in a container's cgroup."""
        return limits.outside(limit, f"{self.space}/{name}")

    def screen(self, *args: str) -> Screen:
        """`ctr` at a terminal."""
        self.dirty = True
        return Screen(self.cell.argv(*self.client, *args), self.env)

    def clean(self) -> None:
        """Remove what is left; `run --rm` leaves nothing, and most scenarios do no more."""
        if not self.dirty:
            return
        self.dirty = False
        for task in self.full("tasks", "ls", "--quiet").stdout.split():
            self.full("tasks", "delete", "--force", task)
        names = self.full("containers", "ls", "--quiet").stdout.split()
        if names:
            self.full("containers", "delete", *names)
