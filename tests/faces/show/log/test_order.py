"""No view draws a process at work before it is born: the page, the live page, and the picture.

The parent of init, or of a hook, is held up on its way out of clone3 where the machine is busy. So
what the child did is in the log before its birth. The notebook's page: tests/notebooks.
"""

from itertools import pairwise
from pathlib import Path

import pytest

from conftest import Program
from faces.show.browser import Browser
from faces.show.figures.test_labels import drawn_in
from faces.show.pages import shipped, show
from faces.show.readback import Arrow, arrows_on, bars_in, busy, places_on, told_late, unborn
from faces.show.step.test_web import Talk, placed
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log import recording
from minirun.faces.show.log.event import Reader
from minirun.faces.show.log.order import steps
from minirun.faces.show.log.recording import Recording
from night import CASES
from required import installed

RUNS = 20 if CASES else 6
"""Four of five starts on a busy machine have what this file is about in their log."""
FLAGS = ("--gpus", "0,1", "--gpu-driver=simulated")


@pytest.fixture(scope="module")
def logs(command: str, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The logs of so many starts on a busy machine."""
    program = Program(command, tmp_path_factory.mktemp("busy"))
    with busy():
        for at in range(RUNS):
            done = program("run", "--rm", "--name", f"c{at}", *FLAGS, "busybox", "true")
            assert done.returncode == 0, done.stderr
    found = sorted(program.root.glob(".history/*.jsonl"))
    program.clean()
    assert len(found) == RUNS
    return found


def test_the_machine_was_busy_enough(logs: list[Path]) -> None:
    """Else the others of this file show nothing."""
    late = 0
    for path in logs:
        written = Reader().take(path.read_bytes())
        late += told_late(recording.Recording("", written), written) > 0
    assert late >= RUNS // 5


def test_the_page(browser: Browser, tmp_path: Path, logs: list[Path]) -> None:
    """With even steps all events stand in the order of the table; with true times each child's
    stand right of its birth."""
    for path in logs:
        (found,) = recording.read(path)
        show(browser, tmp_path, [found])
        agrees(browser, found)


def test_the_keyboard_goes_the_same_way(browser: Browser, tmp_path: Path, logs: list[Path]) -> None:
    for path in logs[:5]:
        (found,) = recording.read(path)
        show(browser, tmp_path, [found])
        assert found.birth
        at = found.events.index(found.birth)
        browser.run(f"document.querySelector('a[href=\"#event-0-{at - 1}\"]').click()")
        browser.press("Escape")
        for number in range(at, at + 5):
            browser.press("ArrowRight")
            assert browser.run("document.activeElement.id") == f"event-0-{number}"


def test_the_live_page(minirun: Program, tmp_path: Path) -> None:
    """It grows at each stop; the first is before init is born, the second after."""
    installed("chromium")
    viewer = Browser(tmp_path / "profile", loopback=True)
    try:
        with busy():
            for at in range(RUNS // 2):
                talk = Talk(minirun, "--name", f"live{at}", *FLAGS)
                viewer.visit(talk.viewer)
                placed(viewer, "before stage 1:")
                for key, place in (("next", "after stage 1"), ("continue", "the run has started")):
                    assert talk.press(key) == 200
                    placed(viewer, place)
                assert talk.end()[0] == 0
                (whole,) = recording.read(minirun.directory(f"live{at}") / "events.jsonl")
                agrees(viewer, whole)
    finally:
        viewer.close()


def agrees(page: Browser, whole: Recording) -> None:
    """Check a page that has grown: it ends with the start, and its log goes on."""
    even = places_on(page)
    found = Recording(whole.id, whole.events[: len(even)]).unheld
    assert unborn(found, even) == []
    assert all(one < other for one, other in pairwise(even))
    assert arrows_on(page) == [Arrow(a.sender, a.receiver, a.name) for a in found.arrows]
    page.run("document.getElementById('even').click()")
    assert unborn(found, places_on(page)) == []


def test_the_still_picture(logs: list[Path]) -> None:
    for path in logs:
        (found,) = recording.read(path)
        picture = figure_3.svg(found)
        births = drawn_in(picture, [arrow.name for arrow in found.arrows])[0]
        assert found.arrows[0].name == births[1] == "clone3"
        assert min(bars_in(picture)["init"]) >= births[2] - 0.1


def test_starts_side_by_side_keep_their_own_order(
    browser: Browser, tmp_path: Path, logs: list[Path]
) -> None:
    """Figure 1's three containers, and two starts that are compared."""
    both = [recording.read(path)[0] for path in logs[:2]]
    for each in (shipped("figure-1"), both):
        numbers = steps([one.events for one in each])
        count = sum(len(one.events) for one in each)
        assert sorted(step for mine in numbers for step in mine) == list(range(count))
        show(browser, tmp_path, each)
        for number, found in enumerate(each):
            places = places_on(browser, number)
            assert numbers[number] == sorted(numbers[number])
            assert unborn(found, places) == []
            assert places == sorted(places)
