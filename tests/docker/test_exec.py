"""`minirun exec` in a container of `run IMAGE`: docker's."""

import pytest

from conftest import Program


def test_a_terminal_has_a_name(minirun: Program) -> None:
    """Without TERM no full-screen program starts: docker gives xterm where there is none."""
    minirun("run", "-d", "--name", "a", "busybox", "sleep", "60")
    minirun("run", "-d", "--name", "b", "-e", "TERM=vt100", "busybox", "sleep", "60")
    named = ("sh", "-c", "echo $TERM")
    assert minirun("exec", "-t", "a", *named).stdout == "xterm\n"
    assert minirun("exec", "a", *named).stdout == "\n"
    assert minirun("exec", "-t", "-e", "TERM=dumb", "a", *named).stdout == "dumb\n"
    assert minirun("exec", "-t", "b", *named).stdout == "vt100\n"


@pytest.mark.parametrize("seconds", ["0", "0.05", "0.1", "0.15", "0.2"])
def test_a_container_that_ends_meanwhile(minirun: Program, seconds: str) -> None:
    """Whatever exec was about to do, it says that the container runs no more."""
    command = ("sh", "-c", f"sleep {seconds}")
    minirun("run", "-d", "--name", "c", "busybox", *command)
    started = [minirun.start("exec", "c", "sleep", "5") for _ in range(6)]
    for each in started:
        _, text = each.communicate(timeout=30)
        ended = text == "minirun: container c is not running\n" and each.returncode == 1
        assert ended or (text, each.returncode) == ("", 137)
