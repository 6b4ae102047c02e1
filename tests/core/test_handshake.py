"""The handshake between two real processes: every message, and the death of either side."""

import errno
import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from minirun.core import handshake
from minirun.core.errors import CommandError, MinirunError
from minirun.core.handshake import Channel, Ends, Message, PeerDied
from minirun.core.keeping import places


def fork(body: Callable[[], object]) -> int:
    """Run `body` in a child, whose exit status is 0 where it raises nothing."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    return pid


def status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def pair(directory: Path, init: Callable[[Channel], object]) -> tuple[int, Channel]:
    """Fork an init that runs `init` with its channel; return its pid and the runtime's channel."""
    handshake.make_fifos(str(directory))
    ends = Ends(str(directory))
    pid = fork(lambda: init(ends.init()))
    return pid, ends.runtime()


def test_the_fifos_are_named_and_only_the_owners(tmp_path: Path) -> None:
    handshake.make_fifos(str(tmp_path))
    for name in ("init.fifo", "runtime.fifo", "exec.fifo"):
        mode = (tmp_path / name).stat().st_mode
        assert stat.S_ISFIFO(mode)
        assert stat.S_IMODE(mode) & 0o077 == 0
    with pytest.raises(FileExistsError):
        handshake.make_fifos(str(tmp_path))


def test_the_whole_dialogue(tmp_path: Path) -> None:
    def init(channel: Channel) -> None:
        channel.expect(Message.MAPPED)
        channel.say(Message.READY)
        channel.expect(Message.YOUR_TURN)
        channel.say(Message.RUN_HOOKS)
        channel.say(Message.YOUR_TURN)
        channel.expect(Message.HOOKS_DONE)
        channel.expect(Message.YOUR_TURN)
        channel.say(Message.WAITING)

    pid, channel = pair(tmp_path, init)
    channel.say(Message.MAPPED)
    channel.expect(Message.READY)
    channel.say(Message.YOUR_TURN)
    channel.expect(Message.RUN_HOOKS)
    channel.expect(Message.YOUR_TURN)
    channel.say(Message.HOOKS_DONE)
    channel.say(Message.YOUR_TURN)
    channel.expect(Message.WAITING)
    assert channel.read_rest() == b""  # init has gone: the end of the file
    assert status(pid) == 0
    channel.close()


def test_init_dies_while_the_runtime_waits(tmp_path: Path) -> None:
    pid, channel = pair(tmp_path, lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(PeerDied, match="init died before it said READY"):
        channel.expect(Message.READY)
    assert status(pid) == -signal.SIGKILL
    with pytest.raises(PeerDied, match="init died while YOUR_TURN was being sent"):
        channel.say(Message.YOUR_TURN)
    channel.fail(MinirunError("nobody hears it"))  # and nothing is raised
    channel.close()


def test_half_a_message_is_a_death_too(tmp_path: Path) -> None:
    pid, channel = pair(tmp_path, lambda c: os.write(c.write_fd, b"REA"))
    with pytest.raises(PeerDied):
        channel.expect(Message.READY)
    assert status(pid) == 0
    channel.close()


def test_the_runtime_is_killed_while_init_waits(tmp_path: Path) -> None:
    heard, tell = os.pipe()

    def runtime() -> None:
        def init(channel: Channel) -> None:
            channel.say(Message.READY)
            try:
                channel.expect(Message.YOUR_TURN)
            except PeerDied as error:
                os.write(tell, str(error).encode())

        _, channel = pair(tmp_path, init)
        channel.expect(Message.READY)
        os.kill(os.getpid(), signal.SIGKILL)

    pid = fork(runtime)
    os.close(tell)
    assert status(pid) == -signal.SIGKILL
    assert os.read(heard, 100) == b"runtime died before it said YOUR_TURN"
    assert os.read(heard, 1) == b""  # init, the last holder of the pipe, is gone as well
    os.close(heard)


@pytest.mark.parametrize("code", [1, 126, 255])
def test_an_error_of_init_arrives_whole(tmp_path: Path, code: int) -> None:
    error = CommandError('exec: "컨테이너":\nno', "look\nthere", status=code)
    pid, channel = pair(tmp_path, lambda c: c.fail(error))
    with pytest.raises(MinirunError) as caught:
        channel.expect(Message.WAITING)
    found = caught.value
    assert (str(found), found.hint, found.status) == (str(error), error.hint, code)
    assert status(pid) == 0
    channel.close()


def test_an_error_of_the_runtime_reaches_init(tmp_path: Path) -> None:
    def init(channel: Channel) -> None:
        with pytest.raises(MinirunError, match="prestart hook 0 failed"):
            channel.expect(Message.HOOKS_DONE)

    pid, channel = pair(tmp_path, init)
    channel.fail(MinirunError("prestart hook 0 failed"))
    assert status(pid) == 0
    channel.close()


def test_a_long_error_is_cut(tmp_path: Path) -> None:
    pid, channel = pair(tmp_path, lambda c: c.fail(MinirunError("x" * 300_000, "h" * 300_000)))
    with pytest.raises(MinirunError) as caught:
        channel.expect(Message.READY)
    assert str(caught.value) == "x" * handshake.LONGEST_ERROR
    assert set(caught.value.hint) == {"h"}
    assert status(pid) == 0
    channel.close()


@pytest.mark.parametrize("rest", ["", "x", "²", "٣", "1_0", "-1", "+1", "9" * 5000, str(1 << 31)])
def test_a_message_that_carries_no_number(tmp_path: Path, rest: str) -> None:
    pid, channel = pair(tmp_path, lambda c: c.say(f"{Message.LISTENER} {rest}"))
    with pytest.raises(MinirunError, match="handshake: unexpected 'LISTENER'"):
        channel.expect_number(Message.LISTENER)
    assert status(pid) == 0
    channel.close()


def test_another_message_than_the_expected_one(tmp_path: Path) -> None:
    pid, channel = pair(tmp_path, lambda c: c.say(Message.RUN_HOOKS))
    with pytest.raises(MinirunError, match="handshake: unexpected 'RUN_HOOKS'"):
        channel.expect(Message.READY)
    assert status(pid) == 0
    channel.close()


def test_messages_may_arrive_together_or_in_pieces(tmp_path: Path) -> None:
    def init(channel: Channel) -> None:
        os.write(channel.write_fd, b"READY\nRUN_HOOKS\nYOUR")
        channel.expect(Message.YOUR_TURN)
        os.write(channel.write_fd, b"_TURN\n")
        os.write(channel.write_fd, b"\x02\x00\x00\x00")

    pid, channel = pair(tmp_path, init)
    channel.expect(Message.READY)
    channel.expect(Message.RUN_HOOKS)
    channel.say(Message.YOUR_TURN)
    channel.expect(Message.YOUR_TURN)
    assert channel.read_rest() == (2).to_bytes(4, "little")
    assert status(pid) == 0
    channel.close()


def test_start_where_nobody_waits(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        handshake.start(str(tmp_path))
    handshake.make_fifos(str(tmp_path))
    with pytest.raises(OSError) as caught:
        handshake.start(str(tmp_path))
    assert caught.value.errno == errno.ENXIO


def test_start_lets_the_one_go_on_who_waits(tmp_path: Path) -> None:
    handshake.make_fifos(str(tmp_path))
    fd = os.open(tmp_path / places.EXEC, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    starter = threading.Timer(0.05, handshake.start, [str(tmp_path)])
    starter.start()
    said = b""
    while not said:  # before there is a writer, a FIFO reads as ended
        said = os.read(fd, 16)
    starter.join()
    assert said == handshake.START
    os.close(fd)


def test_a_start_that_is_killed_has_started_nothing_or_has_removed_the_fifo(tmp_path: Path) -> None:
    """A container that has its exec.fifo is "created": its command must not run then."""
    handshake.make_fifos(str(tmp_path))
    fd = os.open(tmp_path / places.EXEC, os.O_RDONLY | os.O_NONBLOCK)

    def killed_at_unlink() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "unlink", lambda _: os.kill(os.getpid(), signal.SIGKILL))
            handshake.start(str(tmp_path))

    assert status(fork(killed_at_unlink)) == -signal.SIGKILL
    assert (tmp_path / places.EXEC).exists()
    assert os.read(fd, 16) == b""
    os.close(fd)


def test_no_end_is_handed_on_to_a_program(tmp_path: Path) -> None:
    handshake.make_fifos(str(tmp_path))
    ends = Ends(str(tmp_path))
    fds = (*ends.from_init, *ends.from_runtime)
    assert not any(os.get_inheritable(fd) for fd in fds)
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize(
    "rest",
    [
        "{}",
        "[]",
        "x",
        "",
        "1",
        '{"text": "a", "hint": "", "status": {}}',
        "[" * 100_000,
        '{"text": "a", "hint": "", "status": 0}',
        '{"text": "a", "hint": "", "status": 256}',
        '{"text": "a", "hint": "", "status": 1e999}',
        '{"text": "a", "hint": "", "status": "²"}',
    ],
)
def test_a_forged_error_is_an_error(rest: str) -> None:
    """A container may have got hold of the FIFO."""
    error = handshake.error_from(f"ERROR {rest}")
    assert str(error) == "handshake: unexpected 'ERROR'"
