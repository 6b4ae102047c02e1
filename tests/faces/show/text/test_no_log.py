"""MINIRUN_LOG=off: what needs no log works as ever, and a view that is asked for is refused."""

from pathlib import Path

import pytest

from conftest import Program
from faces.show.terminal import Start

RUN = ("run", "--rm", "--network", "none")


@pytest.fixture(autouse=True)
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIRUN_LOG", "off")


def test_a_run_on_a_terminal_goes_without_its_summary(minirun: Program, terminal: Start) -> None:
    screen = terminal(minirun.argv(*RUN, "busybox", "echo", "here"), 80, 24)
    screen.wait("ended with")
    shown = [line for line in screen.visible() if line.strip()]
    assert shown[0].strip() == "here" and "ended with 0" in shown


VIEWS = ("--progress=lanes", "--plain", "--pace=0.1", "--step --script=/dev/null", "--snapshots")


@pytest.mark.parametrize("flags", VIEWS)
def test_a_view_that_is_asked_for_is_refused(minirun: Program, flags: str) -> None:
    done = minirun(*RUN, *flags.split(), "busybox", "echo", "here")
    assert (done.returncode, done.stdout) == (125, "")
    assert "minirun: MINIRUN_LOG=off: there is no log that a view could show" in done.stderr
    assert not minirun("list", "--quiet").stdout


def test_a_file_for_the_log_is_refused(minirun: Program, tmp_path: Path) -> None:
    done = minirun("--log", str(tmp_path / "log"), *RUN, "busybox", "echo", "here")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "minirun: MINIRUN_LOG=off: there is no log to be written to --log FILE\n"
    assert not minirun("list", "--quiet").stdout
