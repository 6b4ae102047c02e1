"""Stage 7: init waits at exec.fifo for a `start` that writes, and for no other."""

import os
import select
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from minirun.core import handshake
from minirun.core.keeping import places
from minirun.core.stages import s7_exec


def test_a_start_that_dies_before_it_writes_starts_nothing(tmp_path: Path) -> None:
    handshake.make_fifos(str(tmp_path))
    fifo = tmp_path / places.EXEC
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    pid = os.fork()
    if pid == 0:
        container: Any = SimpleNamespace(extras={})
        s7_exec.wait_for_start(container, fd)
        os._exit(0)
    pidfd = os.pidfd_open(pid)
    os.close(os.open(fifo, os.O_WRONLY))  # POLLHUP
    assert not select.select([pidfd], [], [], 0.3)[0]
    handshake.start(str(tmp_path))
    assert select.select([pidfd], [], [], 10)[0]
    assert os.waitpid(pid, 0)[1] == 0
    os.close(pidfd)
    os.close(fd)
