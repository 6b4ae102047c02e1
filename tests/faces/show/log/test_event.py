"""The one reader of events.jsonl: what is an event, what waits, what is left out and counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Program
from minirun.faces import recordings
from minirun.faces.show.log import recording
from minirun.faces.show.log.event import Reader, Tail, event_of

LINE = {
    "v": 1, "t": 5, "id": "c", "stage": 5, "actor": "cli", "pid": 7, "kind": "syscall",
    "name": "mount", "args": {"path": "/é"}, "ret": -1, "errno": "EPERM", "dur": 3, "why": "w",
}  # fmt: skip


def data(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_a_whole_event_comes_back_as_it_was() -> None:
    (event,) = Reader().take(data({**LINE, "later": [1]}))
    assert (event.stage, event.name, event.args, event.ret) == (5, "mount", {"path": "/é"}, -1)
    assert event.failed
    assert event.more == {"later": [1]}
    assert event.fields() == {**LINE, "later": [1]}


def test_fields_that_are_not_there() -> None:
    (event,) = Reader().take(b'{"t":1}\n')
    assert (event.kind, event.name, event.args) == ("note", "", {})
    assert (event.ret, event.errno) == (None, None)
    assert not event.failed


@pytest.mark.parametrize(
    "line",
    [
        b"", b" ", b"{", b"[]", b"1", b"{}", b'{"kind":"note"}', b'{"t":"1"}', b'{"t":NaN}',
        b'{"t":1,"args":[]}', b'{"t":1,"ret":"x"}', b'{"t":1,"errno":1}', b'{"t":1,"pid":null}',
        b'{"t":9223372036854775808}', b"[" * 100_000, b'{"t":1}{"t":2}', b"\xff\x00",
    ],
)  # fmt: skip
def test_a_broken_line_is_left_out_and_counted(line: bytes) -> None:
    reader = Reader()
    assert [event.t for event in reader.take(data(LINE) + line + b"\n" + data(LINE))] == [5, 5]
    assert reader.unreadable == (1 if line.strip() else 0)


@given(st.lists(st.integers(0, 400)))
def test_pieces_of_any_size(cuts: list[int]) -> None:
    whole = data(LINE, {**LINE, "t": 6}) + b"{torn\n" + data({**LINE, "t": 7})
    reader, found, at = Reader(), [], 0
    for cut in [*sorted(cuts), len(whole)]:
        found += reader.take(whole[at:cut])
        at = max(at, cut)
    assert [event.t for event in found] == [5, 6, 7]
    assert reader.unreadable == 1


def test_the_last_line_of_a_log_that_was_cut() -> None:
    (found,) = recording.parse(data(LINE) + b'{"t":6,"id":"c","na')
    assert (len(found.events), found.unreadable) == (1, 0)
    (found,) = recording.parse(data(LINE) + data({**LINE, "t": 6}).rstrip())
    assert (len(found.events), found.unreadable) == (2, 0)


def test_a_tail_says_once_that_lines_are_broken(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(str(path))
    assert tail.events() == []
    path.write_bytes(data(LINE) + b"torn\n{")
    first, note = tail.events()
    assert (first.t, note.kind, note.t) == (5, "note", 5)
    assert "unreadable" in note.name
    with path.open("ab") as file:
        file.write(b"torn\n" + data(LINE))
    assert [event.name for event in tail.events()] == ["mount"]
    tail.close()


def test_a_field_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="stage of an event cannot be '5'"):
        event_of({"stage": "5"})


@pytest.mark.parametrize("name", sorted(recordings.RECORDINGS))
def test_the_recordings_are_read_without_loss(name: str) -> None:
    lines = Path(recordings.path(name)).read_bytes()
    events = Reader().take(lines)
    assert [event.fields() for event in events] == [json.loads(line) for line in lines.splitlines()]


def test_what_a_run_writes_is_read_without_loss(minirun: Program) -> None:
    assert minirun("run", "--rm", "busybox", "true").returncode == 0
    (log,) = minirun.root.glob(".history/*.jsonl")
    reader = Reader()
    assert [event.fields() for event in reader.take(log.read_bytes())] == minirun.events()
    assert (reader.unreadable, reader.rest) == (0, b"")
