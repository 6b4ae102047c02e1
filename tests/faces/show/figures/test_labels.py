"""A name stands at its own arrow and at no other: in the still picture, and on the page."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from faces.show.browser import Browser
from faces.show.pages import shipped, show
from minirun.faces import recordings
from minirun.faces.show.figures import figure_3, labels
from minirun.faces.show.log.event_row import clean, is_named

BOOKKEEPING = {"READY", "YOUR_TURN", "STATE", "WAITING"}
NEAR = 8
"""Pixels from an arrow to its name, at most."""
LETTER = 6.0
ARROWS = r"""[...document.querySelectorAll('#lanes .recording')].flatMap((one, number) => {
    const top = one.querySelector('.picture svg').getScreenCTM();
    return [...one.querySelectorAll('.event:has(.arrow)')].map((event) => {
        const place = event.transform.baseVal[0].matrix;
        const box = event.querySelector('.said:not(.away)')?.getBoundingClientRect();
        const shaft = event.querySelector('.arrow').getAttribute('d');
        const parts = [...shaft.matchAll(/M0 ([-\d.]+)V([-\d.]+)/g)].map(([, ...ends]) =>
            ends.map((y) => Number(y) + top.f + place.f).sort((p, q) => p - q));
        return [number, event.ariaLabel.split(/[ ,]/)[0], top.e + place.e, parts,
                box ? [box.left, box.top, box.right, box.bottom] : null] }) })"""

Drawn = tuple[int, str, float, list[list[float]], "list[float] | None"]


def astray(drawn: list[Drawn]) -> list[str]:
    """Return the names that are far from their arrow, or that another arrow reaches or cuts off."""
    found = []
    for one in drawn:
        number, name, x, _, box = one
        if not box:
            continue
        left, top, right, bottom = box
        if min(abs(left - x), abs(right - x)) > NEAR:
            found.append(f"{name} is not at its arrow")
        for other in drawn:
            if other is one or other[0] != number:
                continue
            middle = [part for part in other[3] if part[0] < bottom - 3 and part[1] > top + 3]
            if middle and min(left, x) <= other[2] <= max(right, x):
                found.append(f"{name} is crossed by {other[1]}")
    return found


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_on_the_page(browser: Browser, tmp_path: Path, name: str, width: int) -> None:
    """With even steps and with true times, near and far."""
    found = shipped(name)
    show(browser, tmp_path, found, width=width)
    for _ in range(2):
        for _ in range(3):
            drawn: list[Drawn] = browser.run(ARROWS)
            assert astray(drawn) == []
            named = [each[1] for each in drawn if each[4]]
            assert all(map(is_named, named)) and not BOOKKEEPING & {*named}
            browser.run("document.getElementById('zoom-in').click()")
        browser.run("document.getElementById('zoom-fit').click()")
        browser.run("document.getElementById('even').click()")


@pytest.mark.parametrize("width", [400, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_two_of_figure_3_have_their_names(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    """The six that only keep the processes in step are thin, and have none."""
    show(browser, tmp_path, shipped("gpus-0-1"), width=width, scheme=scheme)
    named = [each[1] for each in browser.run(ARROWS) if each[4]]
    assert {"RUN_HOOKS", "HOOKS_DONE"} <= {*named} <= {"RUN_HOOKS", "HOOKS_DONE", "clone3"}
    arrows = "[...document.querySelectorAll('#lanes .arrow')]"
    widths = sorted(browser.run(f"{arrows}.map(e => parseFloat(getComputedStyle(e).strokeWidth))"))
    assert len(widths) == 9 and widths[5] < 1 < widths[6] < 2 < widths[7]


def drawn_in(picture: str, names: list[str]) -> list[Drawn]:
    """Return the arrows of a still picture, with the boxes of their names."""
    found: list[Drawn] = []
    svg = "{http://www.w3.org/2000/svg}"
    tree = ElementTree.fromstring(picture)
    for group in tree.iter(f"{svg}g"):
        path = group.find(f"{svg}path")
        shaft = path.get("d", "") if path is not None else ""
        if re.fullmatch(r"(M[\d.]+ [\d.]+V[\d.]+)+", shaft):
            rest = group.findall(f"{svg}path")[1].get("d", "")
            parts = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", shaft + rest)
            found.append((0, names[len(found)], float(parts[0][0]),
                          [[float(a), float(b)] for _, a, b in parts], None))  # fmt: skip
    assert len(found) == len(names)
    for text in tree.iter(f"{svg}text"):
        if text.text in names:
            x, y, wide = float(text.get("x", 0)), float(text.get("y", 0)), LETTER * len(text.text)
            left = x - wide if text.get("text-anchor") == "end" else x
            own = min((each for each in found if each[1] == text.text), key=lambda e: abs(e[2] - x))
            found[found.index(own)] = (*own[:4], [left, y - 9, left + wide, y + 2])
    return found


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_in_the_still_picture(name: str) -> None:
    for each in shipped(name):
        names = [clean(arrow.name) for arrow in each.arrows]
        drawn = drawn_in(figure_3.svg(each), names)
        assert astray(drawn) == []
        named = [one[1] for one in drawn if one[4]]
        assert sorted(named) == sorted(filter(is_named, names)), "all of them have room there"


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_the_numbers_of_stages_stand_beside_each_other(name: str) -> None:
    for each in shipped(name):
        circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="8"', figure_3.svg(each))
        places = sorted((float(y), float(x)) for x, y in circles)
        assert all(a[0] != b[0] or b[1] - a[1] >= 18 for a, b in pairwise(places))


def test_a_crowd() -> None:
    """As many names as have a place of their own; none where two named arrows are too near."""
    crowd = [labels.Arrow(100 + 3 * at, 0, 1, 60) for at in range(5)]
    placed = labels.place(crowd, [2], 3, (0, 400))
    assert placed == {
        0: labels.Label(35, 100, 0, 0, False), 4: labels.Label(112, 177, 0, 0, True)
    }  # fmt: skip
    thin = [arrow._replace(width=0) for arrow in crowd]
    thin[2] = crowd[2]
    (label,) = labels.place(thin, [2], 3, (0, 400)).values()
    assert labels.crossed(label, 2, thin) == [3, 4]
    assert labels.place(thin, [2], 3, (0, 150))[2].follows is False
    assert labels.place(thin, [2], 3, (80, 150)) == {}
