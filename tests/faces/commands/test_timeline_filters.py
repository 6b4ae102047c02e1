"""timeline --stage and --filter, failed starts first, and the width of a pager's terminal."""

import pytest

from conftest import Program
from engines.clients.screen import Screen
from minirun.faces import recordings
from minirun.faces.show.log.recording import read

(GPUS,) = read(recordings.path("gpus-0-1"))


def shown(minirun: Program, *flags: str) -> list[str]:
    done = minirun("replay", "gpus-0-1", "--text", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


@pytest.mark.parametrize(
    ("flags", "fits"),
    [
        (("--stage", "5"), lambda e: e.stage == 5),
        (("--stage", "4,6"), lambda e: e.stage in (4, 6)),
        (("--filter", "name=m*"), lambda e: e.name.startswith("m")),
        (("--filter", "name=mount", "--filter", "name=mknodat"),
         lambda e: e.name in ("mount", "mknodat")),
        (("--filter", "actor=init", "--filter", "kind=syscall"),
         lambda e: (e.actor, e.kind) == ("init", "syscall")),
        (("--filter", "path=/dev/nvidia[01]", "--stage", "5"),
         lambda e: e.stage == 5 and e.args.get("path") in ("/dev/nvidia0", "/dev/nvidia1")),
        (("--filter", "errno=?*"), lambda e: bool(e.errno)),
    ],
)  # fmt: skip
def test_what_fits_is_shown_and_nothing_else(
    minirun: Program, flags: tuple[str, ...], fits
) -> None:  # type: ignore[no-untyped-def]
    expected = [event for event in GPUS.events if fits(event)]
    lines = shown(minirun, *flags)
    assert len(lines) == len(expected)
    whole = shown(minirun)
    assert set(lines) <= set(whole), "times are those of the whole start"


def test_the_picture_of_a_stage(minirun: Program) -> None:
    lines = minirun("replay", "gpus-0-1", "--stage", "5").stdout.splitlines()
    assert lines[2].startswith("5 cli ")
    assert any("5 nodes in /dev: nvidia0" in line for line in lines), "milestones, by default"
    assert not any(line[:2] in ("1 ", "4 ", "6 ", "7 ") for line in lines)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--stage", "8"), "invalid --stage '8' (1 to 7, or several: 4,5)"),
        (("--stage", "4,"), "invalid --stage '4,' (1 to 7, or several: 4,5)"),
        (("--filter", "name"), "invalid --filter 'name' (KEY=PATTERN, with one of actor, kind, "),
        (("--filter", "who=x"), "invalid --filter 'who=x' (KEY=PATTERN, with one of actor, "),
        (("--stage", "5", "--html", "-"), "--stage and --filter are for text"),
    ],
)
def test_mistakes(minirun: Program, flags: tuple[str, ...], text: str) -> None:
    done = minirun("replay", "gpus-0-1", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"minirun: {text}")


@pytest.mark.parametrize("view", ["timeline", "replay"])
@pytest.mark.parametrize("flags", [
    ("--stage", "4"), ("--filter", "name=mount"), ("--html", "page.html"), ("--svg", "page.svg"),
    ("--trace", "page.json"),
])  # fmt: skip
def test_without_a_start_there_is_nothing_to_filter_or_to_draw(
    minirun: Program, view: str, flags: tuple[str, ...]
) -> None:
    done = minirun(view, *flags)
    hint = f"minirun {view} lists the starts"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"minirun: {flags[0]} needs the name of a start ({hint})\n"


def test_failed_starts_come_first(minirun: Program) -> None:
    minirun("run", "--rm", "--name", "broken", "busybox", "/nosuch")
    for name in ("fine-1", "fine-2"):
        minirun("run", "--rm", "--name", name, "busybox", "true")
    rows = minirun("timeline").stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["broken", "fine-2", "fine-1"]


def test_the_width_of_the_terminal_behind_a_pipe(minirun: Program) -> None:
    argv = minirun.argv("replay", "gpus-0-1", "--speed", "0")
    words = " ".join(f"'{word}'" for word in argv)
    screen = Screen(
        ["sh", "-c", f"stty cols 132; {words} | cat"], {"LC_ALL": "C.UTF-8", "COLUMNS": ""}
    )
    lines = screen.rest().splitlines()
    assert screen.wait() == 0
    assert max(map(len, lines)) > 100
    assert max(map(len, lines)) <= 132


def test_the_width_that_columns_says(minirun: Program) -> None:
    done = minirun("replay", "gpus-0-1", env={"COLUMNS": "50", "LC_ALL": "C.UTF-8"})
    assert max(map(len, done.stdout.splitlines()[1:])) == 50
