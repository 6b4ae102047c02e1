"""The tab, if `make tab` has made it: the machine goes on in a browser, and minirun runs in it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faces.show.browser import Browser
from required import installed
from tutorials.publish.tab import page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
GPUS = "minirun run --gpus 0,1 ubuntu sh -c 'ls /dev; nvidia-smi -L'"
READY = "document.body?.dataset.ready === 'yes'"
TEXT = "document.querySelector('.xterm-rows').innerText"
TROUBLE = "document.getElementById('trouble')"


@pytest.fixture(scope="module")
def made() -> Path:
    """The folder of the page; making it takes minutes, so no test does."""
    if not (page.folder() / "tab.json").exists():
        pytest.skip("build/site/tab is not here: make tab")
    installed("chromium")
    return page.folder()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder by Python's own web server, which sends no special headers."""
    words = ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    server = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout
    port = server.stdout.readline().split("port ")[1].split()[0]
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = Browser(tmp_path / "profile", loopback=True)
    yield found
    found.close()


def test_two_gpus_are_seen(made: Path, browser: Browser) -> None:
    """And the picture of the run is drawn beside it; nothing is asked of another address."""
    with served(made) as address:
        browser.visit(address, width=1500, height=1000)
        browser.wait(READY, 120)
        browser.run(f"[...document.querySelectorAll('#offers button')]"
                    f".find(each => each.textContent === {json.dumps(GPUS)}).click()")  # fmt: skip
        browser.wait(f"{TEXT}.includes('GPU 1: ') && {TEXT}.trim().endsWith('#')", 200)
        said = browser.run(TEXT)
        browser.wait("!document.getElementById('picture').hidden", 200)
        figures = browser.run("document.getElementById('measured').innerText")
    assert "nvidia0\n" in said and "nvidia1\n" in said
    assert said.count("(SIMULATED)") == 2
    assert "to the prompt:" in figures and f"{GPUS}:" in figures
    asked = {e["params"]["request"]["url"] for e in browser.events
             if e.get("method") == "Network.requestWillBeSent"}  # fmt: skip
    assert {each for each in asked if not each.startswith((address, "data:", "blob:"))} == set()
    assert browser.run(f"{TROUBLE}.hidden")


def test_no_key_is_lost(made: Path, browser: Browser) -> None:
    """Also if they are pressed while the machine has much to do."""
    text = "echo " + "0123456789" * 6
    with served(made) as address:
        browser.visit(address, width=1500, height=1000)
        browser.wait(READY, 120)
        browser.press(*"minirun --version", "Enter", *text, "Enter")
        browser.wait(f"{TEXT}.includes('\\n' + {json.dumps(text[5:])} + '\\n')", 120)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("cut", "damaged: "),
        ("bit", "damaged: "),
        ("sign", "does not begin as one"),
        ("version", "of another version: kernel "),
        ("gone", "state.bin cannot be fetched (404)"),
    ],
)
def test_a_state_that_is_not_the_pages(
    made: Path, browser: Browser, tmp_path: Path, change: str, words: str
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    for path in made.iterdir():
        if path.is_file() and path.name != "state.bin":
            shutil.copy(path, folder)
    state = (made / "state.bin").read_bytes()
    if change == "cut":
        state = state[:-1000]
    elif change == "bit":
        state = state[:100_000] + bytes([state[100_000] ^ 1]) + state[100_001:]
    elif change == "sign":
        state = b"<!doctype html>\n" + state
    elif change == "version":
        about = json.loads((folder / "tab.json").read_text())
        (folder / "tab.json").write_text(json.dumps(about | {"kernel": "6.1.0-0-686"}))
    if change != "gone":
        (folder / "state.bin").write_bytes(state)
    with served(folder) as address:
        browser.visit(address)
        browser.wait(f"{TROUBLE}?.hidden === false", 60)
        assert words in browser.run(f"{TROUBLE}.textContent")


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("delete globalThis.WebAssembly", "has no WebAssembly"),
        ("WebAssembly.Memory = function () { throw new RangeError(); }", "MiB of memory"),
    ],
)
def test_a_browser_that_cannot(made: Path, browser: Browser, before: str, words: str) -> None:
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=before)
    with served(made) as address:
        browser.visit(address)
        browser.wait(f"{TROUBLE}?.hidden === false", 60)
        assert words in browser.run(f"{TROUBLE}.textContent")
