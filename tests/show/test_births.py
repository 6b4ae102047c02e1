"""The parent writes of a birth when clone returns; by then the child may have acted."""

from minirun.show.event import Event, event_of
from minirun.show.recording import clones_before_children


def event(name: str, pid: int, ret: int = 0, kind: str = "syscall") -> Event:
    return event_of({"name": name, "pid": pid, "ret": ret, "kind": kind})


def names(events: list[Event]) -> list[str]:
    return [f"{e.name} {e.pid}" for e in clones_before_children(events)]


def test_a_birth_that_is_told_late_comes_first() -> None:
    events = [event("begin", 1), event("mount", 2), event("mkdir", 1), event("clone3", 1, 2)]
    assert names(events) == ["begin 1", "clone3 1", "mount 2", "mkdir 1"]


def test_everything_else_stays_where_it_is() -> None:
    events = [event("clone3", 1, 2), event("mount", 2), event("clone3", 1, 3), event("x", 1)]
    assert clones_before_children(events) == events
    failed = [event("mount", 2), event("clone3", 2, -1)]
    assert clones_before_children(failed) == failed
    same = [event("mount", 2), event("mount", 2), event("clone3", 1, 9)]
    assert clones_before_children(same) == same


def test_many_births_of_one_child() -> None:
    """A recording may say anything: what it says is told in a time that grows with its length."""
    events = [event("mount", 7)] + [event("clone3", 6, 7) for _ in range(100_000)]
    assert clones_before_children(events)[-1] == events[0]


def test_births_of_births() -> None:
    events = [event("mkdir", 3), event("clone3", 2, 3), event("clone3", 1, 2)]
    assert clones_before_children(events) == events[::-1]
