"""Timelines out of recordings: the shipped ones, and files of one's own; without any right."""

import shutil
from pathlib import Path

import pytest

from conftest import Program
from minirun.core.errors import StateError, UsageError
from minirun.faces.api import Timeline, replay, run
from minirun.faces.recordings import RECORDINGS
from minirun.faces.show.log import event_row


def one(name: str) -> Timeline:
    timeline = replay(name)
    assert isinstance(timeline, Timeline)
    return timeline


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_shipped_recording_shows_itself(name: str) -> None:
    found = replay(name)
    for timeline in found if isinstance(found, list) else [found]:
        title = event_row.stages(observed=timeline.recording.observed)[1]
        assert f"1 runtime  {title}" in str(timeline)
        assert timeline._repr_html_().lstrip().startswith("<")


def test_a_run_with_gpus() -> None:
    timeline = one("gpus-0-1")
    assert timeline.simulated
    assert "SIMULATED" in str(timeline)
    assert [stage.number for stage in timeline.stages] == [1, 2, 3, 4, 5, 6, 7]
    assert {"RUN_HOOKS", "HOOKS_DONE"} <= {message.name for message in timeline.messages}
    (init,), (hook,) = (timeline.filter(stage=stage, name="clone3") for stage in (1, 3))
    assert (timeline.pids["hook"], timeline.pids["init"]) == (hook.ret, init.ret)
    assert timeline.devices.numbers["/dev/nvidia0"] == (195, 0)
    assert timeline.devices.simulated
    assert "mnt" in timeline.namespaces.own(timeline.host)


def test_a_file_with_three_containers_gives_three_timelines() -> None:
    found = replay("figure-1")
    assert isinstance(found, list)
    assert len(found) == 3
    assert len({timeline.id for timeline in found}) == 3


def test_filter_and_between_cut_and_show_all_that_is_left() -> None:
    timeline = one("gpus-0-1")
    nodes = timeline.filter(stage=5, actor="cli", name="mknodat", kind="syscall")
    assert len(nodes) == 5
    assert {event.args["path"] for event in nodes} == timeline.devices.numbers.keys()
    assert str(nodes).count("mknodat /dev/nvidia") == 5
    stage = timeline.between(2, 2)
    assert (stage[0].kind, stage[-1].kind) == ("begin", "end")
    assert {event.stage for event in stage if event.actor != "step"} == {2}
    whole = timeline.between("1:begin", 7)
    assert [event for event in timeline if event in whole.recording.events] == list(whole)
    assert timeline[3:5].filter(stage=9)._repr_html_()


@pytest.mark.parametrize("boundary", ["8:begin", "5:middle", 0, "x"])
def test_what_is_no_boundary_is_named(boundary: str) -> None:
    with pytest.raises(ValueError, match="is no boundary"):
        one("plain").between(boundary, 7)


def test_a_run_that_did_not_come_so_far_says_so() -> None:
    with pytest.raises(ValueError, match="did not come to 7:end"):
        one("failing-hook").between(1, 7)


def test_own_files_and_mistakes(tmp_path: Path, minirun: Program) -> None:
    with run("busybox", "true", stream=False, name="mine") as container:
        copy = shutil.copy(minirun.directory("mine") / "events.jsonl", tmp_path / "mine.jsonl")
        timeline = replay(copy)
        assert list(timeline) == list(container.timeline)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(UsageError, match="holds no events"):
        replay(empty)
    with pytest.raises(UsageError, match="no recording 'nosuch'"):
        replay("nosuch")
    with pytest.raises(UsageError, match=r"no recording '\.\./recordings/plain'"):
        replay("../recordings/plain")


def test_a_container_that_never_was(minirun: Program) -> None:
    from minirun.faces.api import Container

    container = Container("never")
    assert (container.status, container.pid, container.exit_status) == ("removed", 0, None)
    with pytest.raises(StateError, match="nothing is recorded"):
        _ = container.timeline
    with run("busybox", "true", stream=False, name="neverland") as other:
        with pytest.raises(StateError, match="nothing is recorded"):
            _ = container.timeline
        assert other.timeline.name == "neverland"
