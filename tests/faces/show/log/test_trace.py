"""Recordings as a trace for Perfetto."""

import json
from collections import defaultdict
from typing import Any

import pytest

from minirun.faces import recordings
from minirun.faces.show.log import recording, trace

Entry = dict[str, Any]


def entries(name: str) -> list[Entry]:
    document = trace.document(recording.read(recordings.path(name)))
    return json.loads(json.dumps(document))["traceEvents"]  # it is JSON, whatever it holds


def only(found: list[Entry], **wanted: object) -> list[Entry]:
    return [e for e in found if all(e.get(key) == value for key, value in wanted.items())]


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_slices_nest(name: str) -> None:
    """On one thread slices lie beside or within each other: else a viewer drops them."""
    found = entries(name)
    assert all(e["ts"] >= 0 for e in found if e["ph"] != "M")
    threads: dict[tuple[int, int], list[Entry]] = defaultdict(list)
    for entry in only(found, ph="X"):
        threads[entry["pid"], entry["tid"]].append(entry)
    for slices in threads.values():
        open_until: list[float] = []
        for entry in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= entry["ts"] + 0.001:
                open_until.pop()
            end = entry["ts"] + entry["dur"]
            assert not open_until or end <= open_until[-1] + 0.001, entry
            open_until.append(end)


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_arrows_lead_from_one_thread_to_what_another_does_next(name: str) -> None:
    found = entries(name)
    starts = {e["id"]: e for e in only(found, ph="s")}
    ends = {e["id"]: e for e in only(found, ph="f")}
    assert starts
    assert starts.keys() == ends.keys()
    for key, start in starts.items():
        assert start["pid"] == ends[key]["pid"]
        assert start["tid"] != ends[key]["tid"]
        assert start["ts"] == ends[key]["ts"]
        thread = [e for e in only(found, ph="X", pid=start["pid"]) if e["tid"] == ends[key]["tid"]]
        assert any(e["ts"] > start["ts"] for e in thread), "a slice that the arrow ends at"


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_init_is_born_once_in_each_container(name: str) -> None:
    found = entries(name)
    containers = {e["pid"] for e in found}
    births = only(found, cat="birth")
    assert sorted((e["pid"], e["ph"]) for e in births) == [
        (n, way) for n in containers for way in "fs"
    ]
    lanes = {e["tid"]: e["args"]["name"] for e in only(found, ph="M", name="thread_name", pid=1)}
    ends = [lanes[e["tid"]].split()[0] for e in births if e["pid"] == 1]
    assert ends in (["runtime", "init"], ["nsexec", "init"])


def test_a_container_is_a_process_and_an_actor_a_thread() -> None:
    found = entries("figure-1")
    names = [e["args"]["name"] for e in only(found, ph="M", name="process_name")]
    assert names == [f"container {name} (GPUs SIMULATED)" for name in "abc"]
    threads = [e["args"]["name"].split()[0] for e in only(found, ph="M", name="thread_name", pid=1)]
    assert {"runtime", "init", "hook", "cli"} <= set(threads)
    stages = only(found, cat="stage", pid=2)
    assert [e["name"][0] for e in stages] == list("1234567")
    assert {e["ph"] for e in stages} == {"X"}
    starts = [min(e["ts"] for e in found if e["ph"] == "X" and e["pid"] == n) for n in (1, 2, 3)]
    ends = [only(found, cat="stage", pid=n)[-1]["ts"] for n in (1, 2, 3)]
    assert max(starts) < min(ends), "they came to be at the same time"


def test_attributes() -> None:
    found = entries("gpus-0-1")
    (birth,) = [e for e in only(found, name="clone3", ph="X") if e["args"]["minirun.stage"] == 1]
    assert birth["args"]["container.id"] == "gpus-0-1"
    assert birth["args"]["minirun.why"]
    (pivot,) = [e for e in only(found, name="pivot_root") if e["args"]["minirun.stage"] == 7]
    assert pivot["args"]["process.pid"] == birth["args"]["minirun.return"]
    assert pivot["args"]["process.vpid"] == 1
    assert pivot["dur"] > 0
    command = only(found, name="execve", ph="i")[-1]
    assert command["args"]["process.command_args"][0] == "sh"
    (failed,) = [e for e in only(entries("failing-hook"), cat="stage") if "FAILED" in e["name"]]
    assert "no licence" in failed["args"]["error.message"]


def test_a_stage_that_never_ended_is_open() -> None:
    lines = recordings.path("plain").read_text().splitlines()
    cut = next(n for n, line in enumerate(lines) if '"RUN_HOOKS"' in line)
    (found,) = recording.parse("\n".join(lines[:cut]).encode())
    stages = only(trace.document([found])["traceEvents"], cat="stage")
    assert [(e["name"][0], e["ph"]) for e in stages] == [("1", "X"), ("2", "B")]
