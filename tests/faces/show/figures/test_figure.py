"""The still picture, and the fragment that notebooks show."""

import re
from xml.etree import ElementTree

import pytest

from minirun.faces import recordings
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log import recording
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.page import html

SVG = "{http://www.w3.org/2000/svg}"


def shipped(name: str) -> Recording:
    return recording.read(recordings.path(name))[0]


def words(name: str) -> list[str]:
    tree = ElementTree.fromstring(figure_3.svg(shipped(name)))
    return [element.text or "" for element in tree.iter(f"{SVG}text")]


def test_the_picture_names_stages_lanes_messages_and_times() -> None:
    found = words("gpus-0-1")
    assert {"runtime", "init", "hook", "cli"} <= set(found)
    assert "step" not in found, "who takes the snapshots has no part in the start"
    assert {"1", "2", "3", "4", "5", "6", "7"} <= set(found)
    assert {"clone3", "RUN_HOOKS", "HOOKS_DONE"} <= set(found)
    assert not {"READY", "YOUR_TURN", "STATE", "WAITING"} & set(found), "bookkeeping has no name"
    took = figure_3.took(shipped("gpus-0-1"), shipped("gpus-0-1").stages[4])
    assert f"put the GPUs in · {took}" in found
    assert any(re.fullmatch(r"[1-9]\d* ms", word) for word in found)


def test_a_failure_has_a_sign_and_words() -> None:
    found = words("failing-hook")
    assert "✕" in found
    said = [word.removesuffix("…") for word in found if word.startswith("run")]
    whole = "run the prestart hooks · failed after"  # cut, if the stage took little of the time
    assert any(len(cut) > 3 and (cut.startswith(whole) or whole.startswith(cut)) for cut in said)
    assert figure_3.label(shipped("failing-hook")).count("failed after") == 1


def test_what_lies_in_time_order_lies_from_left_to_right() -> None:
    tree = ElementTree.fromstring(figure_3.svg(shipped("gpus-0-1")))
    digits = {
        e.text: float(e.attrib["x"]) for e in tree.iter(f"{SVG}text") if e.text in set("1234567")
    }
    assert [number for number, _ in sorted(digits.items(), key=lambda item: item[1])] == list(
        "1234567"
    )
    assert all(0 <= x <= figure_3.WIDTH for x in digits.values())


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_the_fragment_is_small_still_and_says_it_in_words_too(name: str) -> None:
    found = shipped(name)
    fragment = html.fragment(found)
    tree = ElementTree.fromstring(fragment)  # well-formed, too
    assert len(fragment.encode()) < 60_000
    assert not {e.tag for e in tree.iter()} & {"script", "style", "link", "iframe", "img"}
    assert not re.search(r"\son\w+=|url\(|#[0-9a-f]{3,6}\b", fragment)  # no colour of its own
    items = ["".join(item.itertext()) for item in tree.iter("li")]
    for stage in found.stages:
        assert any(f"stage {stage.number}, {stage.actor}:" in item for item in items)
    for message in found.messages:
        assert any(message.name in item for item in items)
    assert ("SIMULATED" in fragment) == found.simulated


def test_hostile_names_do_not_leave_the_fragment() -> None:
    evil = '</svg><script>alert(1)</script>"&\x1b[31m'
    found = shipped("plain")
    events = [e._replace(name=evil, actor=evil, why=evil, id=evil) for e in found.events]
    tree = ElementTree.fromstring(html.fragment(Recording(evil, events)))
    assert not [e for e in tree.iter() if "script" in e.tag]
