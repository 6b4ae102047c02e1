"""The disk of a Debian that systemd starts in QEMU, made once and kept in .v2/ of this checkout.

mmdebstrap and `make tested` fill a directory (bare.py's way, no virtual machine needed yet), and
mkfs.ext4 makes a file system of it. `make clean` removes it. It is made anew if the packages of the
Makefile, the dependencies of pyproject.toml or this file change; a checkout comes in at each boot,
and enter.sh in it does the rest.

Beside root there is a user, USER, with 65536 further ids. With libpam-systemd a login by ssh is a
session: XDG_RUNTIME_DIR, a manager of the user's own, a bus.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

from machines import guests
from machines.bare import CLONE, TOP, Bare, folder

DISKS = TOP / ".v2"
DISK_GIB = 16
USER = "ada"
OWN = {"noble": ("apparmor",)}
"""Release → what is always there, beside the kernel."""
PACKAGES = ("initramfs-tools", "systemd-sysv", "udev", "dbus",
            "e2fsprogs", "make", "openssh-server", "libpam-systemd", "dbus-user-session",
            "uidmap")  # fmt: skip
ENTERS = "minirun-enters"
UNIT = f"""
[Unit]
Description=a checkout of minirun, and what is to be done with it
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/{ENTERS}
StandardOutput=file:/dev/console
StandardError=inherit
TimeoutStartSec=infinity
FailureAction=reboot-immediate
Delegate=yes
"""
SCRIPT = f"""#!/bin/bash
# The second disk is a tar archive of a checkout, which says itself what is to be done.
set -e
cd /{CLONE}
find . -mindepth 1 -maxdepth 1 ! -name .venv ! -name '*.egg-info' -exec rm -rf {{}} +
tar -xf /dev/vdb
export HOME=/root LC_ALL=C.UTF-8 TERM=dumb
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec bash tests/v2/enter.sh {USER}
"""


def disk(suite: str) -> Path:
    """Return the folder of a release's disk, kernel and initrd; makes them if there are none."""
    name = suite.replace(":", "_")
    path = DISKS / f"{name}-{_key()}"
    if path.exists():
        return path
    for old in DISKS.glob(f"{name}-*"):
        shutil.rmtree(old)
    DISKS.mkdir(exist_ok=True)
    with folder() as place, tempfile.TemporaryDirectory(dir=DISKS) as new:
        guest, release = guests.of(suite), suite.partition(":")[0]
        own = (guest.kernel(release), *OWN.get(release, ()))
        _make(Bare(place / name, suite, [], (*own, *PACKAGES)), guest, Path(new))
        os.rename(new, path)
        os.mkdir(new)  # for TemporaryDirectory to remove
    return path


def _key() -> str:
    """Return a digest of what is installed."""
    lists = re.findall(
        r"^(?:NEEDED|USEFUL|TESTED) :=(?:.*\\\n)*.*$", (TOP / "Makefile").read_text(), re.MULTILINE
    )
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    needs = [project[name] for name in ("dependencies", "optional-dependencies")]
    made_of = (*lists, repr(needs), Path(__file__).read_text(), repr(guests.GUESTS))
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:12]


def _make(bare: Bare, guest: guests.Guest, target: Path) -> None:
    """Install what the tests need, put the unit and the user in, and make a file system of it."""
    row = bare.make("tested", *guest.variables)
    assert row.status == 0, "make tested failed in the bare Debian"
    if bare.is_native:  # QEMU's user mode has no openat2 (7.2): enter.sh makes busybox's then
        row = bare.make("images", *guest.variables)
        assert row.status == 0, "no image could be built in the bare Debian"
    root = bare.path
    script = root / "usr/local/sbin" / ENTERS
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (root / "usr/local/bin/minirun").symlink_to(f"/{CLONE}/.venv/bin/minirun")
    units = root / "etc/systemd/system"
    (units / f"{ENTERS}.service").write_text(UNIT)
    wants = units / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / f"{ENTERS}.service").symlink_to(f"/etc/systemd/system/{ENTERS}.service")
    for name in ("ssh.service", "ssh.socket"):
        for link in units.glob(f"*.wants/{name}"):
            link.unlink()
    chroot = ["chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", USER]
    subprocess.run(chroot, check=True)
    assert USER in (root / "etc/subuid").read_text(), "useradd gave no further ids"
    (root / "etc/fstab").write_text("/dev/vda / ext4 rw 0 1\n")
    (root / "etc/hostname").write_text("v2\n")
    guests.write_disk(root, target, DISK_GIB)
