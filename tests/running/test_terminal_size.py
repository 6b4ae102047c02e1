"""With -it the command finds a terminal that is as large as the caller's."""

import os
import subprocess

from conftest import Program
from minirun.oci.terminal import relay


def shown_on_a_terminal(argv: list[str]) -> str:
    """Run a program on a terminal of 33 rows and 77 columns; return what is shown."""
    master, slave = os.openpty()
    relay.set_size(slave, 33, 77)
    with open(master, "rb", buffering=0) as screen, open(slave, "r+b", buffering=0) as terminal:
        subprocess.run(argv, stdin=terminal, stdout=terminal, check=True, timeout=30)
        return screen.read(4096).decode()


def test_the_size_is_there_before_the_command_asks(minirun: Program) -> None:
    """A program that asks once, such as stty or top, found a terminal of no size."""
    words = ("busybox", "stty", "size")
    for _ in range(6):
        argv = minirun.argv("run", "-q", "--rm", "-it", *words)
        assert shown_on_a_terminal(argv) == "33 77\r\n"
    minirun("run", "-d", "--name", "c", "busybox", "sleep", "60")
    for _ in range(6):
        argv = minirun.argv("exec", "-it", "c", *words[1:])
        assert shown_on_a_terminal(argv) == "33 77\r\n"
