"""Figure 1: who has which GPU, as the recording says it, and as nothing else does."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from minirun.core.errors import StateError
from minirun.faces import recordings
from minirun.faces.show.figures import figure_1
from minirun.faces.show.log import recording

SVG = "{http://www.w3.org/2000/svg}"
LOG = recordings.path("figure-1").read_text()


def events() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LOG.splitlines()]


def words(log: str) -> list[str]:
    tree = ElementTree.fromstring(figure_1.document(recording.parse(log.encode())))
    return [element.text or "" for element in tree.iter(f"{SVG}text")]


def test_the_picture_has_what_the_recording_says() -> None:
    found = words(LOG)
    assert found.count("/dev/nvidia0") == found.count("/dev/nvidia3") == 2
    assert found.count("/dev/nvidia1") == found.count("/dev/nvidia2") == 1
    assert found.count("/dev/nvidiactl") == found.count("c 195:255 rw") == 3
    assert {"shared: a, b", "dedicated: a", "dedicated: b", "shared: b, c"} <= {*found}
    assert "the host: its GPUs (SIMULATED)" in found


def changed(log: str, **change: object) -> str:
    """Return the log with other arguments in the events that have these names."""
    lines = [json.loads(line) for line in log.splitlines()]
    for line in lines:
        line["args"] |= change.get(line["name"].replace(" ", "_"), {})
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_another_recording_is_another_picture() -> None:
    assert "GPU 5" in words(changed(LOG, gpus_chosen={"of": 6}))
    assert "free" in words(changed(LOG, gpus_chosen={"of": 6}))
    moved = words(LOG.replace("195:3 rw", "195:3 r").replace("/dev/nvidia3", "/dev/nvidia7"))
    assert moved.count("/dev/nvidia7") == moved.count("c 195:3 r") == 2
    assert "/dev/nvidia3" not in moved
    (later,) = (e for e in events() if e["name"] == "gpu shared" and e["args"]["gpu"] == "3")
    here, there = later["id"], *later["args"]["with"]
    lines = LOG.splitlines(keepends=True)
    one = words("".join(line for line in lines if f'"id":"{here}"' in line))
    assert f"shared: {here}, {there}" in one, "its log says that another one has it"
    silent = "".join(line for line in lines if '"gpu shared"' not in line)
    assert not [word for word in words(silent) if word.startswith("shared")]
    unwritten = LOG.replace('"name":"mknodat"', '"name":"fchmodat"')
    assert not [word for word in words(unwritten) if word.startswith("/dev/")]


def test_rules_of_an_ebpf_program_are_those_of_the_snapshots() -> None:
    log = LOG.replace("/devices.allow", "/elsewhere")  # as with cgroup v2: no write for each rule
    assert words(log) == words(LOG)
    without = "".join(line for line in log.splitlines(True) if '"name":"snapshot"' not in line)
    found = words(without)
    assert found.count("c 195:0") == 2, "the node is there, and no word of a rule"
    assert "c 195:0 rw" not in found


def test_bound_nodes_of_a_real_driver() -> None:
    log = LOG.replace('"name":"mknodat"', '"name":"move_mount"').replace('"major":', '"from":')
    found = words(log.replace('"minor":', '"to":'))
    assert found.count("/dev/nvidia0") == found.count("c 195:0 rw") == 2


@pytest.mark.parametrize("name", ["plain", "failing-hook"])
def test_without_a_gpu_there_is_none(name: str) -> None:
    with pytest.raises(StateError, match="no container of this recording has a GPU"):
        figure_1.document(recording.read(recordings.path(name)))


def test_a_hostile_log_stays_in_its_box() -> None:
    evil = '</svg><script>alert(1)</script>"&\x1b[31m'
    log = changed(LOG, gpus_chosen={"gpus": [evil, 7, None], "of": -1}, mknodat={"major": evil})
    lines = [json.loads(line) | {"id": evil} for line in log.splitlines()]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    tree = ElementTree.fromstring(figure_1.document(recording.parse(text.encode())))
    assert not [e for e in tree.iter() if "script" in e.tag]
    assert "\x1b" not in "".join(tree.itertext())
    assert figure_1.document(recording.parse(changed(LOG, gpus_chosen={"of": 10**9}).encode()))
