"""The course in the tab, if `make tab` has made it: levels are checked there, and a lab is solved.

In Chromium, by keys, as a learner does it.
"""

import base64
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from faces.show.browser import Browser
from faces.teach.levels.checked import PUBLISHED, beside_the_library, check
from faces.teach.levels.test_mutants import ROWS, changed
from minirun.faces.teach.lab import labs
from minirun.faces.teach.levels import checks
from minirun.faces.teach.levels.programs import Level
from publish.test_tab import READY, TEXT, served
from required import installed
from tutorials.publish.tab import page, root, runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
LEVELS = f"/{root.HOME}/tutorials/levels"
WRONG = [
    ("00_process", "the program is not looked for in PATH"),
    ("02_root", "chroot instead of pivot_root"),
    ("04_hooks", "a hook that fails is ignored"),
]
EDIT = "[text := text.replace(*each) for each in json.loads(base64.b64decode(edits))]"
LAB = "zombie-init"
_NUMBERS = itertools.count(1)
WIDE = {"width": 1600, "height": 1000}


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The page's address; making it takes minutes, so no test does."""
    if not (page.folder() / "tab.json").exists():
        pytest.skip("build/site/tab is not here: make tab")
    with served(page.folder()) as address:
        yield address


@pytest.fixture(scope="module")
def tab(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One page, in which all tests type one after the other.

    V8 does not compile twice what the emulator has made: the machine is faster for it.
    """
    installed("chromium")
    profile = tmp_path_factory.mktemp("tab")
    found = Browser(profile, "--js-flags=--liftoff-only", loopback=True)
    found.visit(site, **WIDE)
    found.wait(READY, 120)
    yield found
    found.close()


def typed(browser: Browser, line: str, seconds: float) -> str:
    """Type a line, and return what it prints: as many lines as the terminal shows."""
    sign = f"{next(_NUMBERS)}:"  # what was typed before is seen until `clear` runs
    browser.press(*"clear; ", *line, *f"; echo E''ND {sign}$?", "Enter")
    browser.wait(f"/(^|\\n)END {sign}\\d+\\s+\\S*#\\s*$/.test({TEXT})", seconds)
    return str(browser.run(TEXT)).replace("\xa0", " ").replace(sign, "")


def squeezed(text: str) -> str:
    """Return a text without blanks and ends of lines: the terminal breaks lines at its edge."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("level", PUBLISHED, ids=lambda level: level.name)
def test_the_solution_of_a_level_holds(tab: Browser, level: Level) -> None:
    said = typed(tab, f"minirun level check {level.number} {LEVELS}/{level.file} | tail -n 15", 900)
    count = len(checks.promises(level.number))
    assert f"Level {level.number} holds: {count} checks asked the kernel." in said


@pytest.mark.parametrize(("name", "title"), WRONG, ids=[name for name, _ in WRONG])
def test_a_wrong_program_is_refused_as_on_a_host(
    tab: Browser, minirun: Program, tmp_path: Path, name: str, title: str
) -> None:
    """In the same words, all of them."""
    (row,) = (each for each in ROWS[name] if each["title"] == title)
    (level,) = (each for each in PUBLISHED if each.name == name)
    here = check(minirun, level, beside_the_library(tmp_path, level, changed(level, row)))
    edits = base64.b64encode(json.dumps(row["edits"]).encode()).decode()
    code = f"import base64, json; text = open(name).read(); {EDIT}; open(name, 'w').write(text)"
    code = f"name = 'w/{level.file}'; edits = '{edits}'; {code}"
    typed(tab, f'cp -r {LEVELS} w; python3 -c "{code}"', 600)
    words = f"minirun level check {level.number} w/{level.file} >said; tail -n 20 said"
    said = typed(tab, words, 900)
    typed(tab, "rm -r w said", 600)
    assert f"({row['finding']})" in here.stdout
    last = "\n".join(here.stdout.splitlines()[-20:])
    assert squeezed(said).startswith(squeezed(last)), (said, last)


def test_a_lab_from_its_start_until_it_is_solved(tab: Browser) -> None:
    lab = labs.find(LAB)
    started = typed(tab, f"minirun lab start {LAB} --predict {lab.broken} | tail -n 20", 600)
    assert f"  {lab.broken}: " in started and "Your prediction was right." in started
    not_yet = typed(tab, f"minirun lab check {LAB} | head -n 2", 600)
    assert f"Not yet ({lab.broken}):" in not_yet
    mend = "/^  exec sleep/s/exec sleep 1000/while :; do sleep 0.3; done/"
    typed(tab, f"(cd /var/lib/minirun/containers/.labs/{LAB} && sed -i '{mend}' run.sh)", 600)
    assert "Solved.\n" in typed(tab, f"minirun lab check {LAB} | head -n 2", 600)
    assert "END 0" in typed(tab, f"minirun lab reset {LAB}", 120)
    assert "started" not in typed(tab, "minirun lab list | grep -w started", 600)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_table_is_what_has_been_tried(language: str) -> None:
    assert runs.page(language).read_text() == runs.text(language), "make reference"


def test_the_table_is_of_the_course() -> None:
    course = runs.course()
    for kind, rows in runs.rows().items():
        assert {*rows} <= {*course[kind]}
    for row in (row for rows in runs.rows().values() for row in rows.values()):
        assert row.get("seconds", 1) > 0 and {*row} <= {"seconds", "en", "ko", "blocks"}
        assert ("en" in row) == ("ko" in row) and ("blocks" not in row or "en" in row)
