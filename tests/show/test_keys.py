"""A presenter's script, and what may stand in it."""

import os
from typing import cast

import pytest

from minirun.core.errors import UsageError
from minirun.core.settings import BOUNDARIES
from minirun.inspect.snapshot import Snapshot
from minirun.show import keys, lines
from minirun.show.event import event_of
from minirun.show.face import Stop
from minirun.show.keys import Key


def test_names_letters_arguments_and_comments() -> None:
    text = "# a demo\nnext\nn   # the same\nshell ls -l /dev\npause 0.5\n\n?\nq\n"
    assert keys.parse_script(text) == [
        Key("next"), Key("next"), Key("shell", "ls -l /dev"), Key("pause", "0.5"), Key("why"),
        Key("quit"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("next\nnxt\n", "demo:2: unknown key 'nxt'"),
        ("pause\n", "demo:1: pause cannot have ''"),
        ("pause long\n", "demo:1: pause cannot have 'long'"),
        ("pause -1\n", "demo:1: pause cannot have '-1'"),
        ("pause nan\n", "demo:1: pause cannot have 'nan'"),
        ("n\nsay\n", "demo:2: say cannot have ''"),
        ("wait 5\n", "demo:1: wait cannot have '5'"),
        ("until\n", "demo:1: until cannot have ''"),
        ("at 8:begin\n", "demo:1: at cannot have '8:begin'"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        keys.parse_script(text, "demo")
    assert wrong in str(caught.value)


def test_a_caption_may_have_a_number_sign() -> None:
    assert keys.parse_script("say stage # 5  # too\n") == [Key("say", "stage # 5  # too")]


def test_a_script_ends_with_going_on_and_stops_where_the_run_ends() -> None:
    reading, writing = os.pipe()
    waiter = keys.waiter(-1, reading)
    script = keys.Script([Key("pause", "0.01"), Key("why")], waiter, keyboard=False)
    assert [script.next(), script.next(), script.next()] == [
        Key("why"), Key("continue"), Key("continue"),
    ]  # fmt: skip
    os.close(writing)
    with pytest.raises(keys.RunEnded):
        keys.Script([Key("pause", "60")], waiter, keyboard=False).next()
    os.close(reading)


def test_no_line_of_the_stepper_is_wider_than_a_terminal() -> None:
    """Or --step=plain breaks in the middle of a word."""
    said = keys.HELP
    for at in BOUNDARIES:
        gate = event_of({"kind": "gate", "name": at, "stage": int(at[0]), "t": 0, "pid": 1})
        said += lines.heading(Stop(at, gate.stage, gate, None, cast(Snapshot, {}), [], 1))
    assert max(map(len, said.splitlines())) < 80
