"""A signal ends the program with 128 + n, at whatever moment it comes, and without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from minirun.common import interrupts

PROGRAM = """
import os, sys
from minirun import __main__, cli
from minirun.common import interrupts
ready = interrupts.end_by_signals

def sent():
    os.kill(os.getpid(), {number})

class Meddling:
    def __set_name__(self, owner, name):
        sent()

def at_once():
    ready()
    sent()

def in_the_making_of_a_class(*_):
    class Importing:
        attribute = Meddling()

def from_a_cause(*_):
    try:
        sent()
    except KeyboardInterrupt as error:
        raise ValueError("as a library may wrap it") from error

if {moment!r} == "at_once":
    interrupts.end_by_signals = at_once
else:
    cli.entry_of = {moment}
sys.argv[1:] = ["version"] if {moment!r} == "at_once" else ["ps"]
__main__.start()
"""


@pytest.mark.parametrize("moment", ["at_once", "in_the_making_of_a_class", "from_a_cause"])
@pytest.mark.parametrize("number", interrupts.ENDING)
def test_at_a_moment_that_hides_it(moment: str, number: int) -> None:
    """Until Python 3.12 the making of a class makes a RuntimeError of what __set_name__ raises."""
    program = PROGRAM.format(moment=moment, number=number)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (128 + number, "")


def test_an_error_is_no_signal() -> None:
    assert interrupts.number_of(ValueError("x")) == 0
    assert interrupts.number_of(KeyboardInterrupt(signal.SIGTERM)) == signal.SIGTERM
    assert interrupts.number_of(KeyboardInterrupt()) == signal.SIGINT
