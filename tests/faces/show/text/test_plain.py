"""Events as sentences."""

from typing import Any

import pytest

from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import event_of
from minirun.faces.show.text import sentences


def say(unicode: bool = True, **fields: Any) -> str:
    event = event_of({
        "t": 2_020_000, "stage": 2, "actor": "init", "kind": "syscall", "name": "mount",
        "args": {}, "ret": 0, "errno": None, "dur": 0, "why": "", **fields,
    })  # fmt: skip
    return sentences.sentence(event_row.row(event, 0), unicode)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"kind": "begin"},
            "Stage 2, init: asks, through a named FIFO, for the prestart hooks to be run; waits.",
        ),
        (
            {"kind": "end", "dur": 26_000},
            "At 2.02 milliseconds, stage 2 done, in 26 microseconds.",
        ),
        (
            {"kind": "end", "ret": -1, "args": {"error": "no licence"}, "dur": 4_100_000_000},
            "At 2.02 milliseconds, stage 2 failed: no licence, in 4.1 seconds.",
        ),
        (
            {"kind": "message", "name": "RUN_HOOKS", "args": {"to": "runtime"}, "why": "please"},
            "At 2.02 milliseconds, init says RUN_HOOKS to runtime: please.",
        ),
        (
            {"name": "sethostname", "args": {"name": "a b"}, "ret": -1, "errno": "EPERM"},
            "At 2.02 milliseconds, init calls sethostname a b, which fails with EPERM.",
        ),
        (
            {"name": "clone3", "args": {"flags": "CLONE_NEWNS"}, "ret": 42, "dur": 1_300_000},
            "At 2.02 milliseconds, init calls clone3 CLONE_NEWNS, which returns 42,"
            " after 1.3 milliseconds.",
        ),
        (
            {"kind": "exec", "name": "execve", "ret": None, "args": {"path": "/a", "argv": ["a"]}},
            "At 2.02 milliseconds, init calls execve /a a.",
        ),
        ({"kind": "note", "name": "no hook"}, "At 2.02 milliseconds, init notes no hook."),
        ({"kind": "gate", "name": "3:begin"}, "At 2.02 milliseconds, init waits at 3:begin."),
    ],
)
def test_sentences(fields: dict[str, Any], said: str) -> None:
    assert say(**fields) == said


def test_nothing_is_cut_and_nothing_obeyed() -> None:
    said = say(kind="note", name="x" * 300 + "\x1b[2J\ny", why="é")
    assert "x" * 300 + r"\x1b[2J\ny: é." in said
    assert say(False, kind="note", name="é").endswith(r"init notes \xe9.")
