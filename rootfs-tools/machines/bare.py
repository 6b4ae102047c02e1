"""Runs make targets on a bare Debian, and says what each brought: machines/bare.py demo.

The bare Debian is a directory, made by mmdebstrap (minbase and make) from this machine's sources;
a bare Ubuntu (--suite noble) from its own archive, as the recipe ubuntu makes an image of it.
--suite bookworm:i386 is one of another architecture, in Debian's words, that this kernel executes;
its programs see that machine in uname(2): personality(2), by setarch(8). One that it does not
execute, such as trixie:arm64 on x86-64, runs in QEMU's user mode: foreign.py.
It is entered by pivot_root(2) in mount and pid namespaces of its own, with this machine's kernel,
devices, cgroups and network; what is left running in it ends with it. /dev/shm is its own: a lock
of podman's there has the size that one architecture gives it. From Debian 13 on /tmp is a tmpfs, as
systemd mounts it there. pip's configuration is lent to it, and the folders that pip reads (--lend
names more). However this ends, the directory goes, and so do the cgroups of what ran in it.
It takes minutes, and is no part of `make test`.
"""

from __future__ import annotations

import argparse
import configparser
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "rootfs-tools")]

from machines.indexes import UNCHECKED, usable  # noqa: E402
from minirun.core.kernel import architecture  # noqa: E402
from rootfs_tools.recipe import aptsources, bootstrap, text  # noqa: E402

FOREIGN = Path(__file__).parent / "foreign.py"
CLONE = "srv/minirun"  # where tests of users without root can read it, unlike /root
PRIVATELY = (
    "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child",
    "--propagation", "private",
)  # fmt: skip
"""Runs what follows in namespaces that end with this process."""
SLOW = ("/usr/lib/udev/hwdb.d/*", "/usr/share/man/*", "/usr/share/doc/*/*")
"""What is not unpacked for QEMU's user mode: udev would compile names of hardware for minutes."""
UBUNTUS = ("jammy", "noble", "questing", "resolute")
DISK_TMP = ("bookworm", *UBUNTUS)
"""Releases in which /tmp is a folder of the root file system."""
ENTER = """
cd "$1"; shift
mount --bind . . ; cd "$PWD"
mount -t proc proc proc; mount -t tmpfs tmpfs run
[ ! "$TMPFS" ] || mount -t tmpfs -o "$TMPFS" tmpfs tmp
mount --rbind /dev dev; mount --rbind /sys sys
mount -t tmpfs -o mode=1777 tmpfs dev/shm
for each in $LENT; do mount --rbind "$each" ".$each"; done
mkdir -p old; "$PYTHON" -c "$PIVOT"; umount --lazy old; rmdir old
unset TMPFS LENT PYTHON PIVOT; cd /srv/minirun; status=0; make "$@" || status=$?
for each in /proc/[0-9]*; do [ "${each#/proc/}" = $$ ] || cat "$each/comm" >>/left || true; done
exit $status
"""


PIVOT = f"""
import sys; sys.path.insert(0, {str(TOP)!r})
from minirun.core.kernel import mounts; mounts.pivot_root(".", "old")
"""
"""pivot_root(2) works for every process of the mount namespace; not each Debian has the command."""


class Bare:
    """A bare Debian in a directory; `suite` is a release, or RELEASE:ARCHITECTURE."""

    def __init__(
        self, path: Path, suite: str, lent: list[str], include: tuple[str, ...] = ("make",)
    ) -> None:
        self.path = path
        suite, _, name = suite.partition(":")
        named = {row.debian: row for row in architecture.ROWS}
        self.architecture = named[name] if name else architecture.NATIVE
        native = architecture.NATIVE
        self.is_native = self.architecture.machine in (native.machine, native.other)
        way = ["setarch"] if self.is_native else [sys.executable, str(FOREIGN)]
        self.entry = [*way, self.architecture.machine, *PRIVATELY]
        ubuntu = ("apt", "ubuntu-keyring") if suite in UBUNTUS else ()
        self.include = ",".join((*include, *ubuntu))
        self.suite = suite
        self.env = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
        self.env |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "xterm"}
        lent = sorted({*lent, *pip_folders()})
        self.env |= {"LENT": " ".join(lent), "LC_ALL": "C.UTF-8"}
        self.env |= {"PYTHON": sys.executable, "PIVOT": PIVOT}
        tmpfs = "mode=1777,strictatime,nosuid,nodev,size=50%,nr_inodes=1m"  # systemd's tmp.mount
        self.env["TMPFS"] = "" if suite in DISK_TMP else tmpfs
        self._build()
        for folder in lent:
            (path / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self._lend_pip()
        archive = subprocess.run(
            ["git", "archive", "HEAD"], cwd=TOP, check=True, capture_output=True
        )
        (path / CLONE).mkdir()
        subprocess.run(["tar", "-x", "-C", path / CLONE], input=archive.stdout, check=True)

    def _build(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            ready = _archive(self.suite, place)
            options = [f"--aptopt={option}" for option in (*aptsources.options(), UNCHECKED)]
            options += [f"--keyring={ready.keyring}"] if ready.keyring else []
            if self.architecture != architecture.NATIVE:  # it runs, as seen to here
                options += [f"--architectures={self.architecture.debian}", "--skip=check/qemu"]
            if not self.is_native:
                options += [f"--dpkgopt=path-exclude={each}" for each in SLOW]
            argv = [
                *self.entry, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase",
                f"--include={self.include}", *options, "--format=directory", self.suite,
                str(self.path),
            ]  # fmt: skip
            sources, stanzas = ready.sources, ""
            if self.suite == sources.suite:
                stanzas, left_out = usable(sources, self.architecture.debian)
                print(*(f"{self.suite}: {line}\n" for line in left_out), sep="", end="", flush=True)
            argv.append("-" if stanzas else sources.mirror)
            quiet = subprocess.DEVNULL
            subprocess.run(argv, input=stanzas + "\n", text=True, check=True, stderr=quiet)
        shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")

    def _lend_pip(self) -> None:
        """pip's settings: its files, and its variables; a file of certificates by its content."""
        self.env |= {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
        for name in ("/etc/pip.conf", os.path.expanduser("~/.config/pip/pip.conf")):
            target = self.path / ("etc" if name.startswith("/etc") else "root/.config/pip")
            if os.path.exists(name):
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, target)
        if "PIP_CERT" in self.env:
            shutil.copy(self.env["PIP_CERT"], self.path / "root/certificates")
            self.env["PIP_CERT"] = "/root/certificates"

    def make(self, target: str, *variables: str) -> Row:
        """Run `make TARGET` in it."""
        packages, links = self.packages(), self.enabled()
        (self.path / "left").write_text("")
        start = time.monotonic()
        argv = [*self.entry, "sh", "-euc", ENTER, "sh", str(self.path), target, *variables]
        done = subprocess.run(argv, env=self.env, check=False)
        seconds = time.monotonic() - start
        new = {name: size for name, size in self.packages().items() if name not in packages}
        return Row(
            target, done.returncode, seconds, len(new), sum(new.values()) / 1024,
            self.size(CLONE, ".venv"), self.size("var/lib/minirun"),
            sorted(self.enabled() - links), (self.path / "left").read_text().split(),
        )  # fmt: skip

    def packages(self) -> dict[str, int]:
        """Name → size, in KiB, of each package."""
        argv = ["dpkg-query", f"--admindir={self.path}/var/lib/dpkg", "--show"]
        argv += ["--showformat", "${Package} ${Installed-Size}\n"]
        text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        return {name: int(size) for name, size in (line.split() for line in text.splitlines())}

    def enabled(self) -> set[str]:
        """The links that have systemd start something."""
        found = [path for path in (self.path / "etc/systemd").rglob("*") if path.is_symlink()]
        return {path.name for path in found if os.readlink(path) != "/dev/null"}

    def size(self, *parts: str) -> float:
        """The size of a folder, in MiB."""
        argv = ["du", "-s", "--block-size=1K", str(self.path.joinpath(*parts))]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        return int(done.stdout.split()[0]) / 1024 if done.stdout else 0.0


def _archive(suite: str, place: str) -> bootstrap.BootstrapPlan:
    """Where a release's packages come from; `place` is a folder for the keys of Ubuntu's."""
    if suite not in UBUNTUS:
        sources = aptsources.read(bootstrap.os_release("/").get("VERSION_CODENAME", ""))
        return bootstrap.BootstrapPlan(sources, "", 0, place)
    recipe = text.load("ubuntu").packages
    stanzas = recipe.sources.replace(recipe.suite, suite).replace(": main", ": main universe")
    return bootstrap.prepare(recipe._replace(suite=suite, sources=stanzas), place)


def pip_folders() -> list[str]:
    """The folders of this machine that pip is told to look into: in its files and variables."""
    words = [v for k, v in os.environ.items() if k.startswith("PIP_")]
    for name in ("/etc/pip.conf", os.path.expanduser("~/.config/pip/pip.conf")):
        parser = configparser.RawConfigParser()
        parser.read(name)
        words += [value for section in parser.sections() for _, value in parser.items(section)]
    paths = [word.removeprefix("file://") for text in words for word in text.split()]
    folders = [path for path in paths if path.startswith("/") and os.path.isdir(path)]
    return [str(Path(path).parent) if Path(path).name == "simple" else path for path in folders]


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for bare Debians, removed also where a signal ends this."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    before = set(_cgroups())
    with tempfile.TemporaryDirectory(prefix="minirun-bare.", dir="/var/tmp") as name:
        yield Path(name)
    for path in set(_cgroups()) - before:
        try:
            path.rmdir()
        except OSError:  # another's: it holds processes
            pass


def _cgroups() -> list[Path]:
    """Containers' cgroups of this machine that hold no process."""
    found = Path("/sys/fs/cgroup").glob("**/minirun/*/cgroup.procs")
    return [path.parent for path in found if not path.read_text()]


class Row(NamedTuple):
    """What a target did; sizes in MiB."""

    target: str
    status: int
    seconds: float
    packages: int
    installed: float
    venv: float
    store: float
    enabled: list[str]
    running: list[str]

    def __str__(self) -> str:
        sizes = f"{self.installed:8.1f} {self.venv:8.1f} {self.store:8.1f}"
        words = f"{' '.join(self.enabled) or 'none'}; {' '.join(self.running) or 'none'}"
        done = f"{self.target:8} {self.status:6} {self.seconds:7.0f} {self.packages:8}"
        return f"{done} {sizes}  {words}"


def main() -> int:
    """Make one, run the targets, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="run in this order")
    parser.add_argument("--suite", default="bookworm", help="default: %(default)s")
    parser.add_argument("--lend", action="append", default=[], metavar="DIR",
                        help="a folder of this machine that pip reads")  # fmt: skip
    parser.add_argument("--variable", action="append", default=[], metavar="NAME=VALUE",
                        help="for make, such as PYTEST=tests/oci")  # fmt: skip
    options = parser.parse_args()
    rows: list[Row] = []
    with folder() as place:
        bare = Bare(place / options.suite, options.suite, options.lend)
        print(f"{options.suite}: MiB of new packages, of .venv, of the store; enabled; running")
        print("target   status seconds packages installed   .venv    store")
        for target in options.targets:
            rows.append(bare.make(target, *options.variable))
            print(rows[-1], flush=True)
    return max(row.status for row in rows)


if __name__ == "__main__":
    sys.exit(main())
