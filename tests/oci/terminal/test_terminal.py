"""Terminals: real pseudo-terminals on both sides, init in a mount namespace of its own."""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import containers
from conftest import Program
from minirun.core.errors import MinirunError
from minirun.core.kernel import mounts, namespaces
from minirun.core.process import streams
from minirun.core.rootfs.inroot import Root
from minirun.oci.terminal import relay, terminal

DEADLINE = 20.0


def read_until(fd: int, wanted: bytes) -> bytes:
    """Read from `fd` until `wanted` came (or the other side closed), or fail."""
    seen = b""
    end = time.monotonic() + DEADLINE
    while wanted not in seen:
        assert select.select([fd], [], [], end - time.monotonic())[0], f"no {wanted!r} in {seen!r}"
        try:
            chunk = os.read(fd, 65536)
        except OSError:
            chunk = b""
        assert chunk, f"no {wanted!r} in {seen!r}"
        seen += chunk
    return seen


def wait(pid: int) -> int:
    """Wait for a child, not for ever; return its exit status, negative for a signal."""
    pidfd = os.pidfd_open(pid)
    ended = select.select([pidfd], [], [], DEADLINE)[0]
    os.close(pidfd)
    assert ended, f"process {pid} still runs:\n{Path(f'/proc/{pid}/status').read_text()}"
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Processes:
    """Forks children, and leaves none behind."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def fork(self, body: Callable[[], object]) -> int:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                body()
                status = 0
            except (MinirunError, OSError) as error:
                os.write(2, f"{error}\n".encode())
            finally:
                os._exit(status)
        self.pids.append(pid)
        return pid

    def container(self, script: str, uid: int = 0, **options: object) -> tuple[int, int]:
        """Run a shell script on a terminal of its own devpts, `uid`'s; return (pid, master)."""
        ours, theirs = socket.socketpair()

        made = containers.container(Path("/tmp"), process={"terminal": True})

        def init() -> None:
            new_devpts()
            root, before = Root.at("/"), os.listdir("/proc/self/fd")
            terminal.take(root, theirs.fileno(), **options)  # type: ignore[arg-type]
            streams.chown_streams(uid)
            streams.lead_session(made)
            if os.listdir("/proc/self/fd") != before:
                os._exit(9)
            os.execv("/bin/sh", ["sh", "-c", script])

        pid = self.fork(init)
        with ours, theirs:
            theirs.close()
            return pid, terminal.receive_master(ours)

    def user(self, slave: int, body: Callable[[], object]) -> int:
        """Run `body` with the user's terminal as its controlling terminal and streams."""

        def start() -> None:
            os.setsid()
            for number in range(3):
                os.dup2(slave, number)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            body()

        return self.fork(start)


def new_devpts() -> None:
    """In a child: a private mount namespace with a fresh devpts at /dev/pts."""
    namespaces.unshare(namespaces.CLONE_NEWNS)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    mounts.mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5")


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    for pid in started.pids:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


@pytest.fixture
def tty() -> Iterator[tuple[int, int]]:
    """The user's terminal, 30 rows by 90 columns: (the screen and keyboard, what programs see)."""
    screen, slave = os.openpty()
    relay.set_size(slave, 30, 90)
    yield screen, slave
    for fd in (screen, slave):
        try:
            os.close(fd)
        except OSError:
            pass


def test_the_containers_side(processes: Processes) -> None:
    """The first terminal of its devpts, controlling, of no size yet, with ECHO and ONLCR."""
    script = (
        "tty; stty size; stty -a | grep -ow -e echo -e onlcr; stat -c '%u %a' /dev/pts/0;"
        "echo by-console > /dev/console; echo by-tty > /dev/tty; echo end"
    )
    pid, master = processes.container(script, uid=1234)
    lines = read_until(master, b"end\r\n").decode().split("\r\n")
    assert lines == [
        "/dev/pts/0", "0 0", "onlcr", "echo", "1234 620", "by-console", "by-tty", "end", "",
    ]  # fmt: skip
    assert wait(pid) == 0
    assert not os.get_inheritable(master)
    os.close(master)


def test_console_size_of_the_configuration(processes: Processes) -> None:
    pid, master = processes.container("stty size", size=(40, 132))
    assert read_until(master, b"\n") == b"40 132\r\n"
    assert relay.get_size(master) == (40, 132)
    assert terminal.name_of(master) == "/dev/pts/0"
    os.close(master)
    wait(pid)


def test_keys_output_size_and_restoration(processes: Processes, tty: tuple[int, int]) -> None:
    screen, slave = tty
    before = termios.tcgetattr(slave)
    script = "echo ready; while read line; do echo got $line at $(stty size); done; exit 5"
    pid, master = processes.container(script)
    pidfd = os.pidfd_open(pid)
    relaying = processes.user(slave, lambda: relay.relay(master, 0, 1, pidfd))
    read_until(screen, b"ready\r\n")
    assert not termios.tcgetattr(slave)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
    os.write(screen, b"one\r")
    seen = read_until(screen, b"got one at 30 90\r\n")
    assert seen.startswith(b"one\r\n")  # echoed by the container, once
    relay.set_size(screen, 11, 22)
    end = time.monotonic() + DEADLINE
    while relay.get_size(master) != (11, 22):
        assert time.monotonic() < end
    os.write(screen, b"two\r")
    read_until(screen, b"got two at 11 22\r\n")
    os.write(screen, b"\x04")
    assert wait(pid) == 5
    assert wait(relaying) == 0
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(pidfd)


def test_control_c_goes_to_the_container(processes: Processes, tty: tuple[int, int]) -> None:
    screen, slave = tty
    pid, master = processes.container("echo ready; exec sleep 60")
    pidfd = os.pidfd_open(pid)
    relaying = processes.user(slave, lambda: relay.relay(master, 0, 1, pidfd))
    read_until(screen, b"ready\r\n")
    os.write(screen, b"\x03")
    assert wait(pid) == -signal.SIGINT
    assert wait(relaying) == 0
    os.close(pidfd)


def test_all_output_arrives_however_fast_the_end_comes(processes: Processes) -> None:
    pid, master = processes.container("seq 100000")
    reading, writing = os.pipe()
    pidfd = os.pidfd_open(pid)

    def body() -> None:
        os.close(reading)
        relay.relay(master, -1, writing, pidfd)

    relaying = processes.fork(body)
    os.close(writing)
    with open(reading, "rb") as pipe:
        lines = pipe.read().split(b"\r\n")
    assert lines == [*(str(n).encode() for n in range(1, 100001)), b""]
    assert wait(relaying) == 0
    os.close(master)


def test_a_paste_larger_than_the_terminals_buffer(
    processes: Processes, tty: tuple[int, int]
) -> None:
    """The container writes as much as it reads: neither side may wait for the other for ever."""
    screen, slave = tty
    pid, master = processes.container("stty raw; echo ready; head -c 300000 | wc -c")
    pidfd = os.pidfd_open(pid)
    relaying = processes.user(slave, lambda: relay.relay(master, 0, 1, pidfd))
    read_until(screen, b"ready\n")
    typist = processes.fork(lambda: [os.write(screen, b"x" * 1000) for _ in range(300)])
    assert b"300000" in read_until(screen, b"300000\n")
    assert wait(typist) == 0
    assert wait(relaying) == 0


def test_the_end_of_a_pipe_is_the_end_of_file_key(processes: Processes) -> None:
    pid, master = processes.container("stty -echo; echo ready; read line; cat; echo bye $line")
    reading, writing = os.pipe()
    keys, keyboard = os.pipe()
    pidfd = os.pidfd_open(pid)

    def body() -> None:
        os.close(keyboard)
        relay.relay(master, keys, writing, pidfd)

    relaying = processes.fork(body)
    read_until(reading, b"ready\r\n")
    os.write(keyboard, b"first\nsecond\n")
    os.close(keyboard)
    assert b"second\r\n" in read_until(reading, b"bye first\r\n")
    assert wait(relaying) == 0
    for fd in (reading, writing, keys):
        os.close(fd)


def test_a_survivor_that_holds_the_terminal_does_not_hold_the_relay(
    processes: Processes, tty: tuple[int, int]
) -> None:
    screen, slave = tty
    script = "trap '' HUP; sleep 30 & echo survivor $!;"
    pid, master = processes.container(script)
    pidfd = os.pidfd_open(pid)
    relaying = processes.user(slave, lambda: relay.relay(master, 0, 1, pidfd))
    survivor = int(read_until(screen, b"\r\n").split()[1])
    assert wait(relaying) == 0
    os.kill(survivor, signal.SIGKILL)
    wait(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_sets_the_terminal_back(
    processes: Processes, tty: tuple[int, int], number: signal.Signals
) -> None:
    screen, slave = tty
    before = termios.tcgetattr(slave)
    _, master = processes.container("echo ready; sleep 60")
    relaying = processes.user(slave, lambda: relay.relay(master, 0, 1))
    read_until(screen, b"ready\r\n")
    assert termios.tcgetattr(slave) != before
    os.kill(relaying, number)
    assert wait(relaying) == -number
    assert termios.tcgetattr(slave) == before


def test_an_exception_sets_the_terminal_back(tty: tuple[int, int]) -> None:
    _, slave = tty
    before = termios.tcgetattr(slave)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError), relay.RawMode(slave):
        assert termios.tcgetattr(slave) != before
        raise RuntimeError
    assert termios.tcgetattr(slave) == before
    assert signal.getsignal(signal.SIGTERM) == handler


def test_the_users_terminal_goes_away(processes: Processes, tty: tuple[int, int]) -> None:
    screen, slave = tty
    _, master = processes.container("echo ready; sleep 60")

    def body() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.close(screen)
        os.close(slave)
        relay.relay(master, 0, 1)

    relaying = processes.user(slave, body)
    os.close(slave)
    read_until(screen, b"ready\r\n")
    os.close(screen)
    assert wait(relaying) == 0


def test_a_console_socket_with_a_path_longer_than_sun_path(
    processes: Processes, tmp_path: Path
) -> None:
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    home = os.getcwd()
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(directory)
    listener.bind("console.sock")
    os.chdir(home)
    listener.listen()
    path = str(directory / "console.sock")

    def init() -> None:
        new_devpts()
        master, _ = terminal.open_console(Root.at("/"))
        terminal.send_master(path, master)

    processes.fork(init)
    with listener, listener.accept()[0] as connection:
        os.close(terminal.receive_master(connection))


def test_a_dead_console_socket_is_named(tmp_path: Path) -> None:
    screen, slave = os.openpty()
    path = tmp_path / "gone.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    with pytest.raises(ConnectionRefusedError, match=str(path)):
        terminal.send_master(str(path), screen)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=str(path)):
        terminal.send_master(str(path), screen)
    os.close(screen)
    os.close(slave)


def test_what_is_no_terminal_is_refused_and_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for sent in ([], [0], [0, 0]):
        ours, theirs = socket.socketpair()
        with ours, theirs, open("/dev/null") as null:
            socket.send_fds(theirs, [b"x"], [null.fileno() for _ in sent])
            with pytest.raises((MinirunError, OSError)):
                terminal.receive_master(ours)
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(MinirunError, match="not its terminal"):
        terminal.receive_master(ours)
    assert len(os.listdir("/proc/self/fd")) == before


def test_hostile_images(tmp_path: Path) -> None:
    """Links and look-alikes where the terminal is looked for."""
    dev = tmp_path / "image/dev"
    (dev / "pts").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    (dev / "pts/ptmx").symlink_to("/dev/pts/ptmx")
    (dev / "console").symlink_to("../../../outside")
    root = Root.at(str(tmp_path / "image"))
    with pytest.raises(MinirunError, match="no devpts at /dev/pts"):
        terminal.open_console(root)
    screen, slave = os.openpty()
    with pytest.raises(OSError, match="symbolic links"):
        terminal.bind_console(root, slave)
    (dev / "console").unlink()
    (dev / "pts/ptmx").unlink()
    (dev / "pts").rmdir()
    (dev / "pts").symlink_to("/dev/pts")  # in the image, so it leads to itself
    with pytest.raises(OSError):
        terminal.open_console(root)
    for fd in (screen, slave):
        os.close(fd)
    root.close()
    assert outside.read_text() == "untouched"


def test_a_file_gets_what_was_written(minirun: Program, layer: Path) -> None:
    """Of a bundle, without a screen in raw mode, a line feed stays one, as with runc: "cat file" is
    the file. Of an image a terminal's lines end with CR LF, as with docker."""
    argv = minirun.argv("run", "--rm", "-t", "busybox", "printf", "a\\nb\\n")
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"a\r\nb\r\n"
    document = minirun.spec("printf", "a\\nb\\n")
    document["process"]["terminal"] = True
    document["root"]["path"] = str(layer)
    (layer.parent / "config.json").write_text(json.dumps(document))
    argv = minirun.argv("run", "--bundle", str(layer.parent), "c")
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"a\nb\n"


def test_a_raw_screen_gets_its_carriage_returns_from_the_container(
    minirun: Program, tty: tuple[int, int]
) -> None:
    """Programs with a full screen turn them off in their own terminal, which runc does for all."""
    screen, slave = tty
    words = ("--rm", "-ti", "--progress", "quiet", "busybox", "sh", "-c", "echo a; stty -a")
    argv = minirun.argv("run", *words)
    done = subprocess.run(argv, stdin=slave, stdout=slave, stderr=slave, check=False)
    assert done.returncode == 0
    said = read_until(screen, b" onlcr")
    assert said.startswith(b"a\r\n")
