"""The HTML page in a real browser, without a network, by the keyboard alone."""

import hashlib
import html as escapes
import json
import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Program
from faces.show.browser import Browser
from faces.show.pages import hidden, shipped, show, text
from minirun.faces import recordings
from minirun.faces.show.log import recording
from minirun.faces.show.page import html

CURRENT = "document.activeElement"
RGB = tuple[int, int, int]


def reach_events(browser: Browser) -> None:
    """Get from the top of the page to the first event, by the keyboard."""
    browser.press("Tab")
    assert text(browser, ":focus") == "Skip to the lanes"
    browser.press("Enter", "Tab")
    assert browser.run(f"{CURRENT}.getAttribute('role')") == "option"


# --- what is in the file ------------------------------------------------------------------------


def test_a_run_makes_a_small_page_that_stands_alone(minirun: Program) -> None:
    command = ("--gpus", "0,1", "--gpu-driver=simulated", "busybox", "true")
    done = minirun("run", "--rm", "--snapshots", *command)
    assert done.returncode == 0, done.stderr
    (log,) = minirun.root.glob(".history/*.jsonl")
    found = recording.read(log)
    assert found[0].snapshots
    unnamed = [event for event in found[0].events if event.name != "origin"]
    page = html.render([replace(found[0], id="gpus & no <network>", events=unnamed)])
    assert len(page.encode()) < 500_000
    assert "<title>How container gpus &amp; no &lt;network&gt; was made</title>" in page
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', page) == ["data:,"]
    assert "SIMULATED: the GPUs are the simulated driver's" in page


def test_only_its_own_style_and_script_may_run() -> None:
    page = html.render(shipped("plain"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy and policy[1].startswith("default-src 'none';") and "unsafe" not in policy[1]
    for tag in ("style", "script"):
        source = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert source
        digest = b64encode(hashlib.sha256(source[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert not re.search(r'<[^>]* (style|on\w+)="', page)


SIZES = {"figure-1": 700_000, "cdi": 400_000, "cdi-podman": 450_000, "cdi-containerd": 400_000}
"""The most that a page may have: of three containers, and where each mount is init's."""


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_the_table_has_every_event_without_a_script(name: str) -> None:
    found = shipped(name)
    page = html.render(found)
    rows = re.findall(r'<tr id="row-(\d+)-(\d+)"', page)
    wanted = [(str(n), str(i)) for n, each in enumerate(found) for i in range(len(each.events))]
    assert rows == wanted
    assert len(page.encode()) < SIZES.get(name, 300_000)
    for each in found:
        for event in each.events:
            assert escapes.escape(event.why) in page


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(ValueError, match="no recording"):
        html.render([])


# --- in the browser -----------------------------------------------------------------------------


def test_keyboard_moves_between_events(page: Browser) -> None:
    reach_events(page)
    first = page.run(f"{CURRENT}.id")
    page.press("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft")
    assert page.run(f"{CURRENT}.id") == first
    page.press("PageDown")
    assert "stage 1" in page.run(f"{CURRENT}.getAttribute('aria-label')")
    page.press("PageDown", "PageDown", "PageDown", "PageDown")
    assert "nodes, driver libraries" in page.run(f"{CURRENT}.getAttribute('aria-label')")
    page.press("ArrowUp")
    assert ", hook, stage" in page.run(f"{CURRENT}.getAttribute('aria-label')")
    page.press("End")
    assert "command ended" in page.run(f"{CURRENT}.getAttribute('aria-label')")
    assert page.run("document.querySelectorAll('[aria-selected=true]').length") == 1


def test_keyboard_opens_searches_and_closes(page: Browser) -> None:
    reach_events(page)
    assert hidden(page, "#panel")
    nodes = [e for e in shipped("gpus-0-1")[0].events if e.name == "mknodat"]
    page.press("/", *"mknodat", "Enter", "Enter")
    assert text(page, "#hits") == f"2 of {len(nodes)}"
    page.press("/", *"no such thing")  # in the field, "/" is a letter
    assert text(page, "#hits") == "no hit"
    page.press("Escape", "/", *"lowerdir=", "Enter")
    assert text(page, "#hits") == "1 of 1"
    page.press("Escape")
    assert page.run(f"{CURRENT}.getAttribute('aria-label')").startswith("mount overlay")
    page.press("Enter")
    assert not hidden(page, "#panel")
    assert page.run(f"{CURRENT}.id") == "panel"
    assert text(page, "#event-title").startswith("mount")
    assert "lowerdir=" in text(page, "#event-arguments")
    why = text(page, "#event-why")
    assert "the image stays untouched" in why  # the event's own
    assert "OverlayFS stacks directories" in why  # what minirun knows of this use of the call
    assert "man pagemount(2)" in why
    page.press("Escape")
    assert hidden(page, "#panel")
    assert page.run(f"{CURRENT}.classList.contains('event')")


def test_keyboard_zooms_and_pans(page: Browser) -> None:
    reach_events(page)
    width = "document.querySelector('.recording svg').getBoundingClientRect().width"
    scroll = "document.getElementById('lanes').scrollLeft"
    before = page.run(width)
    page.press("+", "+")
    assert page.run(width) == pytest.approx(4 * before)
    assert text(page, "#zoom") == "400 %"
    assert page.run(scroll) < 50  # around the first event
    page.press("ArrowRight", shift=True)
    assert page.run(scroll) > 100
    page.press("-", "0")
    assert page.run(width) == before


def test_the_wheel_zooms_with_control_at_the_pointer(page: Browser) -> None:
    place = "document.querySelector('.exec .solid').getBoundingClientRect().x"
    before = page.run(place)
    y = page.run("document.querySelector('.exec').getBoundingClientRect().y") + 5
    page.call(
        "Input.dispatchMouseEvent", type="mouseWheel", x=before, y=y, deltaX=0, deltaY=-400,
        modifiers=2,
    )  # fmt: skip
    page.wait("document.getElementById('zoom').textContent !== '100 %'")
    assert page.run(place) == pytest.approx(before, abs=3)


def test_a_click_opens_the_event_under_it(page: Browser) -> None:
    box = page.run(
        "(r => [r.x + r.width / 2, r.y + r.height / 2])([...document.querySelectorAll('.event')]"
        ".find(e => e.getAttribute('aria-label').startsWith('clone3'))"
        ".querySelector('.bar').getBoundingClientRect())"
    )
    page.click(*box)
    assert text(page, "#event-title").startswith("clone3")


def test_filter_takes_events_out_of_lanes_and_table(page: Browser) -> None:
    shown = "[...document.querySelectorAll('.event')].filter(e => e.getClientRects().length).length"
    rows = "[...document.querySelectorAll('tbody tr')].filter(e => !e.hidden).length"
    whole = page.run(shown)
    assert whole == page.run(rows) == len(shipped("gpus-0-1")[0].events)
    names = "[...document.querySelectorAll('#filter-names label')]"
    page.run(f"{names}.find(e => e.textContent.trim().startsWith('prctl')).click()")
    calls = [e for e in shipped("gpus-0-1")[0].events if e.name == "prctl"]
    assert page.run(shown) == page.run(rows) == whole - len(calls)
    page.run("document.getElementById('filter-all').click()")
    assert page.run(shown) == whole


def test_before_and_after(page: Browser) -> None:
    """What stage 5 brought, as its snapshots say; and nothing between the same moments."""
    chosen = page.run("[...document.querySelectorAll('#differ option:checked')].map(o => o.text)")
    assert chosen == ["before stage 5 (5:begin)", "after stage 5 (5:end)"]
    added = page.run("[...document.querySelectorAll('#differ .files ins')].map(e => e.textContent)")
    assert "./dev/nvidia0 c 195:0" in added
    taken = shipped("gpus-0-1")[0].snapshots
    assert set(added) == set(taken["5:end"]["files"]) - set(taken["5:begin"]["files"])
    assert page.run("document.querySelector('#differ .devices summary').textContent").startswith(
        "Device rules+"
    )
    page.run(
        "(([before, after]) => { before.value = after.value; before.dispatchEvent("
        "new Event('change')) })(document.querySelectorAll('#differ select'))"
    )
    assert page.run("document.querySelectorAll('#differ ins, #differ del').length") == 0


def test_without_snapshots_it_says_how_to_get_them(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, shipped("failing-hook"))
    assert "minirun run --snapshots" in text(browser, "#differ")
    assert browser.run("document.querySelectorAll('.event.failed').length") > 0


def test_three_containers_share_one_axis(browser: Browser, tmp_path: Path) -> None:
    found = shipped("figure-1")
    show(browser, tmp_path, found)
    assert browser.run("document.querySelectorAll('.recording svg').length") == 3
    assert browser.run("document.querySelectorAll('.axis').length") == 1
    begins = browser.run(
        "[0, 1, 2].map(n => Math.min(...[...document.querySelectorAll(`[id^='event-${n}-']`)]"
        ".map(e => e.getBoundingClientRect().x)))"
    )
    starts = [each.start for each in found]
    assert sorted(range(3), key=lambda n: starts[n]) == sorted(range(3), key=lambda n: begins[n])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lanes_and_arrows_are_painted(page: Browser, tmp_path: Path, scheme: str) -> None:
    """The colours where bar, band, arrow and empty paper must be."""
    show(page, tmp_path, shipped("gpus-0-1"), scheme=scheme, height=1000)
    paper = page.pixel(5, 5)
    assert (sum(paper) > 600) == (scheme == "light")
    boxes = page.run(
        "(e => Object.fromEntries(Object.entries(e).map(([k, v]) => {"
        "const r = v.getBoundingClientRect(); return [k, [r.x, r.y, r.width, r.height]] })))({"
        "bar: [...document.querySelectorAll('.event')].find(e => e.getAttribute('aria-label')"
        ".startsWith('clone3')).querySelector('.bar'),"
        "band: document.querySelector('.band'), arrow: document.querySelector('.message .arrow')})"
    )

    def at(name: str, right: float, down: float) -> RGB:
        x, y, width, height = boxes[name]
        return page.pixel(x + right * width, y + down * height)

    bar, band = at("bar", 0.5, 0.5), at("band", 0.3, 0.15)
    assert bar[2] > bar[0]  # the runtime's is a blue
    assert far(bar, paper) > 100
    assert 8 < far(band, paper) < far(bar, paper)
    x, y, width, height = boxes["arrow"]
    across = [page.pixel(x + width / 2 + step, y + height / 2) for step in (-2, -1, 0, 1)]
    assert max(far(colour, paper) for colour in across) > 60
    assert page.pixel(x - 12, y + height / 2) == paper


def far(one: RGB, other: RGB) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def test_print_has_the_still_picture_and_all_events(page: Browser) -> None:
    page.media("print")
    assert hidden(page, "#lanes") and hidden(page, ".tools") and not hidden(page, ".still svg")
    rows = "[...document.querySelectorAll('tbody tr')].filter(e => e.getClientRects().length)"
    assert page.run(f"{rows}.length") == len(shipped("gpus-0-1")[0].events)
    assert len(page.call("Page.printToPDF")["data"]) > 10_000


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_nothing_runs_over_the_edge(page: Browser, tmp_path: Path, width: int) -> None:
    show(page, tmp_path, shipped("gpus-0-1"), width=width)
    assert page.run("document.documentElement.scrollWidth") <= width


HOSTILE = [
    "<script>window.hacked = 1</script>", "</script><img src=x onerror=window.hacked=1>",
    "\"' onload=window.hacked=1 x='", "\u2028window.hacked=1\u2029", "\x1b[31mred\x1b]0;title\x07",
    "${window.hacked=1}", "<!--", "]]>", "\u202egnp.exe", "\ud800", "$title", "\\u003c",
]  # fmt: skip


def test_hostile_names_are_inert(browser: Browser, tmp_path: Path) -> None:
    """Whatever a container calls its things, the page shows it and does not obey."""
    browser.events.clear()
    lines = []
    base = {"v": 1, "id": HOSTILE[1], "stage": 1, "pid": 1, "ret": 0, "errno": None, "dur": 5}
    for kind in ("begin", "syscall", "message", "exec", "note", "gate", "end"):
        for number, evil in enumerate(HOSTILE):
            event = {**base, "t": len(lines) * 1000, "actor": evil, "kind": kind, "name": evil}
            event |= {"args": {evil: evil, "to": HOSTILE[0]}, "why": evil, "stage": number}
            lines.append(json.dumps(event))
    snapshot = {
        "at": "5:begin",
        "files": HOSTILE,
        "mounts": HOSTILE,
        "namespaces": {},
        "devices": [],
    }
    note = {"kind": "note", "name": "snapshot", "actor": "step", "why": "", "args": snapshot}
    lines += [
        json.dumps({**base, **note, "t": 1}),
        json.dumps({**base, "kind": HOSTILE[2], "t": 5}),
    ]
    found = recording.parse("\n".join(lines).encode())
    show(browser, tmp_path, found)
    reach_events(browser)
    browser.press("Enter", *["ArrowRight"] * len(found[0].events))
    browser.press("Escape", "Home", "/", *"<script>", "Enter", "Escape", "Enter")
    browser.run("document.querySelectorAll('summary, input').forEach(e => e.click())")
    assert browser.run("window.hacked") is None
    assert browser.run("document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.run("document.scripts.length") == 2
    assert browser.complaints() == []
    shown = browser.run("document.body.innerText + document.querySelector('#table').textContent")
    assert HOSTILE[0] in shown and HOSTILE[1] in shown
    assert not re.search("[\x1b\x07\u2028\u2029\u202e]", shown)
    assert "\\x1b[31mred" in shown and "\\u202egnp.exe" in shown


def test_the_page_speaks_korean(browser: Browser, tmp_path: Path) -> None:
    """All of it but the log: no English sentence is left outside what is marked as English."""
    browser.events.clear()
    show(browser, tmp_path, shipped("gpus-0-1"), "ko")
    assert browser.run("document.documentElement.lang") == "ko"
    assert text(browser, "h1") == "만들어진 과정: 컨테이너 gpus-0-1"
    browser.press("Tab")
    assert text(browser, ":focus") == "레인으로 건너뛰기"
    browser.press("Enter", "Tab", "/", *"lowerdir=", "Enter", "Escape", "Enter")
    why = text(browser, "#event-why")
    assert "OverlayFS는 디렉터리를 겹쳐 쌓는다" in why
    assert "man 페이지mount(2)" in why
    assert text(browser, "#event-title").startswith("mount")
    assert browser.run("document.querySelector('#event-why .why').lang") == "en"
    elements = ".live button, .live label, .live legend, h2, h3, .legend li, dt"
    labels = browser.run(
        f"[...document.querySelectorAll('{elements}')].map((one) => one.textContent)"
    )
    english = [one for one in labels if re.search("[a-z]{3} [a-z]{2,}", one)]
    known = {event.name for event in shipped("gpus-0-1")[0].events}
    assert [one for one in english if not any(name in one for name in known)] == []
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("language", "stage", "held"),
    [
        ("en", "runtime · not ended", "held at 1 gate for 0µs, which no "),
        ("ko", "runtime · 끝나지 않음", "gate 1곳에서 0µs 동안 멈추었고, 단계의 시간에는"),
    ],
)
def test_a_start_that_stands_at_its_first_gate(language: str, stage: str, held: str) -> None:
    lines = [
        {"kind": "begin", "name": "clone and root filesystem", "t": 1000},
        {"kind": "gate", "name": "1:begin", "t": 2000},
    ]
    said = [{"v": 1, "id": "c", "stage": 1, "actor": "runtime", "pid": 7, **line} for line in lines]
    found = recording.parse("".join(f"{json.dumps(line)}\n" for line in said).encode())
    page = html.render(found, language=language)
    assert stage in page and held in page
