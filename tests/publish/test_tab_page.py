"""What the tab's page does beside its terminal, if `make tab` has made it.

The stepper's buttons, the run as it goes on, a reset of a broken machine, a copy for a time without
a network, lessons that run in it, other languages and shapes of a screen.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faces.show.browser import Browser
from minirun.faces.api.course.tab import CHANNEL
from publish.test_tab import GPUS, READY, TEXT, TROUBLE, served
from required import installed
from tutorials.publish import in_tab
from tutorials.publish.tab import page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
RUN = "minirun run --network none busybox true"
STEP = GPUS.replace("--gpus", "--step --gpus")
STAGES = "[...document.querySelectorAll('#stages li')].map(each => each.className).join(' ')"
MEASURED = "document.getElementById('measured').innerText"
KEPT = "document.getElementById('kept').textContent"
FREEZE = """
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (...words) { if (!window.frozen) post.apply(this, words); };
"""
WIDE = {"width": 1500, "height": 1000}


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The page's address; making it takes minutes, so no test does."""
    if not (page.folder() / "tab.json").exists():
        pytest.skip("build/site/tab is not here: make tab")
    installed("chromium")
    with served(page.folder()) as address:
        yield address


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = Browser(tmp_path / "profile", loopback=True)
    yield found
    found.close()


def opened(browser: Browser, address: str, width: int = 1500, height: int = 1000) -> None:
    browser.visit(address, width=width, height=height)
    browser.wait(READY, 180)


def click(browser: Browser, selector: str) -> None:
    browser.run(f"document.querySelector({json.dumps(selector)}).click()")


def offered(browser: Browser, command: str) -> None:
    """Press the button that types a command."""
    browser.run(f"[...document.querySelectorAll('#offers button')]"
                f".find(each => each.textContent === {json.dumps(command)}).click()")  # fmt: skip


def pressed(browser: Browser, step: str) -> None:
    """Press a button of the stepper as soon as it can be pressed."""
    selector = f"#step button[data-step={step}]"
    ready = f"document.querySelector('{selector}')?.getAttribute('aria-disabled') === 'false'"
    browser.wait(f"!document.getElementById('step').hidden && {ready}", 900)
    click(browser, selector)


def runs(browser: Browser) -> None:
    """See a container run."""
    browser.press(*RUN, "Enter")
    browser.wait(f"{MEASURED}.includes({json.dumps(RUN + ':')})", 900)


def copy_of(folder: Path, without: str = "") -> Path:
    """Return a folder with links to all files of the page, but for those of a pattern."""
    folder.mkdir()
    left = {*page.folder().glob(without)} if without else set()
    for path in page.folder().rglob("*"):
        target = folder / path.relative_to(page.folder())
        if path.is_dir():
            target.mkdir()
        elif path not in left:
            target.symlink_to(path)
    return folder


def test_the_buttons_step_the_machine(site: str, browser: Browser) -> None:
    """An event, a stop, a stage, to the end: each place is the log's, and the GPUs come."""
    opened(browser, site)
    assert browser.run("document.getElementById('step').hidden"), "nothing is stepped yet"
    offered(browser, STEP)
    pressed(browser, "nextEvent")
    browser.wait(f"{TEXT}.includes('after ') && {TEXT}.includes('stage 1')", 900)
    pressed(browser, "nextStage")
    browser.wait(f"({STAGES}).split(' ')[1] !== '' || {TEXT}.includes('before stage 2')", 900)
    pressed(browser, "why")
    browser.wait("document.querySelector('#step button[data-step=nextStop]')"
                 ".getAttribute('aria-disabled') === 'false'", 60)  # fmt: skip
    pressed(browser, "nextStop")
    pressed(browser, "toTheEnd")
    browser.wait(f"{TEXT}.includes('GPU 1: ') && {TEXT}.trim().endsWith('#')", 600)
    assert browser.run(STAGES) == " ".join(["done"] * 7)
    said = browser.run(TEXT)
    assert "nvidia0\n" in said and "nvidia1\n" in said
    browser.wait("document.getElementById('step').hidden", 60)


def test_the_buttons_on_a_small_screen(site: str, browser: Browser) -> None:
    """There the stepper asks in lines: no key goes into the answer to a question of its own."""
    opened(browser, site, 844, 390)
    offered(browser, STEP)
    for _ in range(3):
        pressed(browser, "nextEvent")
    pressed(browser, "nextStage")
    pressed(browser, "giveUp")
    browser.wait(f"{TEXT}.trim().endsWith('#')", 600)
    assert "^[" not in browser.run(TEXT) and "stage 2" in browser.run(TEXT)


def test_the_run_is_seen_as_it_goes_on(site: str, browser: Browser) -> None:
    """Its marks come before it is over; at the end no stage is awaited that did not come."""
    opened(browser, site)
    browser.press(*RUN, "Enter")
    browser.wait(f"({STAGES}).includes('on')", 900)
    assert RUN not in browser.run(MEASURED), "it goes on"
    browser.wait(f"{MEASURED}.includes({json.dumps(RUN + ':')})", 900)
    browser.wait(f"({STAGES}) === 'done done done   done done'", 60)
    browser.wait("document.getElementById('picture').dataset.ready === 'yes'", 900)
    with browser.inside("!!document.querySelector('.stages .who')"):
        who = "[...document.querySelectorAll('.stages .who')].map(each => each.textContent)"
        browser.wait(f"({who}).filter(each => each === 'not in this recording').length === 2", 200)
        assert "not yet" not in browser.run(who)


def test_a_broken_machine_is_reset(site: str, browser: Browser) -> None:
    opened(browser, site)
    browser.press(*"rm -rf /usr/bin; ls", "Enter")
    browser.wait(f"{TEXT}.includes('ls: command not found')", 200)
    click(browser, "#reset")
    browser.wait(READY, 120)
    assert "command not found" not in browser.run(TEXT)
    assert "reset:" in browser.run(MEASURED)
    runs(browser)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo c >/proc/sysrq-trigger", "the machine's kernel has stopped: "),
        ("busybox halt -f", "the machine has ended itself: "),
    ],
)
def test_a_machine_that_has_ended(site: str, browser: Browser, command: str, words: str) -> None:
    """It is seen, said, and mended by the button beside it."""
    opened(browser, site)
    assert browser.run("document.getElementById('mend').hidden")
    browser.press(*command, "Enter")
    browser.wait(f"!{TROUBLE}.hidden", 200)
    assert words in browser.run(f"{TROUBLE}.textContent")
    click(browser, "#mend")
    browser.wait(READY, 120)
    assert browser.run(f"{TROUBLE}.hidden && document.getElementById('mend').hidden")
    runs(browser)


def test_a_machine_that_hangs(site: str, browser: Browser) -> None:
    """Its emulator gets no more turns, as after an error in it: the page sees it, and mends it."""
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=FREEZE)
    opened(browser, site)
    browser.run("window.frozen = true")
    browser.wait(f"!{TROUBLE}.hidden", 120)
    assert "the machine has executed nothing for 20 s" in browser.run(f"{TROUBLE}.textContent")
    browser.run("window.frozen = false")
    click(browser, "#mend")
    browser.wait(READY, 120)
    assert browser.run(f"{TROUBLE}.hidden")


def test_a_part_of_the_disk_that_is_missing(browser: Browser, site: str, tmp_path: Path) -> None:
    with served(copy_of(tmp_path / "tab", without="disk-*/*")) as address:
        opened(browser, address)
        browser.press(*"md5sum /opt/minirun/tutorials/*.md", "Enter")
        browser.wait(f"!{TROUBLE}.hidden", 200)
        assert "a part of the machine's disk is missing: " in browser.run(f"{TROUBLE}.textContent")


def test_the_page_without_its_server(browser: Browser, site: str, tmp_path: Path) -> None:
    """A copy is kept, and is enough; one of another version is removed when the server is there."""
    folder = copy_of(tmp_path / "tab")
    with served(folder) as address:
        opened(browser, address)
        assert "MB" in browser.run("document.getElementById('keep').textContent")
        click(browser, "#keep")
        browser.wait(f"{KEPT}.includes('works without a network')", 900)
        browser.visit("about:blank")
    browser.call("Network.clearBrowserCache")
    opened(browser, address, **WIDE)
    assert "works without a network" in browser.run(KEPT)
    browser.press(*"md5sum /opt/minirun/tutorials/*.md | tail -1", "Enter")
    browser.wait(f"/[0-9a-f]{{32}}  .opt/.test({TEXT})", 200)
    assert browser.run(f"{TROUBLE}.hidden")


def test_a_copy_of_another_version(browser: Browser, site: str, tmp_path: Path) -> None:
    opened(browser, site)
    browser.run("caches.open(`minirun-tab ${new URL('./', location).pathname}`)"
                ".then(cache => cache.put('tab.json', new Response('{}')))")  # fmt: skip
    opened(browser, f"{site}?again")
    browser.wait(f"{KEPT}.includes('of another version, and has been removed')", 60)
    assert not browser.run("document.getElementById('keep').hidden")


def test_a_copy_for_which_there_is_no_room(browser: Browser, site: str) -> None:
    opened(browser, site)
    browser.call("Storage.overrideQuotaForOrigin", origin=site.rstrip("/"), quotaSize=5_000_000)
    click(browser, "#keep")
    browser.wait(f"{KEPT}.includes('could not be kept: it needs')", 900)
    assert not browser.run("document.getElementById('keep').hidden")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1500, 1000), (844, 390), (390, 844)])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_screens_and_languages(
    site: str, browser: Browser, width: int, height: int, scheme: str, language: str
) -> None:
    """Nothing is wider than the screen, and all words are of the language."""
    browser.media(scheme=scheme)
    opened(browser, f"{site}?lang={language}", width, height)
    assert browser.run("document.documentElement.scrollWidth") <= width
    dark = browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(22, 25, 29)"
    assert dark == (scheme == "dark")
    assert browser.run("document.documentElement.lang") == language
    assert ("리셋" in browser.run("document.getElementById('tools').innerText")) == (
        language == "ko"
    )
    terminal = "document.getElementById('terminal').getBoundingClientRect()"
    assert browser.run(f"{terminal}.height") <= height, "the terminal is seen as a whole"


def test_the_keyboard_and_a_screen_reader(site: str, browser: Browser) -> None:
    """Tab is the shell's; F6 leaves the terminal. A screen reader gets the lines as a list."""
    opened(browser, site)
    assert "F6" in browser.run("document.activeElement.getAttribute('aria-label')")
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "xterm-helper-textarea"
    browser.press("F6")
    assert browser.run("document.activeElement.id") == "reset"
    assert not browser.run("document.querySelector('.xterm-accessibility')")
    click(browser, "#reader")
    browser.run("document.querySelector('.xterm-helper-textarea').focus()")
    browser.press(*"echo heard", "Enter")
    browser.wait("[...document.querySelectorAll('.xterm-accessibility [role=listitem]')]"
                 ".some(each => each.textContent.trim() === 'heard')", 200)  # fmt: skip


def lesson(folder: Path, row: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> str:
    """Build the site of one lesson beside the tab, and return the lesson's path in it."""
    from tutorials.publish.site import build

    name = "07-devices"
    monkeypatch.setattr(in_tab, "rows", lambda: {name: row})
    folder.mkdir()
    copy_of(folder / "tab")
    build(folder, [name])
    return f"en/tutorials/{name}.en.html"


def test_a_lesson_runs_at_the_foot_of_its_page(
    site: str, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block after block in one machine; a block that does not run there says why instead."""
    pytest.importorskip("myst_parser")
    path = lesson(tmp_path / "site", {"en": "it <needs> more", "blocks": [3]}, monkeypatch)
    with served(tmp_path / "site") as address:
        browser.visit(f"{address}{path}", **WIDE)
        browser.wait("document.querySelectorAll('button.in-tab').length > 5", 60)
        said = browser.run("document.querySelector('p.in-tab').textContent")
        assert said == "not in the tab: it <needs> more"
        for number in (0, 1):
            browser.run(f"document.querySelectorAll('button.in-tab')[{number}].click()")
        inner = "document.querySelector('#machine iframe').contentDocument"
        text = f"({inner}?.querySelector('.xterm-rows')?.innerText ?? '')"
        browser.wait(f"{text}.includes('nvidia-uvm-tools')", 900)
        browser.wait("document.querySelector('#machine .state').textContent === ''", 200)
        assert browser.run("document.querySelectorAll('#machine').length") == 1
        browser.run("window.postMessage({ busy: true }, location.origin)")  # not the frame's
        browser.run("0")
        assert browser.run("document.querySelector('#machine .state').textContent") == ""
        click(browser, "#machine .bar button")
        browser.wait(f"!{text}.includes('nvidia')", 120)


def test_a_cell_of_a_notebook_is_typed_here(site: str, browser: Browser) -> None:
    """What %%minirun sends from JupyterLite: test_lite sees it sent."""
    opened(browser, site)
    lines = json.dumps("minirun --version\necho it came: $?\n")
    browser.run(f"new BroadcastChannel('{CHANNEL}').postMessage({{ run: {lines} }})")
    browser.wait(f"{TEXT}.includes('it came: 0')", 200)


def test_without_the_tab_no_lesson_has_a_button(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser")
    from tutorials.publish.site import build

    build(tmp_path / "site", ["07-devices"])
    text = (tmp_path / "site/en/tutorials/07-devices.en.html").read_text()
    assert "in-tab" not in text and in_tab.SCRIPT not in text
    shutil.rmtree(tmp_path / "site")
