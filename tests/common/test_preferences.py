"""`minirun settings`: written, read, and a file that is broken or another's."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of configuration of the test's own; the file lies in minirun/settings there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def test_a_setting_stays_until_it_is_unset(minirun: Program, home: Path) -> None:
    assert minirun("settings").stdout == "progress=auto\n"
    assert minirun("settings", "progress", "none").returncode == 0
    assert (home / "minirun/settings").read_text() == "progress=none\n"
    assert minirun("settings", "progress").stdout == "none\n"
    assert f"Settings File: {home}/minirun/settings\nProgress: none\n" in minirun("info").stdout
    assert minirun("settings", "--unset", "progress").returncode == 0
    assert not (home / "minirun/settings").exists()


def test_without_the_variable_it_is_below_the_home(
    minirun: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert minirun("settings", "progress", "plain").returncode == 0
    assert (tmp_path / ".config/minirun/settings").read_text() == "progress=plain\n"


def on_terminal(minirun: Program, *words: str) -> str:
    """Run it with a terminal as standard error; return what stands there."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        minirun.argv(*words), stdin=subprocess.DEVNULL, stderr=terminal
    ) as started:
        os.close(terminal)
        said = b""
        with contextlib.suppress(OSError):  # EIO: the last writer has gone
            while part := os.read(controller, 4096):
                said += part
    os.close(controller)
    assert started.returncode == 0, said
    return said.decode()


RUN = ("run", "--rm", "--network", "none", "busybox", "true")


def test_none_shows_no_stages_and_a_flag_goes_before_it(minirun: Program, home: Path) -> None:
    assert "pivot_root" in on_terminal(minirun, *RUN)
    minirun("settings", "progress", "none")
    assert on_terminal(minirun, *RUN) == ""
    assert "pivot_root" in on_terminal(minirun, "run", "--progress", "tty", *RUN[1:])


def directory(path: Path) -> None:
    path.mkdir()


def of_another_user(path: Path) -> None:
    path.write_text("progress=none\n")
    os.chown(path, 1234, 1234)


def writable_for_all(path: Path) -> None:
    path.write_text("progress=none\n")
    path.chmod(0o666)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda path: path.write_text("progress\n"), "line 1: no setting 'progress'"),
        (lambda path: path.write_text("# x\n\nnosuch=1\n"), "line 3: no setting 'nosuch'"),
        (lambda path: path.write_text("progress=loud\n"), "invalid value 'loud' of progress"),
        (lambda path: path.write_bytes(b"progress=\xff\n"), "it is not UTF-8"),
        (lambda path: path.write_bytes(bytes(1 << 17)), "no ordinary file"),
        (os.mkfifo, "no ordinary file"), (directory, "no ordinary file"),
        (of_another_user, "another user may write"), (writable_for_all, "another user may write"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_line(
    minirun: Program, home: Path, make: Callable[[Path], object], text: str
) -> None:
    (home / "minirun").mkdir(parents=True)
    make(home / "minirun/settings")
    done = minirun("settings")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and text in done.stderr
    lines = on_terminal(minirun, *RUN).splitlines()
    assert lines[0].startswith(f"minirun: warning: {home}/minirun/settings: ")
    assert lines[0].endswith("it is passed over")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("progress loud", "invalid value 'loud' of progress"), ("nosuch 1", "no setting 'nosuch'"),
        ("nosuch", "no setting 'nosuch'"), ("--unset nosuch", "no setting 'nosuch'"),
        ("--unset", "requires exactly 1 argument"), ("a b c", "requires at most 2 arguments"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused(minirun: Program, home: Path, words: str, text: str) -> None:
    done = minirun("settings", *words.split())
    assert done.returncode == 1 and text in done.stderr and done.stderr.count("\n") == 1
    assert not home.exists()
