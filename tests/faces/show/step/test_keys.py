"""A presenter's script, and what may stand in it."""

import os
from typing import cast

import pytest

from minirun.core.errors import UsageError
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces import recordings
from minirun.faces.inspect.snapshot import Snapshot
from minirun.faces.show.log import recording
from minirun.faces.show.log.event import event_of
from minirun.faces.show.log.pattern import Pattern
from minirun.faces.show.step import destinations, keys, lines
from minirun.faces.show.step.face import Stop
from minirun.faces.show.step.keys import Key


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
        ("until nosuchcall\n", "demo:1: no event is called 'nosuchcall'"),
        ("n\nuntil 9\n", "demo:2: no event is called '9'"),
        ("at 5:begin\nat 3:begin\n", "demo:2: 3:begin is over here, after 5:begin"),
        ("until 5\nn\nuntil 4:end\n", "demo:3: 4:end is over here, after 5:begin"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        keys.parse_script(text, "demo")
    assert wrong in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("mkndat", "mknodat"), ("mknod /dev/nvidia0", "mknodat"), ("pivotroot", "pivot_root"),
        ("run_hook", "RUN_HOOKS"), ("fork", "clone3"), ("gpus", "gpus chosen"), ("xyzzy*", ""),
    ],
)  # fmt: skip
def test_an_unknown_event_is_refused_at_once(asked: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        destinations.check(asked)
    assert caught.value.hint == (f"did you mean {meant}?" if meant else "minirun explain lists all")


def test_every_event_of_the_recordings_and_every_boundary_is_known() -> None:
    """And patterns, paths, names with blanks; another runtime's only where it is played."""
    for name in recordings.RECORDINGS:
        for found in recording.read(recordings.path(name)):
            edges = ("begin", "end", "gate")
            held = [e for e in found.events if e.kind not in edges and e.actor != "step"]
            for event in held:
                names = {each.name for each in held} if found.observed else set()
                destinations.check(event.name, names)
                assert Pattern(event.name).matches(event.name, event.args)
    for words in (*BOUNDARIES, "5", "mount*", "MKNODAT", "/dev/nvidia0", "mknodat /dev/x", "*"):
        destinations.check(words)
    with pytest.raises(UsageError):
        destinations.check("procHooks")


def test_a_key_for_a_stage_that_is_over_keeps_the_script_s_place() -> None:
    """The run refuses it, and the same line comes again; a later one is jumped to."""
    here = ["5:begin"]
    typed = iter(["3", "6"])
    script = keys.Script(
        keys.parse_script("at 3:begin\nsay three\nat 5:begin\npause 60\nsay five\n"
                          "at 6:begin\nsay six\n"),
        lambda seconds, note: next(typed), keyboard=True,
        passed=lambda at: BOUNDARIES.index(at) <= BOUNDARIES.index(here[0]),
    )  # fmt: skip
    assert script.next() == Key("at", "3:begin"), "the script's own line: the run refuses it"
    assert script.next() == Key("at", "5:begin"), "and nothing is said of a stage that is over"
    assert script.next() == Key("at", "3:begin"), "the presenter's key 3"
    assert script.next() == Key("at", "6:begin"), "the pause came again, with key 6"
    assert script.next() == Key("say", "six")


def test_a_caption_may_have_a_number_sign() -> None:
    assert keys.parse_script("say stage # 5  # too\n") == [Key("say", "stage # 5  # too")]


def test_a_script_ends_with_going_on_and_stops_where_the_run_ends() -> None:
    reading, writing = os.pipe()
    waiter = keys.waiter(-1, reading)
    script = keys.Script([Key("pause", "0.01"), Key("why")], waiter, keyboard=False, passed=bool)
    assert [script.next(), script.next(), script.next()] == [
        Key("why"), Key("continue"), Key("continue"),
    ]  # fmt: skip
    os.close(writing)
    with pytest.raises(keys.RunEnded):
        keys.Script([Key("pause", "60")], waiter, keyboard=False, passed=bool).next()
    os.close(reading)


def test_no_line_of_the_stepper_is_wider_than_a_terminal() -> None:
    """Or --step=plain breaks in the middle of a word."""
    said = keys.HELP
    for at in BOUNDARIES:
        gate = event_of({"kind": "gate", "name": at, "stage": int(at[0]), "t": 0, "pid": 1})
        said += lines.heading(Stop(at, gate.stage, gate, None, cast(Snapshot, {}), [], 1))
    assert max(map(len, said.splitlines())) < 80
