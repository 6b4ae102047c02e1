"""The pictures in the repository are what the program draws of the recordings that it ships."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import Program
from minirun import recordings
from minirun.show.recording import read
from show.browser import Browser

ROOT = Path(__file__).parents[2]
PICTURES = {"figure-3": "gpus-0-1"}
SVG = "{http://www.w3.org/2000/svg}"


def drawn(minirun: Program, name: str) -> str:
    done = minirun("replay", name, "--svg", "-")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_picture_has_its_recording() -> None:
    kept = {path.stem for path in (ROOT / "tutorials/pictures").iterdir()}
    assert kept == set(PICTURES)
    made = re.findall(r"replay (\S+) --svg tutorials/pictures/(\S+)\.svg", _makefile())
    assert {name: recording for recording, name in made} == PICTURES


def _makefile() -> str:
    return (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_it_is_what_make_pictures_draws(minirun: Program, name: str) -> None:
    kept = (ROOT / f"tutorials/pictures/{name}.svg").read_text()
    assert kept == drawn(minirun, PICTURES[name]), "make pictures"


@pytest.mark.parametrize("name", ["plain", "gpus-0-1", "figure-1", "failing-hook"])
def test_what_the_picture_says(minirun: Program, name: str) -> None:
    tree = ElementTree.fromstring(drawn(minirun, name))
    title = tree.find(f"{SVG}title")
    assert title is not None and title.text
    words = {each.text for each in tree.iter(f"{SVG}text")}
    found = read(recordings.path(name))
    for each in found:
        assert f"The making of container {each.id}: stage 1, runtime" in title.text
        assert {str(stage.number) for stage in each.stages} <= words
        if len(found) > 1:
            assert each.id in words
    assert not list(tree.iter(f"{SVG}script"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_light_and_on_dark_paper(browser: Browser, scheme: str) -> None:
    browser.open(ROOT / "tutorials/pictures/figure-3.svg", scheme=scheme)
    paper = browser.pixel(3, 3)
    assert (sum(paper) > 600) == (scheme == "light")
