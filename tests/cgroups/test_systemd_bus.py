"""What a server of D-Bus may answer a new connection with, and in which pieces."""

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jeepney
import pytest

from minirun.cgroups.systemd.bus import Bus
from minirun.core.errors import MinirunError

OK = b"DATA\r\nOK 0123456789abcdef0123456789abcdef\r\n"
MANAGER = jeepney.DBusAddress(
    "/org/freedesktop/systemd1", "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager"
)
RELOADING = jeepney.new_signal(MANAGER, "Reloading", "b", (True,)).serialise(7)
HANDSHAKE = b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n"


def answer(serial: int = 1) -> bytes:
    """The reply to Bus.top's one call."""
    call = jeepney.new_method_call(MANAGER, "Get")
    call.header.serial = serial
    reply: bytes = jeepney.new_method_return(call, "v", (("s", "/init.scope/"),)).serialise(8)
    return reply


@contextmanager
def served(first: bytes, then: bytes, piece: int) -> Iterator[str]:
    """A socket whose server says `first` to a new connection, `then` to a call, and hangs up."""
    with tempfile.TemporaryDirectory(prefix="mrb-") as folder, socket.socket(socket.AF_UNIX) as own:
        path = str(Path(folder, "private"))
        own.bind(path)
        own.listen()

        def serve() -> None:
            with own.accept()[0] as client:
                got = b""
                while len(got) < len(HANDSHAKE):
                    got += client.recv(len(HANDSHAKE) - len(got))
                assert got == HANDSHAKE
                for text in (first, then):
                    for start in range(0, len(text), piece):
                        client.sendall(text[start : start + piece])
                        time.sleep(0.001)
                    if not then or (text is first and not client.recv(4096)):
                        break

        server = threading.Thread(target=serve)
        server.start()
        yield path
        server.join()


@pytest.mark.parametrize("piece", [1, 7, 4096])
@pytest.mark.parametrize(
    "early", [b"", RELOADING, RELOADING * 9, RELOADING[:20]], ids=["none", "one", "nine", "a part"]
)
def test_messages_may_follow_the_answer_at_once(early: bytes, piece: int) -> None:
    """systemd tells all who are connected that it reloads."""
    rest = RELOADING[20:] if early == RELOADING[:20] else b""
    with served(OK + early, rest + answer(), piece) as path:
        bus = Bus((path + "-is-not-there", path))
        assert bus.top() == "/init.scope"
        bus.close()


@pytest.mark.parametrize("piece", [1, 4096])
@pytest.mark.parametrize(
    "said", [b"", b"REJECTED EXTERNAL\r\n", b"DATA\r\nREJECTED\r\n", b"DATA\r\n", OK[:-2]]
)
def test_a_server_that_does_not_let_one_in(said: bytes, piece: int) -> None:
    with served(said, b"", piece) as path:
        began = time.monotonic()
        with pytest.raises(MinirunError, match=r"neither .* answers: permission denied"):
            Bus((path + "-is-not-there", path))
        assert time.monotonic() - began < 10
