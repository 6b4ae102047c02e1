"""Work in a child that answers."""

import errno
import os

from minirun.common import child
from minirun.core.kernel import namespaces


def test_what_it_returns() -> None:
    assert child.answer_of(lambda: [os.getpid(), "²"])[0] != os.getpid()
    assert child.answer_of(lambda: [1, "²"]) == [1, "²"]


def test_what_fails_has_no_answer() -> None:
    assert child.answer_of(lambda: 1 // 0) is None
    assert child.answer_of(lambda: os._exit(0)) is None


def test_its_errno() -> None:
    assert child.errno_of(lambda: None, "for a test") == 0
    assert child.errno_of(lambda: os.stat("/nosuch"), "for a test") == errno.ENOENT
    assert child.errno_of(lambda: 1 // 0, "for a test") == 1
    assert child.errno_of(lambda: os.kill(os.getpid(), 9), "for a test") != 0


def test_what_it_enters_is_not_entered_here() -> None:
    own = os.readlink("/proc/self/ns/uts")

    def enter() -> str:
        namespaces.unshare(namespaces.CLONE_NEWUTS)
        return os.readlink("/proc/self/ns/uts")

    assert child.answer_of(enter) != own
    assert os.readlink("/proc/self/ns/uts") == own
