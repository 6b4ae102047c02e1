"""The page for a class: even steps, names, a stage on one screen, and the picture as a file."""

import dataclasses
import re
import struct
import time
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from faces.show.browser import Browser
from faces.show.pages import hidden, shipped, show, text
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.recording import Recording

TEXTS = """[...document.querySelectorAll('#lanes .recording svg text')]
    .filter(e => e.textContent && e.getClientRects().length)
    .filter(e => getComputedStyle(e).display !== 'none')
    .map(e => { const r = e.getBoundingClientRect();
                return [e.textContent, r.left, r.top, r.right, r.bottom] })"""
EDGES = """(r => [r.left, r.top, r.right, r.bottom])(
    document.querySelector('#lanes .recording:not(.aside) svg').getBoundingClientRect())"""


def overlaps(found: list[list[float]]) -> list[tuple[object, object]]:
    """Pairs of texts that lie upon each other by more than a hair."""
    pairs = []
    for at, (one, left, top, right, bottom) in enumerate(found):
        for other, left2, top2, right2, bottom2 in found[at + 1 :]:
            across = min(right, right2) - max(left, left2)
            down = min(bottom, bottom2) - max(top, top2)
            if across > 2 and down > 3:
                pairs.append((one, other))
    return pairs


@pytest.mark.parametrize("width", [400, 1280, 1920])
@pytest.mark.parametrize("zooms", [0, 2, 4])
def test_no_label_lies_on_another_or_is_cut(
    page: Browser, tmp_path: Path, width: int, zooms: int
) -> None:
    show(page, tmp_path, shipped("gpus-0-1"), width=width)
    for _ in range(zooms):
        page.run("document.getElementById('zoom-in').click()")
    found = page.run(TEXTS)
    assert overlaps(found) == []
    left, top, right, bottom = page.run(EDGES)
    assert [row[0] for row in found if row[1] < left - 1 or row[3] > right + 1] == []
    assert [row[0] for row in found if row[2] < top or row[4] > bottom] == []


def without_gates(name: str) -> list[Recording]:
    """Recordings as of a run that was not stepped: no lane of the stepper's is below the others."""
    found = shipped(name)
    return [
        dataclasses.replace(one, events=[e for e in one.events if e.actor != "step"])
        for one in found
    ]


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("name", ["gpus-0-1", "figure-1", "failing-hook"])
@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_no_number_is_cut_where_a_stage_is_presented(
    page: Browser, tmp_path: Path, name: str, language: str, size: tuple[int, int]
) -> None:
    """Neither beside a text nor below a bar, in the picture of each container."""
    found = without_gates(name)
    show(page, tmp_path, found, language, width=size[0], height=size[1])
    page.press("p")
    numbers = 0
    for _ in range(sum(len(one.stages) for one in found)):
        title = text(page, "#stage-title")
        assert page.run("document.documentElement.scrollHeight <= innerHeight"), title
        listed = "document.getElementById('stage-steps')"
        assert page.run(f"{listed}.scrollHeight <= {listed}.clientHeight"), title
        left, top, right, bottom = page.run(EDGES)
        boxes = page.run(TEXTS.replace("svg text", "svg .nth"))
        numbers += len(boxes)
        cut = [b for b in boxes if b[1] < left or b[2] < top or b[3] > right or b[4] > bottom]
        assert cut == [], title
        page.press("ArrowRight")
    assert numbers > 2 * len(found)
    page.press("Escape")
    shown = "[...document.querySelectorAll('#lanes .recording svg')]"
    assert page.run(f"{shown}.filter((one) => one.getClientRects().length).length") == len(found)


@pytest.mark.parametrize(
    ("language", "even", "true"),
    [("en", "all events are equally wide", "as long as it took"), ("ko", "폭이 같다", "걸린 시간")],
)
def test_the_legend_says_what_is_drawn(
    page: Browser, tmp_path: Path, language: str, even: str, true: str
) -> None:
    """A bar's length is its time where times are drawn, and nothing where steps are even."""
    show(page, tmp_path, shipped("gpus-0-1"), language)
    bars = "[...document.querySelectorAll('rect.bar')].map((bar) => bar.width.baseVal.value)"
    widths = f"new Set({bars}).size"
    for _ in range(2):
        assert page.run(widths) == 1
        assert even in text(page, ".legend") and true not in text(page, ".legend")
        page.run("document.getElementById('even').click()")
        assert page.run(widths) > 1
        assert true in text(page, ".legend") and even not in text(page, ".legend")
        page.run("document.getElementById('even').click()")


def test_steps_are_even_and_the_true_times_are_one_key_away(page: Browser) -> None:
    places = "[...document.querySelectorAll('.event')].map(e => e.transform.baseVal[0].matrix.e)"
    even = sorted(page.run(places))
    gaps = {round(b - a) for a, b in pairwise(even)}
    assert max(gaps) <= 2 * (even[-1] - even[0]) / (len(even) - 1) + 2
    page.run("document.getElementById('even').click()")
    true = sorted(page.run(places))
    assert max(b - a for a, b in pairwise(true)) > 50


def test_names_come_as_one_zooms_in(page: Browser) -> None:
    named = "[...document.querySelectorAll('.called:not(.away)')].map(e => e.textContent)"
    few = page.run(named)
    for _ in range(5):
        page.run("document.getElementById('zoom-in').click()")
    many = page.run(named)
    assert len(many) > len(few) + 100
    calls = [e.name for e in shipped("gpus-0-1")[0].events if e.name == "mknodat"]
    assert many.count("mknodat") == len(calls)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("size", [(1280, 720), (800, 600)])
def test_each_stage_on_one_screen(
    page: Browser, tmp_path: Path, language: str, size: tuple[int, int]
) -> None:
    (found,) = shipped("gpus-0-1")
    show(page, tmp_path, [found], language, width=size[0], height=size[1])
    page.press("p")
    for number in range(1, 8):
        title = text(page, "#stage-title")
        assert title.startswith(f"{number} ")
        assert (language == "ko") == bool(re.search("[가-힣]", title))
        assert len(text(page, "#stage-text")) > 60
        assert page.run("document.documentElement.scrollHeight <= innerHeight"), "fits"
        assert lit(page, found, number)
        if number < 7:
            page.press("ArrowRight")
    page.press("ArrowRight")
    assert text(page, "#stage-title").startswith("7 "), "the last one stays"
    page.press("ArrowLeft")
    assert text(page, "#stage-title").startswith("6 ")
    page.press("Escape")
    assert hidden(page, "#stage-card") and not hidden(page, ".stages")


STEPS = "[...document.querySelectorAll('#stage-steps li')].map(one => one.textContent)"
MARKS = "[...document.querySelectorAll('.nth')].map(one => [one.textContent, one.parentNode.id])"


@pytest.mark.parametrize("size", [(1280, 720), (800, 600), (400, 800)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_milestones_stand_beside_the_bars_as_text(
    page: Browser, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    """What `timeline` says of a stage; a number below the last bar that it speaks of."""
    (found,) = shipped("gpus-0-1")
    show(page, tmp_path, [found], width=size[0], height=size[1], scheme=scheme)
    narrator = Narrator("stages", found.init)
    told = {row.what for event in found.unheld.events for row in narrator.rows(event)}
    page.press("p")
    for number in range(1, 8):
        steps = page.run(STEPS)
        if number != 3:  # of its own the runtime only calls the hook
            assert steps, number
        plain = [step.rstrip("….").split(", …")[0] for step in steps if "…/" not in step]
        assert all(
            any(line.startswith(step[:40]) for line in told) for step in plain[number == 1 :]
        )
        for nth, mark in page.run(MARKS):
            assert found.events[int(mark.split("-")[2])].stage == number
            assert 1 <= int(nth) <= len(steps)
        listed = "document.getElementById('stage-steps')"
        assert page.run(f"{listed}.scrollWidth <= {listed}.clientWidth")
        if number == 5:
            assert [line.split(":")[0] for line in steps] == [
                "2 of 4 GPUs", "6 programs in /usr/bin", "11 libraries in /usr/lib64", "4 files",
                "5 nodes in /dev", "2 GPUs in /proc/driver/nvidia", steps[6], "5 cgroup rules",
            ]  # fmt: skip
            assert steps[4].startswith("5 nodes in /dev: nvidia0 c 195:0, nvidia1 c 195:1")
            assert steps[6].startswith("execve ldconfig")
            assert len(page.run(MARKS)) >= (7 if size[0] > 400 else 4)
            assert overlaps(page.run(TEXTS)) == []
        page.press("ArrowRight")
    page.press("Escape")
    assert page.run(MARKS) == []


def lit(page: Browser, found: Recording, number: int) -> bool:
    """Whether the stage's first and last event are in what the picture shows."""
    events = [
        i for i, e in enumerate(found.events) if e.stage == number and e.kind in ("begin", "end")
    ]
    box = "document.getElementById('lanes').getBoundingClientRect()"
    places = page.run(
        f"[{events[0]}, {events[-1]}].map(n => document.getElementById(`event-0-${{n}}`)"
        ".querySelector('.edge').getBoundingClientRect().left)"
    )
    left, right = page.run(f"[{box}.left, {box}.right]")
    return all(left - 2 <= place <= right + 2 for place in places)


@pytest.fixture
def downloads(page: Browser, tmp_path: Path) -> Path:
    place = tmp_path / "downloads"
    place.mkdir()
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(place))
    return place


def saved(place: Path, name: str) -> bytes:
    deadline = time.monotonic() + 20
    while not (place / name).is_file():
        assert time.monotonic() < deadline, list(place.iterdir())
        time.sleep(0.05)
    time.sleep(0.2)
    return (place / name).read_bytes()


def test_the_picture_as_svg(page: Browser, downloads: Path) -> None:
    page.run("document.getElementById('save-svg').click()")
    tree = ElementTree.fromstring(saved(downloads, "gpus-0-1.svg"))
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    words = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text") if each.text]
    assert {"runtime", "init", "hook", "cli", "RUN_HOOKS", "HOOKS_DONE", "1", "7"} <= set(words)
    assert not list(tree.iter("{http://www.w3.org/2000/svg}script"))
    assert not [e for e in tree.iter() if "class" in e.attrib], "it needs no style sheet"


def test_the_picture_as_png(page: Browser, downloads: Path) -> None:
    page.run("document.getElementById('save-png').click()")
    data = saved(downloads, "gpus-0-1.png")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width == 2 * page.run("document.querySelector('.axis').width.baseVal.value")
    assert height > 500
