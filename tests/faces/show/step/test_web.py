"""`run --step --web`: a presenter and two viewers in real browsers, and what others may not do."""

import http.client
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from conftest import Program, processes, wait_until
from faces.show.browser import Browser
from faces.show.pages import show
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces import recordings
from minirun.faces.show.log import recording
from minirun.faces.show.log.event import Tail
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.web.board import Board
from required import installed

GPUS = ("--gpus", "0,1", "--gpu-driver", "simulated")
PLACE = "document.getElementById('live-place')?.textContent ?? ''"


class Talk:
    """A run that is stepped on the web, and its two addresses."""

    def __init__(self, minirun: Program, *flags: str) -> None:
        self.process = minirun.start(
            "run", "--step", "--web", *flags, "busybox", "echo", "the command"
        )
        assert self.process.stderr
        said = [self.process.stderr.readline() for _ in range(2)]
        self.presenter, self.viewer = (
            re.findall(r"http://127\.0\.0\.1:\d+/\S+/", s)[0] for s in said
        )

    def request(
        self, method: str, url: str, body: object = None, **headers: str
    ) -> tuple[int, bytes]:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=20)
        data = None if body is None else json.dumps(body)
        kind = {"Content-Type": "application/json"} if data else {}
        with closing(connection):
            connection.request(method, parts.path, data, kind | headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def press(self, key: str, argument: str = "", **headers: str) -> int:
        body = {"key": key, "argument": argument}
        return self.request("POST", f"{self.presenter}do", body, **headers)[0]

    def place(self) -> str:
        """Where the run is held, by the viewers' page."""
        _, page = self.request("GET", self.viewer)
        found = re.search(r'"stop":"([^"]*)"', page.decode())
        return found[1] if found else ""

    def end(self) -> tuple[int, str, str]:
        out, error = self.process.communicate(timeout=30)
        return self.process.returncode, out, error


@pytest.fixture
def talk(minirun: Program) -> Iterator[Talk]:
    found = Talk(minirun, "--name", "talk", *GPUS)
    yield found
    if found.process.poll() is None:
        found.process.send_signal(signal.SIGINT)
        found.process.communicate(timeout=30)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Browser]]:
    installed("chromium")
    opened = [Browser(tmp_path_factory.mktemp("profile"), loopback=True) for _ in range(3)]
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def browsers(three: list[Browser]) -> list[Browser]:
    """Three browsers, with an empty page each."""
    for each in three:
        each.renew()
    return three


def placed(browser: Browser, text: str) -> None:
    """Wait until the page says where the run is."""
    deadline = time.monotonic() + 20
    found = ""
    while text not in found:
        assert time.monotonic() < deadline, f"no {text!r}: {found!r}"
        found = browser.run(f"document.readyState === 'complete' ? {PLACE} : ''")
        time.sleep(0.03)


DRAWN = """[...document.querySelectorAll('#table tbody tr, #lanes .event')].map(one => [one.id,
  one.innerText, one.ariaLabel, one.getAttribute('class')?.replace('current', '').trim(),
  one.querySelector('.arrow')?.getAttribute('class')].join(' '))"""
"""All events of a page: their rows, and how they are drawn and spoken."""


def test_the_page_grows_to_what_a_new_page_would_be(
    talk: Talk, browsers: list[Browser], minirun: Program, tmp_path: Path
) -> None:
    watched, fresh, _ = browsers
    watched.visit(talk.viewer)
    placed(watched, "before stage 1:")
    watched.run("window.kept = document.querySelector('#table')")
    counts = [watched.run("document.querySelectorAll('.event').length")]
    for key, argument, place in (
        ("until", "mknodat /dev/nvidia0", "after mknodat /dev/nvidia0 c 195:0: ok, stage 5"),
        ("next", "", "after stage 5"), ("continue", "", "the run has started its command"),
    ):  # fmt: skip
        assert talk.press(key, argument) == 200
        placed(watched, place)
        counts.append(watched.run("document.querySelectorAll('.event').length"))
    assert counts == sorted(set(counts)), "it has grown at each stop"
    assert watched.run("window.kept === document.querySelector('#table')"), "never fetched anew"
    assert talk.end()[:2] == (0, "the command\n")
    drawn = watched.run(DRAWN)
    assert watched.run("document.querySelectorAll('tr.current').length") == 1
    (found,) = recording.read(minirun.directory("talk") / "events.jsonl")
    show(fresh, tmp_path, [Recording(found.id, found.events[: counts[-1]])])
    assert drawn == fresh.run(DRAWN)
    picture = "document.querySelector('.still svg').innerHTML"
    assert watched.run(picture) == fresh.run(picture), "it prints what a new page would print"
    assert watched.run("document.querySelectorAll('.event.end').length") == 7
    assert watched.run("document.querySelector('.banner').textContent").startswith("SIMULATED")
    assert [one for one in watched.complaints() if "127.0.0.1" not in one] == []


def test_a_presenter_and_two_viewers(talk: Talk, browsers: list[Browser]) -> None:
    presenter, *viewers = browsers
    presenter.visit(talk.presenter)
    for viewer in viewers:
        viewer.visit(talk.viewer, width=400)
    for number in range(1, 8):
        for when in ("before", "after"):
            for each in browsers:
                placed(each, f"{when} stage {number}:")
                lit = "document.querySelector('.stages .lit')?.dataset.stage"
                assert each.run(lit) == str(number)
            if (when, number) == ("after", 5):
                changed = presenter.run("document.getElementById('changes').textContent")
                assert "nodes: /dev/nvidia0 c 195:0" in changed
                assert viewers[0].run("document.getElementById('controls').hidden")
                presenter.run("document.getElementById('shell').focus()")
                presenter.press(*"ls /dev", "Enter")
                presenter.wait(
                    "document.readyState === 'complete' && "
                    "/nvidia1/.test(document.getElementById('live-said').textContent)"
                )
                refused = viewers[0].call(
                    "Runtime.evaluate", awaitPromise=True, returnByValue=True,
                    expression="fetch('do', {method: 'POST', headers: {'Content-Type': "
                    "'application/json'}, body: '{\"key\":\"quit\",\"argument\":\"\"}'})"
                    ".then(a => a.status)",
                )  # fmt: skip
                assert refused["result"]["value"] == 403
            presenter.run("document.querySelector('#controls [data-key=next]').click()")
    for each in browsers:
        placed(each, "the run has started its command, or is over")
        assert each.run("document.querySelectorAll('.event.end').length") == 7
    assert talk.end()[:2] == (0, "the command\n")
    for each in browsers:
        found = [one for one in each.complaints() if "127.0.0.1" not in one]
        assert found == []


def test_a_stop_has_its_own_snapshot(talk: Talk) -> None:
    """What a stage has changed is to be seen at its end, and not one stop later."""
    wait_until(lambda: talk.place().startswith("before stage 1"))
    talk.press("until", "5:end")
    wait_until(lambda: talk.place().startswith("after stage 5"))
    page = talk.request("GET", talk.viewer)[1].decode()
    (taken,) = re.findall(r'"at":(\[[^]]*\])', page)
    assert json.loads(taken)[-2:] == ["5:begin", "5:end"]


@pytest.mark.parametrize("event", ["clone3", "prctl", "mknodat", "RUN_HOOKS"])
def test_the_page_follows_to_what_it_is_held_after(
    talk: Talk, browsers: list[Browser], event: str
) -> None:
    """After clone3 too, when init goes on; a reader who has chosen an event stays there."""
    viewer, reader, _ = browsers
    for each in (viewer, reader):
        each.visit(talk.viewer, width=400)
        placed(each, "before stage 1:")
    reader.run("document.querySelector('a[href=\"#event-0-0\"]').click()")
    assert talk.press("until", event) == 200
    chosen = "document.querySelector('tr.current td:nth-child(5)').textContent"
    for each, what in ((viewer, event), (reader, reader.run(chosen))):
        placed(each, f"after {event}")
        time.sleep(0.5)  # for init
        assert each.run(chosen).startswith(what)
    assert talk.press("quit") == 200
    assert talk.end()[0] != 0


def test_by_the_keyboard_alone(talk: Talk, browsers: list[Browser]) -> None:
    presenter = browsers[0]
    presenter.visit(talk.presenter)
    placed(presenter, "before stage 1:")
    for _ in range(12):
        presenter.press("Tab")
        if presenter.run("document.activeElement.dataset.key") == "next":
            break
    presenter.press("Enter")
    placed(presenter, "after stage 1:")
    presenter.run("document.getElementById('until').focus()")
    presenter.press(*"mknodat /dev/nvidia0", "Enter")
    placed(presenter, "after mknodat /dev/nvidia0 c 195:0: ok, stage 5")
    chosen = "document.querySelector('tr.current').innerText"
    assert "mknodat /dev/nvidia0 c 195:0" in presenter.run(chosen), "and not the gate's"
    assert "mknodat /dev/nvidia0 c 195:0" in presenter.run(
        "document.getElementById('hint').innerText"
    )
    presenter.run("document.getElementById('until').select()")
    presenter.press(*"mkndat", "Enter")
    said = "document.getElementById('live-said').textContent"
    presenter.wait(f"{said} === \"no event is called 'mkndat' (did you mean mknodat?)\"")
    placed(presenter, "after mknodat /dev/nvidia0 c 195:0: ok, stage 5")
    assert talk.press("quit") == 200
    assert talk.end()[0] != 0


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/", "GET", {}, 403),
        ("/wrong/", "GET", {}, 403),
        ("/%2e%2e/", "GET", {}, 403),
        ("{presenter}", "GET", {"Host": "evil.example"}, 403),
        ("{presenter}", "GET", {"Host": "127.0.0.1:1"}, 403),
        ("{presenter}../../etc/passwd", "GET", {}, 404),
        ("{viewer}do", "POST", {}, 403),
        ("{presenter}do", "POST", {"Origin": "http://evil.example"}, 403),
        ("{presenter}do", "POST", {"Origin": "null"}, 403),
        ("{presenter}do", "POST", {"Content-Type": "text/plain"}, 404),
        ("{presenter}do", "POST", {"Content-Length": "999999"}, 413),
        ("{presenter}do", "PUT", {}, 501),
        ("{presenter}", "GET", {}, 200),
    ],
)
def test_who_may_do_what(
    talk: Talk, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    wait_until(lambda: talk.place().startswith("before stage 1"))
    places = {"presenter": urlsplit(talk.presenter).path, "viewer": urlsplit(talk.viewer).path}
    base = talk.presenter.partition("/")[0] + "//" + urlsplit(talk.presenter).netloc
    body = {"key": "quit", "argument": ""} if method == "POST" else None
    found, content = talk.request(method, base + path.format(**places), body, **headers)
    assert found == status
    assert not content or status in (200, 501)
    assert talk.place().startswith("before stage 1"), "nothing came of it"
    assert talk.process.poll() is None


@pytest.mark.parametrize("body", [[], {"key": "next"}, {"key": "rm", "argument": ""}, "next", 5,
                                  {"key": "next", "argument": 5}])  # fmt: skip
def test_a_button_that_there_is_not(talk: Talk, body: object) -> None:
    wait_until(lambda: talk.place().startswith("before stage 1"))
    assert talk.request("POST", f"{talk.presenter}do", body)[0] == 400
    assert talk.place().startswith("before stage 1")


def test_it_listens_on_the_loopback_alone(talk: Talk) -> None:
    port = urlsplit(talk.presenter).port
    table = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    rows = [
        line.split()[1] for line in table.splitlines() if f":{port:04X} " in line and " 0A " in line
    ]
    assert rows == [f"0100007F:{port:04X}"]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_server_is_killed_at_a_gate(talk: Talk, minirun: Program, boundary: str) -> None:
    _hold(talk, boundary)
    steppers = [pid for pid, _, argv in processes() if _is_stepper(pid, talk.process.pid)]
    assert len(steppers) == 1
    os.kill(steppers[0], signal.SIGKILL)
    assert talk.end()[:2] == (0, "the command\n"), "the run goes on without it"
    assert minirun("rm", "talk").returncode == 0
    assert minirun.left() == []


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_run_is_interrupted_at_a_gate(talk: Talk, minirun: Program, boundary: str) -> None:
    _hold(talk, boundary)
    talk.process.send_signal(signal.SIGINT)
    assert talk.end()[:2] == (130, "")
    assert minirun.left() == []


def _hold(talk: Talk, boundary: str) -> None:
    """Let the run go on to a boundary."""
    wait_until(lambda: talk.place() != "")
    if boundary != BOUNDARIES[0]:
        assert talk.press("until", boundary) == 200
    stage, _, edge = boundary.partition(":")
    words = "before" if edge == "begin" else "after"
    wait_until(lambda: talk.place().startswith(f"{words} stage {stage}"))


def _is_stepper(pid: int, parent: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)
        return words[0].endswith("(minirun:step") and int(words[1].split()[1]) == parent
    except OSError:
        return False


def test_a_hostile_output_is_only_text(talk: Talk) -> None:
    wait_until(lambda: talk.place() != "")
    assert talk.press("until", "5:begin") == 200
    wait_until(lambda: talk.place().startswith("before stage 5"))
    assert talk.press("shell", "printf '</script><script>hacked\\033[2J'") == 200
    wait_until(lambda: b"hacked" in talk.request("GET", talk.viewer)[1])
    page = talk.request("GET", talk.viewer)[1]
    assert b"<script>hacked" not in page and b"\x1b" not in page
    assert b"\\\\x1b[2J" in page
    assert talk.press("continue") == 200
    assert talk.end()[:2] == (0, "the command\n")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--web",), "--web is a page for --step (--step --web, without --script and --detach)"),
        (("--step", "--web", "-d"), "--step needs a terminal to read keys from"),
        (("--step", "--web=x"), "invalid --web 'x' (a port: --web=8080)"),
        (("--step", "--web=70000"), "invalid --web '70000' (a port: --web=8080)"),
    ],
)
def test_mistakes(minirun: Program, flags: tuple[str, ...], text: str) -> None:
    done = minirun("run", *flags, "busybox", "true")
    assert done.returncode == 125
    assert done.stderr.startswith(f"minirun: {text}") and done.stderr.count("\n") == 1
    assert minirun.left() == []


def test_a_stage_that_did_not_come_is_not_awaited_at_the_end() -> None:
    """A run without GPUs has no stages 4 and 5; as long as it goes on, they may come."""
    tail = Tail(str(recordings.path("plain")))
    events = tail.events()
    tail.close()
    board = Board("plain", "en")
    board.add(*events)
    grown = (board.news(0, 0, 0) or {})["grown"]
    assert [n for n, who in enumerate(grown["stages"], 1) if who == "not yet"] == [4, 5]
    board.show(over=True)
    news = board.news(0, len(events), 0) or {}
    assert {news["grown"]["stages"][n - 1] for n in (4, 5)} == {"not in this recording"}
    assert ">not yet<" not in board.page(presenter=False)
