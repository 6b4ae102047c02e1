"""A Debian that systemd starts in QEMU: a machine of pure cgroup v2, where this one has version 1.

Its disk is made once, by mmdebstrap and `make tested` (bare.py's way, no virtual machine needed
yet), and kept in .v2/ of this checkout (`make clean` removes it). QEMU works on a throw-away copy
of it. The tests come in on a second disk, a tar archive, and the report goes out on a third one.
The guest has no network.

QEMU translates each instruction (TCG) where the processor cannot run guests: everything in there
takes ten times as long and more.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "setup"))

from bare import CLONE, Bare, folder  # noqa: E402

DISKS = TOP / ".v2"
DISK_GIB = 16
MEMORY_MIB = 6144
PACKAGES = ("linux-image-cloud-amd64", "initramfs-tools", "systemd-sysv", "udev", "dbus",
            "e2fsprogs", "make")  # fmt: skip
REPORT = "report.xml"
KERNEL = "root=/dev/vda rw console=ttyS0 quiet systemd.mask=serial-getty@ttyS0.service panic=-1"
UNIT = """
[Unit]
Description=minirun's tests
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/minirun-tests
StandardOutput=file:/dev/ttyS0
StandardError=inherit
TimeoutStartSec=infinity
SuccessAction=reboot-immediate
FailureAction=reboot-immediate
Delegate=yes
"""
SCRIPT = f"""#!/bin/bash
# The second disk is a tar archive: the tests, and `arguments`, one word a line, for pytest.
cd /{CLONE}
tar -xf /dev/vdb
mapfile -t arguments < arguments
export HOME=/root LC_ALL=C.UTF-8 TERM=dumb
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
.venv/bin/python -m compileall -q minirun
.venv/bin/python -m minirun.fast.launcher .venv/bin/minirun
.venv/bin/python -m pytest -v --tb=short -o timeout=1200 --junitxml={REPORT} "${{arguments[@]}}"
[ -f {REPORT} ] || echo '<testsuites/>' > {REPORT}
tar -cf /dev/vdc {REPORT}
sync
echo b > /proc/sysrq-trigger  # at once, whatever a test has left behind: QEMU ends then
"""


def disk(suite: str) -> Path:
    """Return the folder of a release's disk, kernel and initrd; makes them if there are none."""
    made_of = (TOP / "Makefile", TOP / "pyproject.toml", Path(__file__))
    key = hashlib.sha256(b"".join(path.read_bytes() for path in made_of)).hexdigest()[:12]
    path = DISKS / f"{suite}-{key}"
    if path.exists():
        return path
    for old in DISKS.glob(f"{suite}-*"):
        shutil.rmtree(old)
    DISKS.mkdir(exist_ok=True)
    with folder() as place, tempfile.TemporaryDirectory(dir=DISKS) as new:
        _make(Bare(place / suite, suite, [], PACKAGES), Path(new))
        os.rename(new, path)
        os.mkdir(new)  # for TemporaryDirectory to remove
    return path


def _make(bare: Bare, target: Path) -> None:
    """Install what the tests need, put the tests' unit in, and make a file system of it."""
    row = bare.make("tested")
    assert row.status == 0, "make tested failed in the bare Debian"
    row = bare.make("images")
    assert row.status == 0, "no image could be built in the bare Debian"
    root = bare.path
    (root / "usr/local/sbin/minirun-tests").write_text(SCRIPT)
    (root / "usr/local/sbin/minirun-tests").chmod(0o755)
    unit = root / "etc/systemd/system/minirun-tests.service"
    unit.write_text(UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / unit.name).symlink_to(unit.relative_to(root).as_posix().join(("/", "")))
    (root / "etc/fstab").write_text("/dev/vda / ext4 rw 0 1\n")
    (root / "etc/hostname").write_text("v2\n")
    for name in ("vmlinuz", "initrd.img"):
        (found,) = (root / "boot").glob(f"{name}-*")
        shutil.copy(found, target / name)
    argv: Iterable[str] = ("mkfs.ext4", "-q", "-d", str(root), str(target / "disk"), f"{DISK_GIB}G")
    subprocess.run(list(argv), check=True)


def run(suite: str, arguments: list[str], archive: bytes) -> bytes:
    """Start the machine, run pytest with these arguments in it, and return its JUnit report.

    `archive` is a tar of the checkout. What the guest prints comes out on stdout.
    """
    made = disk(suite)
    with tempfile.TemporaryDirectory(dir=DISKS) as name:
        place = Path(name)
        (place / "in").write_bytes(archive)
        (place / "arguments").write_text("".join(f"{word}\n" for word in arguments))
        subprocess.run(["tar", "-rf", place / "in", "-C", place, "arguments"], check=True)
        os.truncate(place / "in", -(-(place / "in").stat().st_size // 512) * 512)
        with open(place / "out", "wb") as out:
            out.truncate(64 << 20)
        argv = [
            "qemu-system-x86_64", *accelerator(), "-smp", str(os.cpu_count()),
            "-m", str(MEMORY_MIB), "-nographic", "-nic", "none", "-no-reboot",
            "-kernel", made / "vmlinuz", "-initrd", made / "initrd.img",
            "-append", KERNEL,
            *_drive(made / "disk", "snapshot=on"), *_drive(place / "in", "readonly=on"),
            *_drive(place / "out"),
        ]  # fmt: skip
        environ = {**os.environ, "TMPDIR": name}  # for the snapshot
        subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, check=True)
        tar = ["tar", "-xOf", place / "out", REPORT]
        done = subprocess.run(tar, check=False, capture_output=True)
        return done.stdout or b"<testsuites/>"  # the guest ended before it could write one


def accelerator() -> list[str]:
    """QEMU's flags: KVM where the processor can run guests and the kernel lets us, else TCG."""
    flags = Path("/proc/cpuinfo").read_text()
    able = any(f" {word}" in flags for word in ("vmx", "svm"))
    if able and os.access("/dev/kvm", os.W_OK):
        return ["-accel", "kvm", "-cpu", "host"]
    # QEMU 7.2's cmpxchg16b leaves garbage in the flags: kernels with CX16 die within seconds
    return ["-accel", "tcg,thread=multi", "-cpu", "qemu64,-svm,-cx16"]


def _drive(path: Path, *options: str) -> list[str]:
    return ["-drive", ",".join((f"file={path}", "if=virtio", "format=raw", *options))]
