"""A machine that is not well: one short line, no hang, nothing left, and the next run works."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Program, cgroup, wait_until
from core.lifecycle.leftovers import assert_nothing, call
from minirun.core.kernel import mounts
from program import KEPT

Preparation = Callable[[], None]
NAME = f"fault-{os.getpid()}"
"""Names are the machine's: the cgroup is called so."""


@pytest.fixture
def small_disk(command: str, tmp_path: Path) -> Iterator[Program]:
    """A program whose state root is a file system of 40 pages and 64 files."""
    place = tmp_path / "small"
    place.mkdir()
    mounts.mount("tmpfs", str(place), "tmpfs", 0, "size=160k,nr_inodes=64")
    program = Program(command, place / "containers")
    yield program
    program.clean()
    mounts.umount2(str(place), mounts.MNT_DETACH)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stderr.startswith("minirun: "), done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("free", range(0, 40, 4))
def test_full_disk(small_disk: Program, free: int) -> None:
    """At every level of fullness a run works, or fails with a line that says why."""
    big = small_disk.root.parent / "big"
    big.write_bytes(bytes((40 - free // 2) * 4096 - 4096 * 2))
    done = small_disk("run", "--rm", "--name", NAME, "busybox", "true")
    if done.returncode:
        assert done.returncode == 125
        assert "No space left on device" in one_line(done)
    assert_nothing(small_disk, NAME)
    big.unlink()
    assert small_disk("run", "--rm", "--name", NAME, "busybox", "true").returncode == 0


def test_no_inodes_left(small_disk: Program) -> None:
    for count in range(2, 62, 4):
        many = small_disk.root.parent / "many"
        many.mkdir()
        for number in range(60 - count):
            (many / str(number)).touch()
        done = small_disk("run", "--rm", "busybox", "true")
        if done.returncode:
            assert done.returncode == 125
            assert "No space left on device" in one_line(done)
        for path in many.iterdir():
            path.unlink()
        many.rmdir()
        assert small_disk.left() == []
        for name in KEPT:
            shutil.rmtree(small_disk.directory(name), ignore_errors=True)
    assert small_disk("run", "--rm", "busybox", "true").returncode == 0


def test_full_disk_during_the_run(small_disk: Program) -> None:
    """What the command says goes on; its log ends."""
    options = "size=256k,nr_inodes=200"
    mounts.mount(None, str(small_disk.root.parent), None, mounts.MS_REMOUNT, options)
    script = "dd if=/dev/zero of=/big bs=64k 2>/dev/null; seq 1 2000; exit 3"
    done = small_disk("run", "--name", NAME, "busybox", "sh", "-c", script)
    assert done.returncode == 3
    assert done.stdout.endswith("2000\n")
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert small_disk("delete", "--force", NAME).returncode == 0
    assert_nothing(small_disk, NAME)


def test_read_only_state_root(minirun: Program, tmp_path: Path) -> None:
    minirun.root.mkdir()
    mounts.mount("tmpfs", str(minirun.root), "tmpfs", mounts.MS_RDONLY)
    try:
        done = minirun("run", "--rm", "--name", NAME, "busybox", "true")
        assert done.returncode == 125
        assert "Read-only file system" in one_line(done)
        assert minirun("ps").returncode == 0
        assert minirun("gc").returncode == 0
    finally:
        mounts.umount2(str(minirun.root))
    assert_nothing(minirun, NAME)


def test_start_on_a_read_only_state_root(minirun: Program, layer: Path) -> None:
    """The error is the file system's, and not that no container waits."""
    config = json.loads(minirun("spec", "busybox", "true").stdout)
    config["root"]["path"] = str(layer)
    (layer.parent / "config.json").write_text(json.dumps(config))
    assert call(minirun, "create", "--bundle", str(layer.parent), NAME)[0] == 0
    root = str(minirun.root)
    mounts.mount(root, root, None, mounts.MS_BIND)
    mounts.mount(None, root, None, mounts.MS_REMOUNT | mounts.MS_BIND | mounts.MS_RDONLY)
    try:
        done = minirun("start", NAME, env={"MINIRUN_LOG": "off"})
    finally:
        mounts.umount2(root)
    assert done.returncode == 1
    assert "exec.fifo: Read-only file system" in one_line(done)
    assert minirun("delete", "--force", NAME).returncode == 0
    assert_nothing(minirun, NAME)


def limit(kind: int, value: int) -> Preparation:
    return lambda: resource.setrlimit(kind, (value, value))


@pytest.mark.parametrize("count", [*range(4, 14), 16, 20, 24, 28, 32, 34])
@pytest.mark.parametrize("flag", ["--rm", "-t", "-di"])
def test_few_descriptors(minirun: Program, count: int, flag: str) -> None:
    limited = limit(resource.RLIMIT_NOFILE, count)
    words = ("run", flag, "--name", NAME, "busybox", "true")
    done = minirun(*words, preexec_fn=limited)
    if done.returncode:
        assert done.returncode == 125
        assert "Too many open files" in one_line(done)
        assert "ulimit -n" in done.stderr
    if done.returncode == 0:
        minirun("delete", "--force", NAME)
    assert_nothing(minirun, NAME)
    assert minirun("run", "--rm", "busybox", "true").returncode == 0


LOOKING = (
    ("inspect", NAME), ("inspect", "--json", NAME), ("state", NAME), ("ps", NAME), ("ps", "-a"),
    ("gpu", "why", NAME), ("logs", NAME), ("timeline", NAME), ("exec", NAME, "true"),
    ("events", "--stats", NAME),
)  # fmt: skip


def test_few_descriptors_to_look_with(minirun: Program) -> None:
    """pyroute2's half-made event loop once wrote a traceback."""
    assert minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100").returncode == 0
    for count in range(4, 12):
        limited = limit(resource.RLIMIT_NOFILE, count)
        for words in LOOKING:
            done = minirun(*words, preexec_fn=limited)
            assert done.returncode == 0 or "Too many open files" in one_line(done), (count, words)
            assert done.returncode or not done.stderr, (count, words)
    assert minirun("delete", "--force", NAME).returncode == 0
    assert_nothing(minirun, NAME)


def test_no_file_may_grow(minirun: Program) -> None:
    limited = limit(resource.RLIMIT_FSIZE, 0)
    done = minirun("run", "--rm", "--name", NAME, "busybox", "true", preexec_fn=limited)
    assert done.returncode == 125
    assert "File too large" in one_line(done)
    assert_nothing(minirun, NAME)


@pytest.mark.parametrize("megabytes", [24, 32, 48, 200])
def test_little_address_space(minirun: Program, megabytes: int) -> None:
    limited = limit(resource.RLIMIT_AS, megabytes << 20)
    done = minirun("run", "--rm", "--name", NAME, "busybox", "true", preexec_fn=limited)
    assert done.returncode == 0 or megabytes < 200
    minirun("delete", "--force", NAME)
    assert_nothing(minirun, NAME)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_closed_streams(minirun: Program, closed: tuple[int, ...]) -> None:
    """The command's 0, 1 and 2 are never some file of the runtime's."""

    def close() -> None:
        for fd in closed:
            os.close(fd)

    script = "for n in 0 1 2; do readlink /proc/self/fd/$n; done >/out/fds; exit 5"
    out = minirun.root.parent / "out"
    out.mkdir()
    argv = ("run", "-i", "--rm", "-v", f"{out}:/out", "busybox", "sh", "-c", script)
    assert call(minirun, *argv, preexec_fn=close)[0] == 5
    found = (out / "fds").read_text().splitlines()
    assert len(found) == 3
    assert found[0].startswith("pipe:") and found[2].startswith("pipe:"), found
    assert minirun("ps", "-aq").stdout == ""


@pytest.mark.parametrize("words", [("ps", "-a"), ("images",), ("--help",), ("doctor",)], ids=str)
def test_full_output(minirun: Program, words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            minirun.argv(*words), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_output_of_the_command_to_a_full_device(minirun: Program) -> None:
    script = "seq 1 100000; exit 4"
    for flags in ((), ("--rm",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                minirun.argv("run", "--name", NAME, *flags, "busybox", "sh", "-c", script),
                stdout=full, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        assert done.returncode == 4
        minirun("delete", "--force", NAME)


def test_broken_stderr(minirun: Program) -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    done = subprocess.run(
        minirun.argv("run", "--rm", "busybox", "nosuch"), stderr=write_fd, check=False
    )
    assert done.returncode == 127
    os.close(write_fd)


def test_deleted_working_directory(minirun: Program, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    shell = f"cd {gone} && rmdir {gone} && exec "
    argv = " ".join(minirun.argv("run", "--rm", "busybox", "pwd"))
    done = subprocess.run(shell + argv, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "/\n", "")
    gone.mkdir()
    argv = f"{minirun.path} --root here --store /var/lib/minirun run busybox true"
    done = subprocess.run(shell + argv, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "No such file or directory" in one_line(done)


@pytest.mark.parametrize("mask", [0o777, 0o077, 0])
def test_umask(minirun: Program, mask: int) -> None:
    """An ordinary user in the container can live in it, and nobody else looks into its state."""
    script = "umask; ls / >/dev/null && cat /etc/passwd >/dev/null && : >/tmp/x && ls -l /tmp/x"
    argv = ("run", "--name", NAME, "-u", "1000", "busybox", "sh", "-c", script)
    done = minirun(*argv, preexec_fn=lambda: os.umask(mask))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0022\n-rw-r--r--")
    assert minirun.root.stat().st_mode & 0o777 == 0o711
    assert minirun.directory(NAME).stat().st_mode & 0o777 == 0o700
    assert minirun.left() == [NAME]


def test_damaged_state(minirun: Program) -> None:
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100")
    pid = json.loads(minirun("state", NAME).stdout)["pid"]
    record = minirun.directory(NAME) / "state.json"
    supervisor = json.loads(record.read_text())["supervisor"]["pid"]
    record.write_text("{")
    for words in (("state", NAME), ("kill", NAME), ("delete", NAME), ("exec", NAME, "true")):
        assert "state.json is damaged" in one_line(minirun(*words))
    assert minirun("ps", "-a").returncode == 0
    os.kill(pid, 9)
    wait_until(lambda: not Path(f"/proc/{supervisor}").exists())
    assert minirun("delete", "--force", NAME).returncode == 0
    assert_nothing(minirun, NAME)


def test_rootfs_gone(minirun: Program) -> None:
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100")
    for name in ("rootfs", "upper", "work"):
        subprocess.run(["rm", "-rf", str(minirun.directory(NAME) / name)], check=True)
    assert minirun("delete", "--force", NAME).returncode == 0
    assert_nothing(minirun, NAME)


def test_fork_bomb(minirun: Program) -> None:
    # process 1 forks once, before the bomb: a shell ends when a fork is refused to it
    bomb = "b() { b | b & }; (b; sleep 100) & exec sleep 100"
    flags = ("-d", "--name", NAME, "--pids-limit", "64")
    minirun("run", *flags, "busybox", "sh", "-c", bomb)
    refused = Path(cgroup(minirun, NAME), "pids.events")  # how often clone was refused
    wait_until(lambda: refused.read_text() != "max 0\n")
    assert minirun("delete", "--force", NAME, timeout=30).returncode == 0
    assert_nothing(minirun, NAME)


def test_out_of_memory(minirun: Program) -> None:
    script = "x=a; while :; do x=$x$x; done"
    done = minirun("run", "--rm", "--memory", "16m", "busybox", "sh", "-c", script)
    assert done.returncode == 137


def test_a_memory_limit_too_low_to_start(minirun: Program, layer: Path) -> None:
    """`run IMAGE` refuses it; a bundle may say anything."""
    document = minirun.spec("true")
    document["root"]["path"] = str(layer)
    document["linux"]["resources"]["memory"] = {"limit": 64 << 10}
    (layer.parent / "config.json").write_text(json.dumps(document))
    done = minirun("run", "--bundle", str(layer.parent), NAME)
    assert done.returncode == 1
    assert "memory limit is too low" in one_line(done)
