"""A user of this machine without any privilege, who has the program, a home, and an image.

The user has a made-up number and no entry in /etc/passwd; everything lies in a directory in /tmp
that everybody may enter, since pytest's own is root's alone. The program is started through
setpriv(1): no capability, no group, an environment of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, skip, wait_until
from layers import copy_layer, layer_of
from minirun.fast import launcher
from required import installed

UID = 54321
SUBIDS = (300000, 65536)
MISSING = [name for name in ("setpriv", "unshare") if not shutil.which(name)]
_ENTRY = f"tester:x:{UID}:{UID}::/:/bin/sh"
_GRANT = """
printf '%s\\n' "$1" | cat /etc/passwd - > "$2/passwd"; printf '%s\\n' "$3" > "$2/subids"
mount --bind "$2/passwd" /etc/passwd
for file in subuid subgid; do mount --bind "$2/subids" /etc/$file; done
shift 3; exec "$@"
"""


class User(Program):
    """The program as that user calls it: its own roots, found by $HOME or $XDG_RUNTIME_DIR."""

    def __init__(self, path: str, home: Path) -> None:
        self.home = home
        self.before: tuple[str, ...] = ()
        """Words before the command: another program that starts it."""
        folders = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        self.env = {"HOME": str(home), "PATH": folders, "MINIRUN_NETWORK": "none"}
        super().__init__(path, home / ".local/share/minirun/containers")

    def as_user(self, *words: str) -> list[str]:
        """Return the command line that runs `words` as the user."""
        ids = ("--reuid", str(UID), "--regid", str(UID), "--clear-groups")
        env = [f"{name}={value}" for name, value in self.env.items()]
        drop = ("--inh-caps=-all", "--ambient-caps=-all")  # the bounding set is newuidmap's
        return [*self.before, "env", "-i", *env, "setpriv", *ids, *drop, *words]

    def argv(self, *args: str) -> list[str]:
        return self.as_user(self.path, *self.flags, *args)

    def bundle(self, *args: str, name: str = "bundle") -> Path:
        """Make a bundle as the user would: `spec --rootless`, and a command without a terminal."""
        path = self.home / name
        path.mkdir()
        layer = layer_of("busybox", self.home / ".local/share/minirun")
        copy_layer(layer, path / "rootfs")
        for each in (path, *path.rglob("*")):
            os.chown(each, UID, UID, follow_symlinks=False)
        done = self("spec", "--rootless", "--bundle", str(path))
        assert done.returncode == 0, done.stderr
        text = (path / "config.json").read_text().replace('"terminal": true', '"terminal": false')
        words = ", ".join(f'"{word}"' for word in args)
        (path / "config.json").write_text(text.replace('"sh"', words))
        return path

    def clean(self) -> None:
        for path in self.root.glob("[!.]*"):
            self("delete", "--force", path.name)


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A directory that everybody may enter, with the program and an image of the user's in it."""
    if MISSING:
        skip(f"util-linux's {' and '.join(MISSING)} is missing")
    with tempfile.TemporaryDirectory(prefix="minirun-rootless-") as folder:
        path = Path(folder)
        path.chmod(0o755)
        launcher.install(str(path / "minirun"))
        owned(path / "home")
        done = User(str(path / "minirun"), path / "home")("images", "build", "busybox")
        assert done.returncode == 0, done.stderr
        yield path


def owned(path: Path) -> Path:
    """Make a directory of the user's own."""
    path.mkdir(mode=0o700)
    os.chown(path, UID, UID)
    return path


@pytest.fixture
def user(place: Path) -> Iterator[User]:
    """The user, with a home of this test."""
    with tempfile.TemporaryDirectory(prefix="home-", dir=place) as folder:
        home = Path(folder)
        shutil.copytree(place / "home", home, symlinks=True, dirs_exist_ok=True)
        for each in (home, *home.rglob("*")):
            os.chown(each, UID, UID, follow_symlinks=False)
        found = User(str(place / "minirun"), home)
        yield found
        found.clean()


@pytest.fixture
def granted(user: User, tmp_path: Path) -> User:
    """The user with a name and 65536 further ids, in a mount namespace where /etc says so."""
    for program in ("newuidmap", "newgidmap"):
        installed(program)
    grant = f"tester:{SUBIDS[0]}:{SUBIDS[1]}"
    files = ("/etc/subuid", "/etc/subgid")
    for file in filter(lambda file: not os.path.exists(file), files):
        skip(f"{file} is missing, so nothing can be mounted over it")
    script = ("sh", "-ec", _GRANT, "sh", _ENTRY, str(tmp_path), grant)
    user.before = ("unshare", "--mount", "--propagation", "private", *script)
    return user


@pytest.fixture
def delegated(user: User) -> Iterator[User]:
    """The user in a cgroup2 that root has given away."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    found = [row[1] for row in mounts if row[2] == "cgroup2"]
    if not found:
        skip("no cgroup2 is mounted")
    top = Path(found[0], f"minirun-{os.getpid()}-rootless")
    (top / "caller").mkdir(parents=True)
    for folder in (top, top / "caller"):
        for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(folder / name, UID, UID)
    join = 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"'
    user.before = ("sh", "-ec", join, "sh", str(top / "caller"))
    yield user
    user.clean()
    wait_until(lambda: _removed(top))


def _removed(top: Path) -> bool:
    try:
        for path in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
            path.rmdir()
        top.rmdir()
    except OSError:
        return False
    return True


def quietly(words: list[str]) -> int:
    """Run a command whose container keeps its standard streams; return its exit status."""
    null = subprocess.DEVNULL
    return subprocess.run(words, stdin=null, stdout=null, stderr=null, check=False).returncode


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end."""
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
