"""`minirun diff A B`: two starts side by side."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from faces.show import pages
from faces.show.browser import Browser
from minirun.common.screen import display_width
from minirun.faces import recordings
from minirun.faces.show.compare import starts
from minirun.faces.show.log.recording import read

CGROUP = "/sys/fs/cgroup"
SIMULATED = "--gpu-driver=simulated"


def difference(minirun: Program, *names: str) -> tuple[int, list[str], list[str], str]:
    """The exit status, what only the first and only the second did, and the whole text."""
    done = minirun("diff", *names)
    assert done.stderr == ""
    rows = done.stdout.splitlines()[2:]
    only = [[row[4:] for row in rows if row.startswith(f"  {mark} ")] for mark in "<>"]
    return done.returncode, *only, done.stdout


def _is_its_own(args: dict[str, Any], container_id: str) -> bool:
    """Nothing that is done to a cgroup above a container's own."""
    path = str(args.get("path"))
    return CGROUP not in path or container_id in path


def test_two_starts_of_one_kind_do_the_same(minirun: Program) -> None:
    for name in ("d2", "other"):
        done = minirun("run", "--name", name, "--gpus", "0,1", SIMULATED, "busybox", "true")
        assert done.returncode == 0, done.stderr
    status, first, second, text = difference(minirun, "d2", "other")
    assert (status, first, second) == (0, [], []), text
    events = [e for e in minirun.events("d2") if e["kind"] != "gate"]
    last = next(at for at, e in enumerate(events) if (e["kind"], e["stage"]) == ("end", 7))
    assert len(events) > last + 1, "the clean-up, which depends on other containers"
    del events[last + 1 :]
    said = [e["args"] for e in events if e["name"] == "origin"]
    assert said == [{"image": "busybox:latest", "name": "d2"}]
    own = minirun.id("d2")
    events = [e for e in events if e["name"] != "origin"]  # who asked for it: no act of a start
    events = [e for e in events if e["name"] == "mount" or _is_its_own(e["args"], own)]
    assert f"the same in both: {len(events)} events" in text


def test_what_differs_stands_in_its_stage(minirun: Program) -> None:
    minirun("run", "--name", "two", "--gpus", "0,1", SIMULATED, "busybox", "true")
    minirun("run", "--name", "one", "--gpus", "device=1", SIMULATED, "--read-only", "busybox", "id")
    status, first, second, text = difference(minirun, "two", "one")
    assert status == 1
    assert "mknodat /dev/nvidia0 c 195:0" in first
    assert "gpus chosen gpus=0 1 of=4" in first and "gpus chosen gpus=1 of=4" in second
    assert not any("nvidia1 " in row for row in (*first, *second)), "both have GPU 1"
    assert [row for row in second if row.startswith("execve /") and row.endswith(" id")] != []
    assert "mount_setattr MOUNT_ATTR_RDONLY" in second, "the read-only root"
    heads = [row[:6] for row in text.splitlines() if row[:1] in "1234567" and row[1:2] == " "]
    assert [int(head[0]) for head in heads] == sorted(int(head[0]) for head in heads)
    assert "5 cli " in heads


def test_a_failed_start_beside_one_that_works(minirun: Program, tmp_path: Path) -> None:
    minirun("run", "--name", "works", "--gpus", "0", SIMULATED, "busybox", "true")
    minirun("run", "--rm", "--name", "broken", "--gpus", "device=9", SIMULATED, "busybox", "true")
    status, first, second, text = difference(minirun, "works", "broken")
    assert status == 1
    assert "> broken: failed in stage 5 (GPUs SIMULATED)" in text
    assert "failed: device error: 9: unknown device" in second
    assert any(row.startswith("pivot_root") for row in first)
    log = minirun.directory("works") / "events.jsonl"
    copy = tmp_path / "theirs.jsonl"
    copy.write_bytes(log.read_bytes())
    assert difference(minirun, "works", str(copy))[0] == 0, "a file of another machine will do"


def test_every_event_is_the_same_or_shown(minirun: Program) -> None:
    (one,), (other,) = (read(recordings.path(name)) for name in ("plain", "gpus-0-1"))
    changes = starts.compare(one, other)
    shown = sum(len(change.gone) for change in changes)
    end = next(at for at, e in enumerate(one.events) if (e.kind, e.stage) == ("end", 7))
    counted = [e for e in one.events[: end + 1] if e.kind != "gate" and e.actor != "step"]
    counted = [e for e in counted if e.name != "origin"]  # what it was made of, and called
    counted = [e for e in counted if e.name == "mount" or _is_its_own(e.args, e.id)]
    status, first, _, text = difference(minirun, "plain", "gpus-0-1")
    assert (status, len(first)) == (1, shown)
    assert f"the same in both: {len(counted) - shown} events" in text
    assert starts.compare(one, one) == []


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("nosuch", "plain"), "no recording of 'nosuch'"),
        (("figure-1", "plain"), "figure-1 holds several containers: a, b, c"),
        (("a", "b", "c"), "diff needs a container, and one thing to compare"),
        (("plain", "gpus-0-1", "--stage", "5"), "diff needs a container"),
    ],
)
def test_mistakes(minirun: Program, names: tuple[str, ...], text: str) -> None:
    done = minirun("diff", *names)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"minirun: {text}") and done.stderr.count("\n") == 1


def later(tmp_path: Path, name: str) -> Path:
    """A recording as another machine would have it: its clock is hours ahead."""
    events = [json.loads(row) for row in recordings.path(name).read_text().splitlines()]
    path = tmp_path / f"{name}.jsonl"
    ahead = 5 * 3600 * 10**9
    path.write_text("".join(f"{json.dumps(e | {'t': e['t'] + ahead})}\n" for e in events))
    return path


@pytest.mark.parametrize(("language", "title"), [("en", "What only one"), ("ko", "둘 중 하나만")])
def test_the_two_as_a_page(
    minirun: Program, browser: Browser, tmp_path: Path, language: str, title: str
) -> None:
    names = ("plain", str(later(tmp_path, "gpus-0-1")))
    _, first, second, _ = difference(minirun, *names)
    page = tmp_path / "page.html"
    done = minirun("diff", *names, "--html", str(page), "--lang", language)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert page.stat().st_size < 500_000
    browser.open(page)
    assert pages.text(browser, "#starts-title").startswith(title)
    links = browser.run("[...document.querySelectorAll('#starts a')].map(a => a.textContent)")
    assert sorted(links) == sorted([f"< {row}" for row in first] + [f"> {row}" for row in second])
    marked = "[...document.querySelectorAll('.event:has(.only)')].map(e => '#' + e.id)"
    targets = "[...document.querySelectorAll('#starts a')].map(a => a.getAttribute('href'))"
    assert sorted(browser.run(marked)) == sorted(browser.run(targets))
    for row in ("#row-0-0", "#row-1-0"):
        begin = pages.text(browser, f"{row} td")
        assert float(begin.removesuffix("ms")) < 1, "each begins with its own first event"
    browser.run("document.querySelector('#starts a[href^=\"#event-1-\"]').focus()")
    browser.press("Enter")
    assert not pages.hidden(browser, "#panel")
    chosen = browser.run("document.querySelector('.event[aria-selected=true]').id")
    wanted = next(target for target in browser.run(targets) if target.startswith("#event-1-"))
    assert f"#{chosen}" == wanted
    browser.open(page, width=400)
    assert browser.run("document.documentElement.scrollWidth") == 400
    assert browser.complaints() == []


def test_a_page_of_one_start_is_not_of_two(minirun: Program) -> None:
    done = minirun("diff", "plain", "--html", "-")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "minirun: --html is for two starts (minirun diff A B --html FILE)\n"


def test_reasons_are_as_wide_as_the_terminal(minirun: Program) -> None:
    """A Korean sign takes two columns of it."""
    done = minirun("diff", "plain", "runc", env={"LC_ALL": "ko_KR.UTF-8", "COLUMNS": "70"})
    reasons = [line for line in done.stdout.splitlines() if line.startswith(" " * 6)]
    assert len(reasons) > 40
    assert max(map(display_width, reasons)) <= 70
