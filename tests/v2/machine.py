"""A Debian that systemd starts in QEMU: a machine of pure cgroup v2, where this one has version 1.

Two ways in. `run` takes tests in and a report out, without a network. `booted` gives a machine that
one logs in to by ssh, as root or as the user of disk.py:

    with machine.booted("trixie") as debian:
        done = debian.ssh(machine.USER, "minirun run --rm busybox true")
        assert done.returncode == 0, done.stderr

`python tests/v2/machine.py` boots one for people, and prints what to type. What a machine writes to
its disk is thrown away. Port 22 of the guest is a port of 127.0.0.1 here, for a key that is made at
each boot; otherwise nothing outside is reached from it (QEMU's restrict=on): it has an address and
a default route, and nothing answers there.

QEMU translates each instruction (TCG) where the processor cannot run guests: everything in there
takes ten times as long and more.
"""

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from disk import DISKS, TOP, USER, disk

from machines import guests

__all__ = ["TOP", "USER", "Machine", "booted", "checkout", "run"]
MEMORY_MIB = 6144
BOOT_SECONDS = 900
KERNEL = (
    "root=/dev/vda rw console={0} quiet systemd.mask=serial-getty@{0}.service panic=-1"
    " net.ifnames=0"
)
_CLIENT = (
    "-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR",
    "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
    "-o", "ConnectTimeout=60",
)  # fmt: skip
"""For ssh(1): no file of the caller's is read or written."""


class Machine:
    """A machine that runs, and that one may log in to."""

    def __init__(self, key: Path, port: int) -> None:
        self.key = key
        self.port = port

    def login(self, user: str, *options: str) -> list[str]:
        """Return the command line that logs in as `user`: for a person, or with a command after it.

        `options` are ssh's: -t for a terminal.
        """
        where = ("-i", str(self.key), "-p", str(self.port), f"{user}@127.0.0.1")
        return ["ssh", *_CLIENT, *options, *where]

    def ssh(
        self, user: str, command: str, *options: str, stdin: str = "", timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Log in, have the user's shell do `command`, and log out; status 255 is ssh's own.

        Several lines are one script, typed in one session. Raises subprocess.TimeoutExpired.
        """
        return subprocess.run(
            [*self.login(user, *options), command],
            input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip


@contextmanager
def booted(suite: str, archive: bytes = b"", *, network: bool = True) -> Iterator[Machine]:
    """Start a machine of a release, with a checkout at /srv/minirun, and wait for its sshd.

    `archive` is a tar of the checkout, by default of the last commit; `minirun` in PATH is its
    program. Without `network` the guest loses its route once it is up, and keeps ssh.
    Raises AssertionError with the console's last lines if it does not come up.
    """
    made = disk(suite)
    with tempfile.TemporaryDirectory(dir=DISKS) as name:
        place, port = Path(name), _free_port()
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / "id"]
        subprocess.run(keygen, check=True)
        (place / "key").write_text((place / "id.pub").read_text())
        _pack(place, archive or checkout(), "key")
        forward = f"user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"
        with open(place / "console", "wb") as console:
            guest = subprocess.Popen(
                _qemu(suite, made, place, "-nic", forward), stdin=subprocess.DEVNULL,
                stdout=console, stderr=console, env={**os.environ, "TMPDIR": name},
            )  # fmt: skip
        try:
            machine = Machine(place / "id", port)
            _wait(machine, guest, place / "console")
            if not network:
                machine.ssh("root", "ip route delete default")
            yield machine
        finally:
            guest.terminate()
            guest.wait()


def _wait(machine: Machine, guest: subprocess.Popen[bytes], console: Path) -> None:
    """Wait until root may log in."""
    deadline = time.monotonic() + BOOT_SECONDS
    while machine.ssh("root", "true").returncode:
        lost = guest.poll() is not None or time.monotonic() > deadline
        assert not lost, f"no login: {console.read_text(errors='replace')[-2000:]}"
        time.sleep(1)


def run(suite: str, arguments: list[str], archive: bytes) -> bytes:
    """Start the machine, run pytest with these arguments in it, and return its JUnit report.

    `archive` is a tar of the checkout. What the guest prints comes out on stdout.
    """
    made = disk(suite)
    with tempfile.TemporaryDirectory(dir=DISKS) as name:
        place = Path(name)
        (place / "arguments").write_text("".join(f"{word}\n" for word in arguments))
        _pack(place, archive, "arguments")
        with open(place / "out", "wb") as out:
            out.truncate(64 << 20)
        argv = _qemu(suite, made, place, "-nic", "none", *_drive(place / "out"))
        environ = {**os.environ, "TMPDIR": name}  # for the snapshot
        subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, check=True)
        tar = ["tar", "-xOf", place / "out", "report.xml"]
        done = subprocess.run(tar, check=False, capture_output=True)
        return done.stdout or b"<testsuites/>"  # the guest ended before it could write one


def checkout() -> bytes:
    """Return a tar of the last commit."""
    archive = ["git", "archive", "HEAD"]
    return subprocess.run(archive, cwd=TOP, check=True, capture_output=True).stdout


def _pack(place: Path, archive: bytes, file: str) -> None:
    """Write the second disk: a checkout, and a file of `place`."""
    (place / "in").write_bytes(archive)
    subprocess.run(["tar", "-rf", place / "in", "-C", place, file], check=True)
    os.truncate(place / "in", -(-(place / "in").stat().st_size // 512) * 512)


def _qemu(suite: str, made: Path, place: Path, *more: str) -> list[str | Path]:
    """Return QEMU's command line; it ends with this process."""
    guest = guests.of(suite)
    return [
        "setpriv", "--pdeathsig", "KILL", guest.program, *guest.board, *accelerator(guest),
        "-smp", str(os.cpu_count()), "-m", str(MEMORY_MIB), "-nographic", "-no-reboot",
        "-kernel", made / "vmlinuz", "-initrd", made / "initrd.img",
        "-append", KERNEL.format(guest.console),
        *_drive(made / "disk", "snapshot=on"), *_drive(place / "in", "readonly=on"), *more,
    ]  # fmt: skip


def accelerator(guest: guests.Guest) -> list[str]:
    """QEMU's flags: KVM if it can be had, else TCG."""
    if guests.has_kvm(guest):
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi", "-cpu", guest.cpu]


def _drive(path: Path, *options: str) -> list[str]:
    return ["-drive", ",".join((f"file={path}", "if=virtio", "format=raw", *options))]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description="Boot a machine, and say how to log in to it.")
    parser.add_argument("--suite", default="trixie", help="a release of Debian: %(default)s")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with booted(options.suite) as machine:
        for user in ("root", USER):
            print(shlex.join(machine.login(user)), flush=True)
        print("Ctrl-C ends it.", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
