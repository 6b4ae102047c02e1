"""Debian's packages of any release, fetched into a folder and unpacked: nothing is installed.

apt has lists of its own for it; the machine's stay as they are. The mirror is the one that the
machine's apt knows.
"""

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minirun.core.errors import ImageError
from required import skip
from rootfs_tools.recipe import aptsources
from rootfs_tools.recipe.bootstrap import os_release


class Archive:
    """One component of a release: `release` "" for the machine's own."""

    def __init__(self, folder: Path, component: str = "main", release: str = "") -> None:
        """Fetch the lists of packages; skips, or fails, where they cannot be had."""
        try:
            sources = aptsources.read(os_release("/").get("VERSION_CODENAME", ""))
        except ImageError as error:
            skip(f"no packages of Debian's: {error}")
        self.folder = folder
        self.release = release or sources.suite
        (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
        line = f"deb {sources.mirror} {self.release} {component}\n"
        (folder / "sources.list").write_text(line)
        self._apt("apt-get", "update")
        self.names = set(self._apt("apt-cache", "pkgnames").split())

    def fetch(self, *names: str) -> list[Path]:
        """Download packages that :attr:`names` has; skips, or fails, where that fails."""
        self._apt("apt-get", "download", *names)
        return sorted(self.folder.glob("*.deb"))

    def _apt(self, program: str, *words: str) -> str:
        options = (
            f"Dir::Etc::sourcelist={self.folder}/sources.list", "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={self.folder}/lists", f"Dir::Cache={self.folder}/cache",
            "Acquire::Languages=none", "APT::Sandbox::User=root", "APT::Update::Error-Mode=any",
        )  # fmt: skip
        argv = [program, "-qq", *(f"-o{option}" for option in options), *words]
        done = subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            skip(f"{program} {words[0]}, {self.release}: {done.stderr.strip()}")
        return done.stdout


def unpack(packages: list[Path], root: Path) -> None:
    """Unpack packages over one another below `root`; nothing of theirs is run."""
    for package in packages:
        subprocess.run(["dpkg", "-x", package, root], check=True)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Have `folder`, which the processes of a test run share, to oneself."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
