"""A real systemd as PID 1 of a cell, so that its cgroup driver can be tried where there is none.

The cell has namespaces of its own, cgroups too, and a root of its own: a tmpfs with what is needed
of this machine, or of a Debian in a directory, bound *read-only* below it. That matters: as it
boots, systemd's own units empty /tmp, set sysctls and write below /var, and in a shared root they
do it to this machine. So the script below ends before systemd begins where any mount of this
machine, or /proc/sys, can be written; and none of systemd's own units is in the cell, but one empty
target.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from conftest import STORE
from engines.clients.cell import child, remove_cgroups
from minirun.cgroups import hierarchies

SYSTEMD = "/lib/systemd/systemd"
REPOSITORY = Path(__file__).parents[2]
PLACES = (str(REPOSITORY), STORE, sys.prefix)
FLAGS = ("--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup")
_SCRIPT = r"""
set -eu
root=$1 version=$2 base=$3; shift 3
mount --make-rprivate /
mount -t tmpfs -o mode=755 none $root
for place in /usr "$@"; do
  mkdir -p $root$place; mount --bind $base$place $root$place; mount -o remount,bind,ro $root$place
done
for name in bin sbin lib lib64; do [ ! -e $base/$name ] || ln -s usr/$name $root/$name; done
cd $root
mkdir -p proc sys dev run/lock tmp var/log var/tmp var/lib root old etc/systemd/system etc/none
(cd "$base/etc"; cp -a passwd group nsswitch.conf ld.so.cache "$OLDPWD/etc/"
for name in alternatives containers; do [ ! -e $name ] || cp -a $name "$OLDPWD/etc/"; done)
echo 0123456789abcdef0123456789abcdef > etc/machine-id
mount -t proc proc proc
for name in sys irq bus fs sysrq-trigger; do
  [ -e proc/$name ] || continue
  mount --bind proc/$name proc/$name; mount -o remount,bind,ro proc/$name
done
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 none dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do
  mknod -m 666 dev/${node%:*} c 1 ${node#*:}
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 none dev/pts; ln -s pts/ptmx dev/ptmx
if [ $version = v2 ]; then mount -t cgroup2 none sys/fs/cgroup; else
  mount -t tmpfs -o mode=755 none sys/fs/cgroup
  while read -r name id count enabled; do
    [ "$enabled" = 1 ] && [ "$id" != 0 ] || continue
    mkdir sys/fs/cgroup/$name; mount -t cgroup -o $name none sys/fs/cgroup/$name
  done < /proc/cgroups
  mkdir sys/fs/cgroup/systemd; mount -t cgroup -o none,name=systemd none sys/fs/cgroup/systemd
fi
printf '[Unit]\nDescription=an empty one\nDefaultDependencies=no\n' > etc/systemd/system/cell.target
busybox pivot_root . old; umount -l /old; rmdir /old
writable=$(awk '{ split($0, half, " - "); split(half[2], type, " ")
  if (type[1] !~ /^(tmpfs|proc|cgroup2?|devpts)$/ && $6 !~ /(^|,)ro(,|$)/) print $5 }' \
  /proc/self/mountinfo)
if [ "$writable" ] || [ -w /proc/sys/kernel/hostname ]; then
  echo "not sealed: $writable"; exit 1
fi
units=/run/systemd/system.control:/run/systemd/transient:/etc/systemd/system
exec env -i container=test PATH=/usr/sbin:/usr/bin SYSTEMD_UNIT_PATH=$units \
  SYSTEMD_GENERATOR_PATH=/etc/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/etc/none \
  setpriv --bounding-set=-sys_time,-sys_module,-syslog,-sys_rawio \
  /lib/systemd/systemd --unit=cell.target --log-target=console --show-status=no < /dev/null
"""


DBUS = """
cd /etc/systemd/system
sed '/^\\[Unit\\]/a DefaultDependencies=no' /usr/lib/systemd/system/dbus.socket > dbus.socket
sed '/^\\[Unit\\]/a DefaultDependencies=no' /usr/lib/systemd/system/dbus.service > dbus.service
systemctl daemon-reload
systemctl start dbus.socket dbus.service
until busctl --system status org.freedesktop.systemd1 > /dev/null 2>&1; do sleep 0.05; done
"""
"""Starts the system bus in the cell, and waits until systemd is on it."""


class SystemdCell:
    """systemd, a private root, and the cgroups below one directory of each hierarchy."""

    def __init__(self, version: str, base: str = "", places: Iterable[str] = PLACES) -> None:
        """Boot it, of the Debian in the directory `base`, and of its folders `places`."""
        self.version = version
        self.parent = f"/minirun-systemd-{os.getpid()}-{version}"
        self._home = Path(tempfile.mkdtemp(prefix="mrs-"))
        root = self._home / "root"
        root.mkdir()
        self._log = open(self._home / "log", "wb")
        self._holder = subprocess.Popen(
            ["unshare", *FLAGS, "--fork", "--kill-child",
             "sh", "-c", _SCRIPT, "sh", str(root), version, base, *sorted({*places})],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            preexec_fn=self._join,
        )  # fmt: skip
        try:
            self.wait()
        except BaseException:
            self.close()
            raise

    def _join(self) -> None:
        """Put the cell's first process into a cgroup in each hierarchy; they are its roots."""
        for hierarchy in (Path(each.path) for each in hierarchies.mounted()):
            top = Path(f"{hierarchy}{self.parent}")
            top.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (top / file).exists() and (hierarchy / file).exists():
                    (top / file).write_text((hierarchy / file).read_text())
            (top / "cgroup.procs").write_text("0")

    def wait(self) -> None:
        """Wait until systemd has started, and answers. Raises AssertionError."""
        deadline = time.monotonic() + 120
        while True:
            ended = self._holder.poll() is not None
            assert not ended and time.monotonic() < deadline, f"does not answer: {self.said()}"
            try:
                self.pid = child(self._holder.pid)
                if self("systemctl", "is-active", "cell.target").stdout == "active\n":
                    return
            except (IndexError, OSError, subprocess.TimeoutExpired):
                pass
            time.sleep(0.05)

    def said(self) -> str:
        """Return the end of what systemd wrote."""
        return (self._home / "log").read_text(errors="replace")[-1500:]

    def __call__(self, *argv: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a program in the cell to its end."""
        return subprocess.run(
            ["nsenter", f"--target={self.pid}", *FLAGS, "--", "env", "--chdir=/", *argv],
            capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False,
            preexec_fn=self._visit,
        )  # fmt: skip

    def _visit(self) -> None:
        """Move a program of the cell below the cell's cgroup, of version 2.

        Where cgroup2 is mounted with nsdelegate, as systemd mounts it, the cell's systemd cannot
        fetch a process from outside of its cgroup namespace (cgroups(7)).
        """
        for hierarchy in (each.path for each in hierarchies.mounted() if each.version == 2):
            place = Path(f"{hierarchy}{self.parent}/visitors")
            place.mkdir(exist_ok=True)
            (place / "cgroup.procs").write_text("0")

    def sh(self, script: str) -> str:
        """Run a shell script in the cell, and return what it says. Raises AssertionError."""
        done = self("sh", "-ec", script)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def close(self) -> None:
        """End everything in it, and remove its cgroups and its files."""
        if self._holder.poll() is None:
            self._holder.send_signal(signal.SIGKILL)
        self._holder.wait()
        self._log.close()
        remove_cgroups(self.parent)
        (self._home / "root").rmdir()
        (self._home / "log").unlink()
        self._home.rmdir()
