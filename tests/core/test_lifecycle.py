"""What the runtime is told of an init that fails, and what a user of a run that fails early."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Program
from minirun.core import handshake, lifecycle
from minirun.core.errors import MinirunError, UsageError, os_error
from minirun.core.handshake import Ends, Message
from minirun.core.stages import s1_clone


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UsageError("that one", "do this", 126), ("that one", "do this", 126)),
        (os_error(errno.ENOTDIR, "/x"), ("/x: Not a directory", "", 125)),
        (ValueError("unforeseen"), ("init: ValueError: unforeseen", "", 125)),
    ],
)
def test_whatever_ends_init_the_runtime_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: tuple[str, str, int]
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(s1_clone, "init", fails)
    handshake.make_fifos(str(tmp_path))
    ends = Ends(str(tmp_path))
    pid = os.fork()
    if pid == 0:
        container: Any = SimpleNamespace(directory=str(tmp_path))
        lifecycle.run_init(container, [], ends.init())  # type: ignore[arg-type]
    channel = ends.runtime()
    with pytest.raises(MinirunError) as caught:
        channel.expect(Message.READY)
    found = caught.value
    assert (str(found), found.hint, found.status) == told
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    channel.close()


def test_a_fault_before_there_is_an_init_is_one_line(minirun: Program) -> None:
    """A limit that the kernel refuses: the cgroup is made before the clone."""
    done = minirun("run", "--cpuset-cpus", "4000", "busybox", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1), done.stderr
    assert "cpuset" in done.stderr
