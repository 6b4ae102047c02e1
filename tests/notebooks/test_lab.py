"""minirun.step and minirun.predict in JupyterLab and in Notebook 7, clicked by a real browser."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from conftest import Program, wait_until
from faces.show.browser import Browser
from faces.show.log.test_order import agrees
from faces.show.readback import busy
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces.knowledge import texts
from minirun.faces.show.log import recording
from minirun.faces.teach.levels import programs
from notebooks.lab import TOP, Lab, Server
from required import installed

pytestmark = pytest.mark.root  # the server is one for all tests, and in no cell

STEP = (
    "import minirun\n"
    "s = minirun.step('busybox', ['echo', 'the command'], name='held', gpus=[0, 1],"
    " gpu_driver='simulated')\ns"
)
FRAME = "document.querySelectorAll('.jp-OutputArea-output iframe').length === 1"
Open = Callable[..., Lab]


Serve = Callable[[str, tuple[str, ...]], Server]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Gives a server by its application, and the words of a program that starts it."""
    servers: dict[tuple[str, tuple[str, ...]], Server] = {}

    def get(app: str, prefix: tuple[str, ...]) -> Server:
        if (app, prefix) not in servers:
            servers[app, prefix] = Server(app, tmp_path_factory.mktemp(app), prefix)
        return servers[app, prefix]

    yield get
    for each in servers.values():
        each.close()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser, which finds JupyterLab's files in its cache from the second page on."""
    installed("chromium")
    found = Browser(tmp_path_factory.mktemp("profile"), loopback=True)
    yield found
    found.close()


@pytest.fixture
def lab(server: Serve, minirun: Program, reader: Browser) -> Iterator[Open]:
    opened: list[Lab] = []

    def start(app: str, *cells: str, prefix: tuple[str, ...] = (), lesson: str = "") -> Lab:
        opened.append(Lab(server(app, prefix), minirun.root, reader, cells, lesson))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_from_stage_1_to_7_by_the_keyboard(lab: Open, minirun: Program, app: str) -> None:
    page = lab(app, STEP)
    page.execute(0, FRAME)
    browser = page.browser
    next_button = "document.querySelector('#controls [data-key=next]')"
    for number in range(1, 8):
        for when in ("before", "after"):
            with browser.inside():
                page.placed(f"{when} stage {number}:")
                lit = browser.run("document.querySelector('.stages .lit').dataset.stage")
                assert lit == str(number)
                if (when, number) == ("after", 5):
                    changed = browser.run("document.getElementById('changes').textContent")
                    assert "nodes: /dev/nvidia0 c 195:0" in changed
                    browser.run("document.getElementById('shell').focus()")
            if (when, number) == ("after", 5):
                browser.press(*"ls /dev", "Enter")
                with browser.inside():
                    said = "document.getElementById('live-said').textContent"
                    browser.wait(f"/nvidia1\\n/.test({said})")
            with browser.inside():
                browser.wait(f"!{next_button}.disabled")
                browser.run(f"{next_button}.focus()")
            browser.press("Enter")
    with browser.inside():
        page.placed("the run has started its command, or is over")
        browser.wait("document.getElementById('live-said').textContent === 'the command'")
        assert browser.run("document.querySelectorAll('.event.end').length") == 7
        births = (
            "[...document.querySelectorAll('.event')].filter(one =>"
            " / clone3 |^clone3/.test(one.ariaLabel) && one.querySelector('.arrow')).length"
        )
        assert browser.run(births) == 1
    assert page.complaints() == []
    (events,) = [minirun.events("held")]
    assert [e["stage"] for e in events if e["kind"] == "end"] == list(range(1, 8))
    assert minirun("rm", "held").returncode == 0


def test_the_frame_has_no_rights_in_the_notebook(lab: Open, minirun: Program) -> None:
    page = lab("lab", STEP)
    page.execute(0, FRAME)
    with page.browser.inside():
        page.placed("before stage 1:")
        assert page.browser.run("origin") == "null"
        refused = "(() => { try { return parent.document.title } catch (e) { return e.name } })()"
        assert page.browser.run(refused) == "SecurityError"
        page.browser.run("document.querySelector('#controls [data-key=quit]').click()")
        page.placed("the run has started its command, or is over")
    wait_until(lambda: minirun.left() == [])


@pytest.mark.timeout(300)
def test_no_process_works_before_it_is_born(lab: Open, minirun: Program) -> None:
    """The checks of faces/show/log/test_order.py, in the widget, on a busy machine."""
    cell = f"runs = globals().get('runs', 0) + 1\n{STEP}".replace("'held'", "f'busy{runs}'")
    page = lab("lab", cell)
    browser = page.browser
    with busy():
        for at in range(1, 5):
            page.execute(0, FRAME, times=at)
            heading = "document.querySelector('h1')?.textContent ?? ''"
            with browser.inside(f"({heading}).includes('busy{at}')"):
                page.placed("before stage 1:")
                browser.run("document.querySelector('#controls [data-key=continue]').click()")
                page.placed("the run has started its command, or is over")
                (whole,) = recording.read(minirun.directory(f"busy{at}") / "events.jsonl")
                agrees(browser, whole)
    assert page.complaints() == []


def test_it_is_shown_twice_and_both_grow(lab: Open, minirun: Program) -> None:
    page = lab("lab", STEP, "s.until('5:end')\ns")
    page.execute(0, FRAME)
    page.execute(1, FRAME.replace("=== 1", "=== 2"))
    with page.browser.inside():
        page.placed("after stage 5:")
        page.browser.run("document.querySelector('#controls [data-key=quit]').click()")
        page.placed("the run has started its command, or is over")
    wait_until(lambda: minirun.left() == [])


def test_without_the_rights_it_is_a_recording(lab: Open, minirun: Program) -> None:
    prefix = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    page = lab("lab", STEP, "s", prefix=prefix)
    page.execute(0, FRAME)
    browser = page.browser
    with browser.inside():
        page.placed("before stage 1:")
        for part in ("[data-key=quit]", "#shell"):
            assert browser.run(f"document.querySelector('{part}').getClientRects().length") == 0
        browser.run("document.getElementById('until').focus()")
    browser.press(*"mknodat /dev/nvidia1", "Enter")
    with browser.inside():
        page.placed("after mknodat /dev/nvidia1 c 195:1: ok, stage 5")
        chosen = browser.run("document.querySelector('tr.current').innerText")
        assert "mknodat /dev/nvidia1 c 195:1" in chosen
        whole = browser.run("document.querySelectorAll('.event').length")
        browser.run("document.querySelector('#controls [data-key=back]').click()")
        page.placed("before stage 5:")
        assert browser.run("document.querySelectorAll('.event').length") < whole
        browser.run("document.querySelector('#controls [data-key=continue]').click()")
        page.placed("the recording is over")
    assert page.complaints() == []
    assert minirun.left() == []


def test_a_question_is_answered_by_a_button(lab: Open) -> None:
    ask = "import minirun\nq = minirun.predict('How many?', [2, 3, 5])\nq"
    # the kernel hears buttons in a thread beside the cells'
    heard = "import time\nwhile q.answer != 3:\n    time.sleep(0.01)\nq.check(2 + 3)"
    page = lab("lab", ask, "q.check(2 + 3)", heard)
    buttons = "document.querySelectorAll('.minirun-question button')"
    verdict = "[...document.querySelectorAll('.jp-OutputArea-output')].map(one => one.innerText)"
    page.execute(0, f"{buttons}.length === 3")
    page.execute(1, f"{verdict}.some(text => /no prediction yet: 5/.test(text))")
    page.browser.run(f"{buttons}[0].focus()")
    page.browser.press("ArrowDown", "ArrowDown", "ArrowUp", "ArrowDown")
    page.browser.wait(f"{buttons}[2].ariaChecked === 'true'")
    page.execute(2, f"{verdict}.some(text => /right: 5/.test(text))")
    assert page.browser.run(f"{buttons}[0].disabled"), "what was checked stays"
    assert page.complaints() == []


HOLD = """
import minirun, sys, time
s = minirun.step("busybox", "true", name="held", gpus="0,1", gpu_driver="simulated")
if sys.argv[1] != "1:begin":
    s.until(sys.argv[1])
print(s.place, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_kernel_is_killed_at_a_gate(minirun: Program, boundary: str) -> None:
    """A kernel is a Python process that has no time to clean up."""
    env = os.environ | minirun.environment()
    number, edge = boundary.split(":")
    place = f"{'before' if edge == 'begin' else 'after'} stage {number}: "
    argv = [sys.executable, "-c", HOLD, boundary]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as kernel:
        assert kernel.stdout
        assert kernel.stdout.readline().startswith(place)
        assert json.loads(minirun("state", "held").stdout)["status"] in ("creating", "created")
        kernel.send_signal(signal.SIGKILL)
    wait_until(lambda: minirun("state", "held").returncode != 0)
    assert minirun("gc").returncode == 0
    assert minirun.left() == []


PANEL = "[...jupyterapp.shell.widgets('main')][0]"
NOTEBOOK = f"{PANEL}?.content"
SHOWN = "%s.widgets[%d].node.querySelector('.jp-Cell-outputArea').textContent"


def wait_for_the_kernel(page: Lab) -> None:
    """Wait until a lesson's cells are drawn and its kernel is there: else it is asked for."""
    page.browser.wait(
        f"typeof jupyterapp === 'object' && ({NOTEBOOK}?.widgets?.length ?? 0) > 9", 30
    )
    page.browser.run(f"jupyterapp.shell.activateById({PANEL}.id); 1")
    page.browser.wait(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'")


def run_next(page: Lab, number: int) -> None:
    """Run the cell with this number, also once more, and wait for its end."""
    cell = f"{NOTEBOOK}.widgets[{number}]"
    before = page.browser.run(f"{cell}.model.executionCount ?? 0")
    ran = f"{cell}.model.type !== 'code' || {cell}.model.executionCount > {before}"
    prompt = f"{cell}.node.querySelector('.jp-InputPrompt')?.textContent"
    taken = f"{ran} || {prompt} === '[*]:'"
    for _ in range(20):  # until the kernel is there it is not taken
        page.browser.run(f"Object.assign({NOTEBOOK}, {{activeCellIndex: {number}}}); 1")
        page.browser.run("jupyterapp.commands.execute('notebook:run-cell'); 1")
        again = time.monotonic() + 0.5
        while not (is_taken := page.browser.run(taken)) and time.monotonic() < again:
            time.sleep(0.05)
        if is_taken:
            break
    page.browser.wait(ran)


def test_a_lab_is_started_and_mended_with_buttons(lab: Open, minirun: Program) -> None:
    page = lab("lab", 'import minirun\nminirun.lab("lost-whiteout")')
    page.execute(0, "document.querySelectorAll('.minirun-lab button').length > 6")
    browser = page.browser
    said = "document.querySelector('.minirun-lab .said').textContent"
    place = "document.querySelector('.minirun-lab section').innerText"

    def press(label: str, expected: str) -> None:
        browser.run(
            "[...document.querySelectorAll('.minirun-lab button')]"
            f".find(b => b.textContent.startsWith('{label}')).click(); 1"
        )
        browser.wait(f"{said}.includes({expected!r})")

    press("secret, and a file", "Your prediction was right.")
    press("Hint", "Hint (visible):")
    folder = minirun.root / ".labs" / "lost-whiteout"
    script = (folder / "run.sh").read_text().splitlines()[-1]
    shown = browser.run(place)  # whatever was pressed last
    assert f"The lab is in {folder}." in shown and script in shown

    def mend(commands: str, expected: str) -> None:
        box = "document.querySelector('.minirun-lab textarea')"
        browser.run(f"{box}.value = {json.dumps(commands)}; 1")
        press("Run", expected)

    mend("ls -A layers/2; false", "(exit status 1)")
    assert ".wh.secret" in browser.run(said)
    mend("cd layers/2 && rm .wh.secret && mknod secret c 0 0; minirun --version", "minirun version")
    mend("echo '# mine' >> run.sh", "# mine")
    assert "# mine" in browser.run(place)
    press("Check", "Solved.")
    press("Reset", "lost-whiteout")
    assert not folder.exists()
    assert browser.run(f"{place.removesuffix('.innerText')}.getClientRects().length") == 0
    assert page.complaints() == []


# The code is the same in both languages (test_lessons.py): some are clicked through in each.


@pytest.mark.parametrize(
    ("name", "language"), [("00-seven-stages", "ko"), ("03-overlayfs", "en"), ("07-devices", "ko")]
)
def test_a_lesson_is_clicked_through(lab: Open, name: str, language: str) -> None:
    """Its figures are there; its first questions are answered with a click, and checked."""
    page = lab("lab", lesson=f"{language}/{name}")
    browser = page.browser
    wait_for_the_kernel(page)
    cells = json.loads(page.file.read_text())["cells"]
    answered = 0
    for number, cell in enumerate(cells):
        run_next(page, number)
        source = "".join(cell["source"])
        if source.startswith("lesson.question"):
            button = f"{NOTEBOOK}.widgets[{number}].node.querySelector('[role=radio], button')"
            browser.wait(f"{button} !== null")
            browser.run(f"{button}.click(); 1")
        if source.startswith("%%answer"):
            said = browser.run(SHOWN % (NOTEBOOK, number))
            verdicts = [texts.lesson(word, language) for word in ("right", "wrong")]
            assert any(f"{verdict}: " in said for verdict in verdicts), said
            answered += 1
        if answered == 2:
            break
    widths = "[...document.querySelectorAll('.jp-RenderedMarkdown img')].map(i => i.naturalWidth)"
    assert browser.run(f"{widths}.every(width => width > 0)")
    assert page.complaints() == []


@pytest.mark.parametrize(("number", "language"), [(3, "ko"), (5, "en")])
def test_a_level_is_written_in_its_cell(lab: Open, number: int, language: str) -> None:
    """As a learner does it: the skeleton is checked, the cell is edited and checked again."""
    level = programs.levels()[number]
    (file,) = (TOP / "notebooks" / language).glob(f"level-{number}-*.ipynb")
    page = lab("lab", lesson=f"{language}/{file.stem}")
    browser = page.browser
    wait_for_the_kernel(page)
    sources = ["".join(cell["source"]) for cell in json.loads(page.file.read_text())["cells"]]
    numbers = range(len(sources))
    (skeleton,) = (at for at in numbers if sources[at].startswith("%%writefile"))
    check = next(at for at in numbers[skeleton:] if "minirun level check" in sources[at])
    for at in (1, skeleton - 1, skeleton, check):
        run_next(page, at)
    assert all(gap in browser.run(SHOWN % (NOTEBOOK, skeleton - 1)) for gap in level.gaps)
    assert "not-written" in browser.run(SHOWN % (NOTEBOOK, check))
    editor = f"{NOTEBOOK}.widgets[{skeleton}].node.querySelector('.cm-content')"
    browser.run(f"{editor}.scrollIntoView(); {editor}.focus(); 1")
    everything = {"key": "a", "code": "KeyA", "windowsVirtualKeyCode": 65, "modifiers": 2}
    browser.call("Input.dispatchKeyEvent", type="rawKeyDown", commands=["selectAll"], **everything)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **everything)
    head = sources[skeleton].partition("\n")[0]
    browser.call("Input.insertText", text=f"{head}\n{level.path.read_text().strip()}\n")
    run_next(page, skeleton)
    run_next(page, check)
    assert f"Level {number} holds: " in browser.run(SHOWN % (NOTEBOOK, check))
    assert page.complaints() == []
