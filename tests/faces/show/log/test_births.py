"""The parent writes of a birth when clone returns; by then the child may have acted."""

import pytest

from minirun.faces.show.log.event import Event, event_of
from minirun.faces.show.log.order import Births, Clock, clones_before_children, is_birth


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


def test_init_s_birth_is_no_other_clone() -> None:
    """A helper in a user namespace of its own, init, a hook: told by init's pid, or by flags."""
    flags = ("CLONE_NEWUSER", "CLONE_NEWNS|CLONE_NEWPID", "CLONE_PIDFD")
    clones = [
        BIRTH._replace(stage=stage, ret=ret, args={"flags": each})
        for stage, ret, each in zip((1, 1, 3), (5, 6, 7), flags, strict=True)
    ]
    assert [is_birth(each, 6) for each in clones] == [False, True, False]
    assert [is_birth(each, 0) for each in clones] == [False, True, False]


def acts(init: int) -> list[Event]:
    return [event_of({"name": "prctl", "pid": init, "actor": "init", "kind": "syscall"})]


BIRTH = event_of({"name": "clone3", "pid": 1, "ret": 2, "kind": "syscall", "stage": 1})
END = event_of({"name": "x", "pid": 1, "kind": "end", "stage": 1})
GATE = event_of({"name": "syscall", "pid": 1, "kind": "gate", "stage": 1})


def test_while_the_log_grows_init_waits_for_its_birth() -> None:
    births = Births()
    assert births.take(acts(2)) == []
    assert births.take([BIRTH]) == [BIRTH, *acts(2)]
    assert births.init == 2
    assert births.take(acts(2)) == acts(2)


@pytest.mark.parametrize("way", ["end", "last", "gate"])
def test_no_view_waits_for_ever(way: str) -> None:
    """For a brief log, a run that failed, and a process that waits for the view itself."""
    births = Births()
    more = {"end": [END], "last": [], "gate": [GATE]}[way]
    assert births.take([BIRTH]) == []
    assert births.take(more, last=way == "last") == [BIRTH, *more]


def test_time_never_runs_backwards() -> None:
    clock = Clock()
    born = BIRTH._replace(t=50, dur=20)
    told = [born, END._replace(t=40), END._replace(t=39), born._replace(t=90, errno="EAGAIN")]
    assert list(map(clock.time, told)) == [30, 40, 40, 90]
