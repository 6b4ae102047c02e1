"""Debians to type in: a copy of a bare one after `make setup`, with everything of a host its own.

The bare one is made by machines/bare.py and kept in .journeys/ of this checkout (`make clean`
removes it), of one for each Makefile: `make setup` in it, and the images of the demo, and this
machine's network, once. A cell is a copy of it with this checkout's files: a plain folder, that is
its root, with namespaces, mounts, cgroups and links of its own. All of it ends with its first
process.
"""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests"), str(TOP / "rootfs-tools")]

from engines.clients.cell import child, remove_cgroups  # noqa: E402
from machines.bare import CLONE, PIVOT, Bare, pip_folders  # noqa: E402
from minirun.cgroups import hierarchies  # noqa: E402

KEPT = TOP / ".journeys"
FLAGS = ("--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup")
REAPER = (
    "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print(1, flush=True)\n"
    "while True: signal.pause()"
)
BOOT = """
cd "$1"
mount --bind . . ; cd "$PWD"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs dev/net; mknod -m 666 dev/net/tun c 10 200  # as udev makes it
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p run/lock; chmod 1777 run/lock
eval "$CGROUPS"
for each in $LENT; do mkdir -p ".$each"; mount --rbind "$each" ".$each"; done
eval "$MOUNTS"
hostname debian
ip link set lo up
mkdir -p old; "$PYTHON" -c "$PIVOT"; umount --lazy old; rmdir old
exec /usr/bin/python3 -ISc "$REAPER"
"""
USER = "learner"


def kept(suite: str, packages: Iterable[str] = ()) -> Path:
    """Return the folder of a release's bare Debian after `make setup`; makes it if there is none.

    `packages` are the Debian packages that it has besides. Raises AssertionError if a target of
    make fails in it.
    """
    KEPT.mkdir(exist_ok=True)
    included = ("make", *sorted({*packages}))
    made_of = " ".join(included) + _read("Makefile", "NEEDED", "USEFUL")
    made_of += (
        _read("pyproject.toml", "dependencies") + _read(".ci/packages") + _read(".ci/install")
    )
    key = hashlib.sha256(made_of.encode())
    path = KEPT / f"{suite}-{len(included)}-{key.hexdigest()[:12]}"
    with open(KEPT / f".{suite}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for old in [*KEPT.glob(f"{suite}-{len(included)}-*"), KEPT / f"{suite}.new"]:
                shutil.rmtree(old, ignore_errors=True)
            new = KEPT / f"{suite}.new"
            bare = Bare(new, suite, [], included)
            for target in ("setup", "demo"):
                assert bare.make(target).status == 0, f"make {target} failed in a bare {suite}"
            subprocess.run(["chroot", new, "useradd", "--create-home", USER], check=True)
            os.rename(new, path)
    return path


def _read(name: str, *words: str) -> str:
    """Return the lines of a file that begin with one of the words, up to an empty one; or all."""
    text = (TOP / name).read_text()
    found = [re.search(rf"^{word}.*?\n\n?", text, re.MULTILINE | re.DOTALL) for word in words]
    return "".join(match[0] for match in found if match) if words else text


class Place(Protocol):
    """Where commands can be typed: a cell, or a machine."""

    def argv(self, *words: str, user: str = "root") -> list[str]:
        """Return the command line that runs `words` there as after a login."""
        ...

    def enter_cgroups(self) -> None:
        """Move the calling process to the place's cgroups, before that command line."""
        ...

    def state(self) -> dict[str, set[str]]:
        """Return what a journey may not leave changed, by kind."""
        ...

    def end_all_but(self, before: dict[str, set[str]]) -> None:
        """End the processes that were not there in that state."""
        ...


class DebianCell:
    """A bare Debian with minirun, entered by namespaces of its own."""

    def __init__(self, suite: str, mounts: str = "", packages: Iterable[str] = ()) -> None:
        """Copy it, and start its first process. `mounts`: a shell's, in the root to be.

        `packages` are what it has besides make and what `make setup` brings.
        """
        bare = kept(suite, packages)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{suite}.", dir=KEPT))
        self.root = self.folder / "root"
        subprocess.run(["cp", "-a", bare, self.root], check=True)
        self._clone()
        self._pip()
        self.parent = f"/minirun-journeys-{self.folder.name.rpartition('.')[2]}"
        environ = {
            "PATH": os.environ["PATH"], "CGROUPS": _cgroups(), "LENT": " ".join(pip_folders()),
            "MOUNTS": mounts, "PYTHON": sys.executable, "PIVOT": PIVOT, "REAPER": REAPER,
        }  # fmt: skip
        argv = ["unshare", *FLAGS, "--fork", "--kill-child", "--propagation", "private"]
        self._holder = subprocess.Popen(
            [*argv, "sh", "-euc", BOOT, "sh", str(self.root)], env=environ,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=self._join,
        )  # fmt: skip
        assert self._holder.stdout and self._holder.stdout.readline() == b"1\n"
        self.pid = child(self._holder.pid)
        self._uplink: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Give it eth0, a way to this machine's network: slirp4netns(1) changes nothing here."""
        argv = ["slirp4netns", "--configure", "--mtu=1500", "--ready-fd=1", str(self.pid), "eth0"]
        null = subprocess.DEVNULL
        self._uplink = subprocess.Popen(argv, stdin=null, stdout=subprocess.PIPE, stderr=null)
        assert self._uplink.stdout and self._uplink.stdout.read(1) == b"1"

    def disconnect(self) -> None:
        """Take eth0 away."""
        if self._uplink:
            self._uplink.kill()
            self._uplink.wait()
            assert self._uplink.stdout
            self._uplink.stdout.close()
            self._uplink = None

    def _clone(self) -> None:
        """Put this checkout's files, as they are now, in the place of the kept ones."""
        clone = self.root / CLONE
        for path in clone.iterdir():
            if path.name != ".venv":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=TOP, check=True, capture_output=True).stdout
        there = [name for name in names.split(b"\0") if name]
        there = [name for name in there if os.path.lexists(TOP / os.fsdecode(name))]
        tar = ["tar", "-c", "--null", "--no-recursion", "--files-from=-"]
        files = subprocess.run(
            tar, cwd=TOP, input=b"\0".join(there), check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", clone], input=files, check=True)
        subprocess.run(["chown", "-R", "0:0", clone], check=True)
        (clone / ".venv/.ready").touch()
        python = f"/{CLONE}/.venv/bin/python"
        script = f"cd /{CLONE}; {python} -m compileall -q minirun rootfs-tools/rootfs_tools"
        script += f"; {python} -m minirun.fast.launcher /{CLONE}/.venv/bin/minirun"
        subprocess.run(["chroot", self.root, "sh", "-euc", script], check=True)

    def _pip(self) -> None:
        """Write this machine's settings of pip, variables too, into the cell's file."""
        parser = configparser.RawConfigParser()
        parser.read(["/etc/pip.conf", Path.home() / ".config/pip/pip.conf"])
        rows = dict(parser["global"]) if "global" in parser else {}
        rows |= {
            k[4:].lower().replace("_", "-"): v for k, v in os.environ.items() if k[:4] == "PIP_"
        }
        if "cert" in rows:
            shutil.copy(rows["cert"], self.root / "usr/local/share/certificates")
            rows["cert"] = "/usr/local/share/certificates"
        text = "".join(f"{name} = {value}\n" for name, value in rows.items())
        (self.root / "etc/pip.conf").write_text(f"[global]\n{text}")
        shutil.rmtree(self.root / "root/.config/pip", ignore_errors=True)

    def _join(self) -> None:
        """Put the first process into a cgroup in each hierarchy; they are its roots."""
        for hierarchy in (Path(each.path) for each in hierarchies.mounted()):
            top = Path(f"{hierarchy}{self.parent}")
            top.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (top / file).exists() and (hierarchy / file).exists():
                    (top / file).write_text((hierarchy / file).read_text())
            (top / "cgroup.procs").write_text("0")

    def argv(self, *words: str, user: str = "root") -> list[str]:
        """Return the command line that runs `words` in it as after a login: nothing else is set."""
        home = "/root" if user == "root" else f"/home/{user}"
        path = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
        env = {"HOME": home, "USER": user, "LOGNAME": user, "PATH": path}
        env |= {"SHELL": "/bin/bash", "TERM": "xterm"}
        become: list[str] = []
        if user == "root":
            env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        else:
            env["XDG_RUNTIME_DIR"] = "/run/user/1000"
            become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        enter = ["nsenter", f"--target={self.pid}", *FLAGS, "--"]
        said = [f"{name}={value}" for name, value in env.items()]
        return [*enter, "env", "-i", f"--chdir={home}", *said, *become, *words]

    def run(self, *words: str, user: str = "root", **options: object) -> str:
        """Run a program in it, which has to succeed; return what it says on stdout."""
        argv = self.argv(*words, user=user)
        done = subprocess.run(
            argv, check=False, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
            preexec_fn=self.enter_cgroups, **options,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stdout)
        return done.stdout

    def enter_cgroups(self) -> None:
        """Move the calling process to the cell's cgroups."""
        for hierarchy in hierarchies.mounted():
            Path(f"{hierarchy.path}{self.parent}/cgroup.procs").write_text("0")

    def state(self) -> dict[str, set[str]]:
        """Return its mounts, links, tables, cgroups, processes and containers."""
        proc = Path(f"/proc/{self.pid}")
        mounts = (proc / "mountinfo").read_text().splitlines()
        links = (proc / "net/dev").read_text().splitlines()[2:]
        cgroups = Path("/sys/fs/cgroup").glob(f"*/{self.parent}/**/")
        tables = self.run("sh", "-c", "! command -v nft > /dev/null || nft list tables")
        here = Path(f"/proc/{self.pid}/root/")
        roots = [here / "var/lib/minirun/containers", here / "run/user/1000/minirun"]
        roots += here.glob("home/*/.local/share/minirun/containers")
        return {
            "mount": {line.split()[4] for line in mounts},
            "link": {line.partition(":")[0].strip() for line in links},
            "table": {*tables.splitlines()},
            "cgroup": {str(path) for path in cgroups},
            "process": {f"{pid} {name}" for pid, name in self._processes().items()},
            "container": {path.name for root in roots for path in root.glob("[!.]*")},
        }

    def _processes(self) -> dict[int, str]:
        """Return the processes but the first: pid there → name."""
        namespace, found = os.stat(f"/proc/{self.pid}/ns/pid").st_ino, {}
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}/ns/pid").st_ino != namespace or int(pid) == self.pid:
                    continue
                status = Path(f"/proc/{pid}/status").read_text().splitlines()
            except OSError:  # it has ended
                continue
            fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
            found[int(fields["NSpid"].split()[-1])] = fields["Name"]
        return found

    def end_all_but(self, before: dict[str, set[str]]) -> None:
        """Kill the processes that were not there in that state."""
        kept = {int(each.split()[0]) for each in before["process"]}
        for pid in self._processes():
            if pid not in kept:
                self.run("sh", "-c", f"kill -KILL {pid} 2> /dev/null || true")

    def close(self) -> None:
        """End everything in it, and remove its cgroups and its files."""
        self.disconnect()
        self._holder.send_signal(signal.SIGKILL)
        self._holder.wait()
        assert self._holder.stdout
        self._holder.stdout.close()
        remove_cgroups(self.parent)
        deadline = time.monotonic() + 10
        while self.folder.exists():
            shutil.rmtree(self.folder, ignore_errors=time.monotonic() < deadline)


def _cgroups() -> str:
    """Return the mounts of a shell: this machine's hierarchies, of the cell's cgroup namespace."""
    lines, is_hybrid = [], any(each.version == 1 for each in hierarchies.mounted())
    if is_hybrid:
        lines.append("mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup")
    for each in hierarchies.mounted():
        path = each.path.lstrip("/")
        kind = f"cgroup -o {','.join(each.names)}" if each.version == 1 else "cgroup2"
        if any(name.startswith("name=") for name in each.names):
            kind = f"cgroup -o none,{','.join(each.names)}"
        lines.append(f"mkdir -p {path}; mount -t {kind} none {path}")
    return "\n".join(lines)
