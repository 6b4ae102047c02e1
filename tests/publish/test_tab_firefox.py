"""The tab in Firefox, if `make tab` has made it: the main job, typed by keys."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faces.show.firefox import Firefox
from publish.test_tab import GPUS, READY, TEXT, served
from tutorials.publish.tab import page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    if not (page.folder() / "tab.json").exists():
        pytest.skip("build/site/tab is not here: make tab")
    if not (shutil.which("firefox-esr") or shutil.which("firefox")):
        pytest.skip("no Firefox is installed: apt-get install firefox-esr")
    found = Firefox(tmp_path / "profile")
    yield found
    found.close()


def test_two_gpus_are_seen(firefox: Firefox) -> None:
    """Two nodes are there, and the picture beside the terminal has the seven stages."""
    with served(page.folder()) as address:
        firefox.visit(address, width=1600, height=1000)
        firefox.wait(READY, 180)
        firefox.press(*f"{GPUS}; echo E''ND $?", "Enter")
        firefox.wait(f"/\\nEND \\d+\\s+\\S*#\\s*$/.test({TEXT})", 600)
        said = firefox.run(TEXT)
        firefox.wait("!document.getElementById('picture').hidden", 300)
        with firefox.inside():
            firefox.wait("document.querySelectorAll('.event.end').length === 7", 300)
            banner = firefox.run("document.querySelector('.banner').textContent")
        assert firefox.run("document.getElementById('trouble').hidden")
    assert "nvidia0\n" in said and "nvidia1\n" in said and "\nEND 0" in said
    assert said.count("(SIMULATED)") == 2 and banner.startswith("SIMULATED")
