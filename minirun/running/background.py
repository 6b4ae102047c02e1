"""`run -d`: the supervisor is a process of its own, in its own session, and its parent returns as
soon as the container runs.
"""

from __future__ import annotations

import os

from minirun.common import interrupts
from minirun.core.container import Container
from minirun.core.errors import MinirunError, from_os
from minirun.core.kernel import process
from minirun.running import signals, supervise
from minirun.running.supervise import SupervisorOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def run(reserve: Callable[[], Container], options: SupervisorOptions) -> int:
    """Fork the supervisor; print the id when the container runs, or its error."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    signals.block()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os._exit(_background(reserve, options, write_end))
    # what would end this command goes on to the supervisor
    interrupts.handle(interrupts.ENDING, lambda number, frame: os.kill(pid, number))
    os.close(write_end)
    text = bytearray()
    while chunk := os.read(read_end, 4096):
        text += chunk
    kind, _, rest = text.decode(errors="replace").partition("\n")
    if kind != "ok":
        status, _, line = rest.partition("\n")
        raise MinirunError(line or "the supervisor died", status=int(status or 125))
    os.write(1, rest.encode())
    return 0


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


def _tell_started(container: Container, write_end: int) -> None:
    os.write(write_end, f"ok\n{container.id}\n".encode())
    os.close(write_end)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 2)
    os.close(null)
