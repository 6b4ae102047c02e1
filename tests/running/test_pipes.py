"""Without -t the command's streams are pipes, as docker's: nothing that is the caller's own."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Program, wait_until

LINKS = "for n in 0 1 2; do readlink /proc/self/fd/$n; done; test -t 0 || test -t 1 || echo no tty"
SHELL = ("busybox", "sh", "-c")
Words = Callable[..., list[str]]
KINDS = ["run", "rm", "exec"]


@pytest.fixture(params=KINDS)
def shell(request: pytest.FixtureRequest, minirun: Program) -> Words:
    """Return the command line that runs a script: `run`, `run --rm`, `exec`."""
    if request.param == "exec":
        minirun("run", "-d", "--name", "c", "busybox", "sleep", "100")
        return lambda script, *flags: minirun.argv("exec", *flags, "c", "sh", "-c", script)
    rm = ("--rm",) if request.param == "rm" else ()
    return lambda script, *flags: minirun.argv("run", "--quiet", *rm, *flags, *SHELL, script)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The caller's terminal: (the screen and keyboard, what programs have open)."""
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("flags", [(), ("-i",)], ids=["", "input"])
def test_the_callers_terminal_stays_outside(
    shell: Words, terminal: tuple[int, int], flags: tuple[str, ...]
) -> None:
    """It could be read there, typed into (TIOCSTI) and reprogrammed."""
    master, slave = terminal
    argv = shell(LINKS, *flags)
    done = subprocess.run(argv, stdin=slave, stdout=slave, stderr=slave, timeout=30, check=False)
    assert done.returncode == 0
    *links, verdict = os.read(master, 4096).decode().split("\r\n")[:-1]
    assert verdict == "no tty"
    assert links[0] == "/dev/null" if not flags else links[0].startswith("pipe:")
    assert links[1].startswith("pipe:") and links[2].startswith("pipe:")


def test_the_callers_files_cannot_be_opened_anew(shell: Words, tmp_path: Path) -> None:
    """/proc/self/fd/0 of a file open for reading can be opened for writing by who may."""
    (tmp_path / "in").write_text("word\n")
    (tmp_path / "out").write_text("before\n")
    script = "cat; echo changed >/proc/self/fd/0; cat /proc/self/fd/1 & sleep 0.2; kill $!"
    with open(tmp_path / "in") as stdin, open(tmp_path / "out", "a") as stdout:
        argv = shell(script, "-i")
        subprocess.run(argv, stdin=stdin, stdout=stdout, timeout=30, check=False)
    assert (tmp_path / "in").read_text() == "word\n"
    assert (tmp_path / "out").read_text() == "before\nword\n"


def test_much_goes_in_and_out(shell: Words) -> None:
    data = os.urandom(3_000_000)
    argv = shell("cat; echo end >&2", "-i")
    done = subprocess.run(argv, input=data, capture_output=True, timeout=60, check=False)
    assert done.stdout == data
    assert (done.returncode, done.stderr) == (0, b"end\n")


def test_input_that_is_not_read_holds_nothing_up(shell: Words) -> None:
    argv = shell("head -c 3; exit 5", "-i")
    done = subprocess.run(
        argv, input=b"x" * 3_000_000, capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (5, b"xxx")


def test_a_stream_that_is_not_read_holds_no_other_up(shell: Words) -> None:
    argv = shell("head -c 1000000 /dev/zero & sleep 0.3; echo err >&2; wait")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout and started.stderr
        assert started.stderr.readline() == b"err\n"
        assert len(started.stdout.read()) == 1_000_000
    assert started.returncode == 0


def test_the_last_bytes_arrive_at_a_slow_reader(shell: Words) -> None:
    with subprocess.Popen(shell("head -c 150000 /dev/zero"), stdout=subprocess.PIPE) as started:
        time.sleep(1)
        assert started.stdout
        assert len(started.stdout.read()) == 150_000
    assert started.returncode == 0


def test_exec_does_not_wait_for_what_goes_on_in_the_background(minirun: Program) -> None:
    minirun("run", "-d", "--name", "c", "busybox", "sleep", "100")
    script = "(while :; do echo more; done) & sleep 0.2; echo done >&2; exit 6"
    done = minirun("exec", "c", "sh", "-c", script, timeout=20)
    assert (done.returncode, done.stderr) == (6, "done\n")
    assert set(done.stdout.splitlines()[:-1]) == {"more"}


def test_exec_ends_even_if_the_pipe_stays_full(minirun: Program) -> None:
    minirun("run", "-d", "--name", "c", "busybox", "sleep", "100")
    argv = minirun.argv("exec", "c", "sh", "-c", "yes & sleep 0.2; exit 6")
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as started:
        assert started.wait(timeout=10) == 6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGPWR, signal.SIGRTMIN + 3])
def test_a_signal_still_reaches_the_command(shell: Words, number: int) -> None:
    """systemd, as the command, ends at SIGRTMIN+3."""
    script = f"trap 'echo got; exit 9' {int(number)}; echo ready; while :; do sleep 0.1; done"
    argv = shell(script)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as started:
        assert started.stdout
        assert started.stdout.readline() == b"ready\n"
        started.send_signal(number)
        assert started.stdout.read() == b"got\n"
    assert started.returncode == 9


def test_a_descriptor_that_is_non_blocking(shell: Words) -> None:
    """As a caller's event loop leaves it: what does not fit now goes later."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    with subprocess.Popen(shell("head -c 1000000 /dev/zero"), stdout=write_fd) as started:
        os.close(write_fd)
        time.sleep(0.5)
        with os.fdopen(read_fd, "rb") as file:
            assert len(file.read()) == 1_000_000
    assert started.returncode == 0


def test_the_log_goes_on_without_a_reader(minirun: Program) -> None:
    argv = minirun.argv("run", "-q", "--name", "c", *SHELL, "echo 1; sleep 0.5; echo 2; echo 3")
    shell = f"{' '.join(argv[:-1])} '{argv[-1]}' | head -1"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, timeout=30, check=False)
    assert done.stdout == b"1\n"
    wait_until(lambda: minirun("logs", "c").stdout == "1\n2\n3\n")


@pytest.mark.parametrize("flags", [(), ("-t",), ("-i",)], ids=["", "terminal", "input"])
def test_a_reader_that_closes_early_does_not_reach_the_command(
    shell: Words, flags: tuple[str, ...]
) -> None:
    """`… | head -1`: docker's container writes on too, and gets no error of write(2)."""
    script = "echo 1; sleep 0.5; for n in 2 3 4; do echo $n || exit 3; sleep 0.1; done; exit 7"
    with subprocess.Popen(
        shell(script, *flags), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:  # fmt: skip
        assert started.stdout and started.stderr
        assert started.stdout.readline().rstrip() == b"1"
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 7


def test_a_command_that_reads_no_more_ends_its_input(shell: Words) -> None:
    """The other way round the end is told: the caller's writer gets EPIPE, and does not wait."""
    script = f"yes | {' '.join(shell('', '-i')[:-1])} 'read word; exec 0</dev/null; sleep 0.3'"
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_input_of_a_detached_command_stays_open(minirun: Program) -> None:
    """`run -id IMAGE sh` waits for commands, as with docker: it was at the end of its input."""
    minirun("run", "-id", "--name", "c", "busybox", "cat")
    minirun("run", "-d", "--name", "d", "busybox", "cat")
    wait_until(lambda: minirun("ps", "--format", "{{.Names}}").stdout == "c\n")
    time.sleep(0.3)
    assert minirun("ps", "--format", "{{.Names}}").stdout == "c\n"
    assert minirun("exec", "c", "readlink", "/proc/1/fd/0").stdout.startswith("pipe:")
