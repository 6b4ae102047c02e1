"""What is inferred of minirun's own start is what its log says: the check of the rules."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program
from minirun.faces.show.log.event import Event
from minirun.faces.teach import strace
from minirun.faces.teach.observe import (
    inference,
    observed_messages,
    process_tree,
    roles,
    rules,
    trace,
)
from minirun.faces.teach.oracle import compare
from minirun.faces.teach.oracle.findings import Report
from truth.conftest import GPUS, USER, pairs, plain_config, save

HOOK = {"path": "/bin/sh", "args": ["sh", "-c", "cat >/dev/null; unshare -m true"]}
KINDS = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
Make = Callable[[Program, Path], list[str]]


def _run(*flags: str) -> Make:
    return lambda program, layer: ["run", "-q", *flags, "busybox", "true"]


def _bundle(program: Program, layer: Path) -> list[str]:
    config = plain_config(program, layer)
    config["process"]["args"] = ["true"]
    inside = {"path": "/bin/true", "env": ["A=1"]}
    config["hooks"] = {kind: [HOOK, HOOK] for kind in KINDS} | {"startContainer": [inside]}
    return ["run", "--bundle", str(save(layer.parent, config)), f"own-{os.getpid()}"]


def _failing_hook(program: Program, layer: Path) -> list[str]:
    config = plain_config(program, layer)
    config["hooks"] = {"prestart": [{"path": "/bin/sh", "args": ["sh", "-c", "exit 3"]}]}
    return ["run", "--bundle", str(save(layer.parent, config)), f"own-{os.getpid()}"]


MADE: dict[str, Make] = {
    "plain": _run("--rm"),
    "GPUs": _run("--rm", *GPUS),
    "user namespace": _run("--rm", *USER),
    "user namespace, GPUs": _run("--rm", *USER, *GPUS),
    "terminal": _run("--rm", "-t"),
    "detached": _run("-d"),
    "limits": _run("--rm", "--memory", "64m", "--cpus", "0.5", "--pids-limit", "99"),
    "the host's network": _run("--rm", "--network", "host", "--user", "1000", "--cap-add", "ALL"),
    "hooks of each kind": _bundle,
    "failing hook": _failing_hook,
    "missing command": lambda program, layer: ["run", "-q", "--rm", "busybox", "nosuch"],
}
FAILS = {"failing hook", "missing command"}


@pytest.mark.parametrize("run", range(3))
@pytest.mark.parametrize("kind", MADE)
def test_it_is_what_the_log_says(kind: str, run: int, reachable: Program, layer: Path) -> None:
    argv = reachable.argv(*MADE[kind](reachable, layer))
    null = subprocess.DEVNULL
    watched, zero = trace.watch(argv, stdin=null, stdout=null, stderr=null)
    calls = strace.parse(watched.text)
    report = compare.judge(calls, watched.let_go)
    assert (report.untrue, report.missing) == ([], [])
    assert report.events > 50
    told = inference.infer(watched.text, zero)
    assert len({event.id for event in told}) == 1
    _same_actors_and_stages(calls, report)
    _nothing_is_missing(told, report, zero)
    said, logged = _messages(told), _messages(report.written)
    assert not said - logged
    assert not logged - said - _unsent(report.written, calls)
    _same_stages(told, report.written, kind)


def _same_actors_and_stages(calls: list[strace.Call], report: Report) -> None:
    """Each call that the log tells has the log's actor and stage."""
    processes = process_tree.read(calls)
    (found,) = roles.read(processes, observed_messages.read(processes))
    wrong: Counter[tuple[str, ...]] = Counter()
    for event, call in pairs(report):
        actor = roles.role(found, call.pid, call.began)
        stage = rules.stage_of(found, call.pid, call.began)
        if (actor, stage) != (event.actor, event.stage):
            wrong[event.name, event.actor, str(event.stage), actor, str(stage)] += 1
    assert not wrong


def _nothing_is_missing(told: list[Event], report: Report, zero: float) -> None:
    """Each call that the log tells is told, by the same process, with the same result."""
    seen = Counter((event.pid, event.t, event.ret, event.errno) for event in told)
    for event, call in pairs(report):
        ret = call.child or call.ret
        key = (call.pid, round((call.time - zero) * 1e9), ret, call.errno or None)
        assert seen[key], event


def _unsent(events: list[Event], calls: list[strace.Call]) -> Counter[tuple[str, object, str]]:
    """What a process that was killed may not have said: it logs a message, then sends it."""
    last = {call.pid: call for call in calls}
    cut = {pid for pid, call in last.items() if call.name == "write"}
    return _messages([*{event.pid: event for event in events if event.pid in cut}.values()])


def _messages(events: list[Event]) -> Counter[tuple[str, object, str]]:
    """Return each message with its sender and receiver. That `start` opens the FIFO at the end is
    none in the log."""
    said = [event for event in events if event.kind == "message"]
    named = [(event.actor, event.args["to"], event.name) for event in said if event.name.isupper()]
    words = {"READY", "YOUR_TURN", "RUN_HOOKS", "HOOKS_DONE", "WAITING", "ERROR"}
    return Counter(one for one in named if one[2] in words)


def _same_stages(told: list[Event], logged: list[Event], kind: str) -> None:
    """The same stages begin; and, but where one fails, end."""
    kinds = ("begin",) if kind in FAILS else ("begin", "end")
    for one in kinds:
        found, known = (
            {(event.stage, event.actor) for event in events if event.kind == one}
            for events in (told, logged)
        )
        assert found == known


def test_events_have_the_form_of_the_log(reachable: Program) -> None:
    """They have each field that the log of the same start has, and only "observed" besides."""
    null = subprocess.DEVNULL
    argv = reachable.argv("run", "-q", "--rm", "busybox", "true")
    watched, zero = trace.watch(argv, stdin=null, stdout=null, stderr=null)
    lines = [
        json.loads(line)
        for line in inference.lines(inference.infer(watched.text, zero)).splitlines()
    ]
    assert all(line["observed"] is True for line in lines)
    own = {frozenset(event) for event in reachable.events()}
    assert len(own) == 1, "every event of the log has the same fields"
    assert {frozenset(line.keys() - {"observed"}) for line in lines} == own
