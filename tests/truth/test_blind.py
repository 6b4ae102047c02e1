"""The oracle is not blind: a call or an event that is taken away, or bent, is found every time."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, skip
from layers import copy_layer, layer_of
from minirun.faces.show.log.event import Event, event_of
from minirun.faces.teach import strace
from minirun.faces.teach.oracle import calls as table
from minirun.faces.teach.oracle import compare
from minirun.faces.teach.oracle.compare import LISTED
from minirun.faces.teach.oracle.findings import Report
from minirun.faces.teach.strace import Call
from truth.conftest import GPUS, USER, Seen, full_bundle, look, pairs, with_command


@pytest.fixture(scope="module", params=["GPUs", "cgroup v2", "user namespace", "bundle"])
def seen(request: pytest.FixtureRequest, command: str) -> Iterator[Seen]:
    """A run under strace, in which the log and strace agree. No test changes what it holds."""
    with tempfile.TemporaryDirectory(prefix="minirun-test.") as folder:
        place = Path(folder)
        place.chmod(0o711)  # the root of a user namespace goes through it
        program = Program(command, place / "containers")
        words = ["run", *GPUS, "busybox", "true"]
        if request.param == "bundle":
            layer = copy_layer(layer_of("busybox"), place / "rootfs")
            bundle = with_command(full_bundle(program, layer), "true")
            words = ["run", "--bundle", str(bundle), f"blind-{os.getpid()}"]
        if request.param == "user namespace":
            words = ["run", *USER, "busybox", "true"]
        if request.param == "cgroup v2":
            if "cgroup2" not in Path("/proc/mounts").read_text():
                skip("no cgroup2 file system is mounted on this machine")
            program.flags = ("--cgroup", "v2")
        yield look(program, place, *words)
        program.clean()


def firsts(seen: Seen) -> list[tuple[Event, Call]]:
    """The first event of each name, and its call."""
    found = {(event.name, event.kind): (event, call) for event, call in pairs(seen.report)}
    return list(found.values())


def compared(
    calls: list[Call], events: list[Event], unseen: frozenset[int] = frozenset()
) -> Report:
    """Compare what strace saw with the log file's events."""
    report = compare.judge(calls)
    compare.check_file(report, events, unseen)
    return report


def without(calls: list[Call], call: Call) -> list[Call]:
    at = next(at for at, other in enumerate(calls) if other is call)
    return [*calls[:at], *calls[at + 1 :]]


def unwritten(calls: list[Call], event: Event) -> list[Call]:
    """What strace would have seen, had this event never been written."""
    return [c for c in calls if c.name != "write" or told_by(c) != event]


def told_by(call: Call) -> object:
    try:
        return event_of(json.loads(compare.log_line(call) or ""))
    except ValueError:
        return None


@pytest.fixture(scope="module")
def calls(seen: Seen) -> list[Call]:
    """All calls of it: the very records that the report's pairs hold."""
    parsed = strace.parse(seen.watched.text)
    same = {call: call for _, call in pairs(seen.report)}
    return [same.get(call, call) for call in parsed]


def test_what_agrees(seen: Seen, calls: list[Call]) -> None:
    again = compared(calls, seen.report.written)
    assert (again.untrue, again.missing) == ([], [])
    assert again.events == seen.report.events == len(pairs(seen.report)) > 100
    names = {call.name for _, call in pairs(seen.report)}
    common = {"clone3", "mount", "prctl", "symlinkat", "execve", "capset", "setns", "pivot_root"}
    assert common - {"setns"} <= names


def test_a_call_less_is_an_untrue_event(seen: Seen, calls: list[Call]) -> None:
    for event, call in firsts(seen):
        assert compare.judge(without(calls, call)).untrue, event


def test_a_call_more_is_missing(seen: Seen, calls: list[Call]) -> None:
    for event, call in firsts(seen):
        if call.name in LISTED and "exec" not in call.name:
            at = calls.index(call)
            more = [*calls[:at], call._replace(child=0), *calls[at:]]
            assert compare.judge(more).missing, event


def test_an_event_less_is_a_missing_call(seen: Seen, calls: list[Call]) -> None:
    for event, call in firsts(seen):
        report = compare.judge(unwritten(calls, event))
        if call.name in LISTED:
            assert report.missing, event
        else:
            assert not report.untrue, event


def test_another_result_is_untrue(seen: Seen, calls: list[Call]) -> None:
    for event, call in firsts(seen):
        if event.kind == "syscall":  # the line of an execve is written before it has a result
            at = calls.index(call)
            failed = [*calls[:at], call._replace(ret=-1, errno="EPERM"), *calls[at + 1 :]]
            assert compare.judge(failed).untrue, event


PLAIN = (
    "mount", "umount2", "mknodat", "mkfifo", "symlinkat", "open_tree", "fsconfig",
    "mkdir", "rmdir", "setns", "setgid", "sethostname",
)  # fmt: skip
"""Calls of which every argument is in the log."""


def test_another_argument_is_untrue(seen: Seen) -> None:
    plain = [(event, call) for event, call in pairs(seen.report) if event.name in PLAIN]
    differing = 0
    for event, call in plain:
        for other, its in plain:
            if other.name == event.name and its.args != call.args:
                assert table.differences(event, call._replace(args=its.args)), (event, its)
                differing += 1
    assert differing > 100


def test_another_program_is_untrue(seen: Seen) -> None:
    event, call = next((e, c) for e, c in pairs(seen.report) if c.name == "execve")
    assert table.differences(event, call._replace(args=('"/bin/evil"', *call.args[1:])))
    assert table.differences(event, call._replace(args=(call.args[0], '["evil"]')))


def test_a_file_that_lacks_a_line(seen: Seen, calls: list[Call]) -> None:
    written = seen.report.written
    for events in (written[:-1], written[1:], [written[0]._replace(why="x"), *written[1:]]):
        assert "the file does not hold" in compared(calls, events).untrue[0]
    stranger = written[0]._replace(pid=1)
    assert compared(calls, [*written, stranger]).untrue
    assert not compared(calls, [*written, stranger], unseen=frozenset((1,))).untrue


def test_a_line_of_another_process(seen: Seen, calls: list[Call]) -> None:
    at, line = next((at, c) for at, c in enumerate(calls) if told_by(c))
    bent = line._replace(args=(line.args[0], line.args[1].replace('\\"pid\\":', '\\"pid\\":1')))
    assert compare.judge([*calls[:at], bent, *calls[at + 1 :]]).untrue


def test_what_strace_let_go_of_proves_nothing(seen: Seen, calls: list[Call]) -> None:
    """Its last call without a line is no gap; one before the last line is."""
    event, call = next(
        (event, call)
        for event, call in pairs(seen.report)
        if (event.actor, event.name) == ("init", "pivot_root")
    )
    cut = calls[: calls.index(call) + 1]
    init = call.pid
    assert [f.call for f in compare.judge(cut).findings if f.missing and f.pid == init] == [call]
    assert not [
        f for f in compare.judge(cut, let_go={init}).findings if f.problem and f.pid == init
    ]
    gap = unwritten(calls, event)
    assert compare.judge(gap, let_go={init}).missing


def test_a_line_that_was_cut_off_by_a_kill(seen: Seen, calls: list[Call]) -> None:
    """Killed in a write: strace cannot tell whether the line got into the file."""
    written = seen.report.written
    at = max(at for at, call in enumerate(calls) if told_by(call))
    killed = [*calls[:at], calls[at]._replace(ret=None), *calls[at + 1 :]]
    last = event_of(json.loads(compare.log_line(calls[at]) or ""))
    before = [event for event in written if event != last]
    assert len(before) == len(written) - 1
    assert not compared(killed, written).untrue
    assert not compared(killed, before).untrue
    others = [event for event in before if event.pid == last.pid]
    fewer = [event for event in before if event is not others[-1]]
    assert compared(killed, fewer).untrue
    assert compared(calls, before).untrue
