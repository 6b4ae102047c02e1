"""`run -d`: the supervisor is a process of its own, in its own session, and its parent returns as
soon as the container runs. `run -it`: its parent waits in front, and the user may send it there.
"""

from __future__ import annotations

import os

from minirun.common import interrupts
from minirun.core.container import Container
from minirun.core.errors import SIGNALLED, MinirunError, from_os
from minirun.core.keeping.visible import say
from minirun.core.kernel import process
from minirun.core.kernel import signals as process_signals
from minirun.running import signals, supervise
from minirun.running.supervise import SupervisorOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def run(reserve: Callable[[], Container], options: SupervisorOptions) -> int:
    """Fork the supervisor, and print the container's id when it runs. Raises MinirunError."""
    os.write(1, f"{start(reserve, options)}\n".encode())
    return 0


def start(reserve: Callable[[], Container], options: SupervisorOptions) -> str:
    """Fork the supervisor; return the container's id when it runs. Raises MinirunError."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    signals.block()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os._exit(_background(reserve, options, write_end))
    os.close(write_end)
    before = {number: process_signals.getsignal(number) for number in interrupts.ENDING}
    # what would end this command goes on to the supervisor
    interrupts.handle(interrupts.ENDING, lambda number, frame: os.kill(pid, number))
    text = bytearray()
    while chunk := os.read(read_end, 4096):
        text += chunk
        if text.startswith(b"ok\n") and text.endswith(b"\n"):
            break  # an init that waits for `start` holds the other end
    for number, handler in before.items():
        process_signals.signal(number, handler)
    kind, _, rest = text.decode(errors="replace").partition("\n")
    if kind != "ok":
        status, _, line = rest.partition("\n")
        raise MinirunError(line or "the supervisor died", status=int(status or 125))
    return rest.rstrip("\n")


def _background(
    reserve: Callable[[], Container], options: SupervisorOptions, write_end: int
) -> int:
    """In the supervisor: run the container, and tell the parent how its start went."""
    os.setsid()
    process.become_named("minirun:watch")
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1):
            os.dup2(null, number)
        return supervise.run(reserve, options, lambda made: _tell_started(made, write_end))
    except BaseException as caught:
        error = from_os(caught) if isinstance(caught, OSError) else caught
        status = error.status if isinstance(error, MinirunError) else 125
        line = error.line() if isinstance(error, MinirunError) else repr(error)
        try:
            os.write(write_end, f"error\n{status}\n{line}".encode())
        except OSError:
            pass
        return 1


def step_aside() -> Callable[[], None]:
    """Fork. The child goes on; the caller's process waits in front, and ends with its status.

    Signals that reach the process in front go to the child. Returns what the child calls to go into
    the background: then the process in front ends with status 0.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(write_end)
        _stay_in_front(pid, read_end)
    os.close(read_end)

    def leave() -> None:
        os.setsid()
        process.become_named("minirun:watch")
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.close(null)
        os.write(write_end, b"left")
        os.close(write_end)

    return leave


def _stay_in_front(pid: int, read_end: int) -> NoReturn:
    interrupts.handle(signals.FORWARDED, lambda number, frame: os.kill(pid, number))
    if os.read(read_end, 4):
        say("read escape sequence: the container goes on in the background")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else SIGNALLED - code)


def _tell_started(container: Container, write_end: int) -> None:
    os.write(write_end, f"ok\n{container.id}\n".encode())
    os.close(write_end)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 2)
    os.close(null)
