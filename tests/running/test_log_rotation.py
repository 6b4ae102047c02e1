"""What `minirun logs` keeps has a bound: files of a size, so many of them, as docker's."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import Program, wait_until
from minirun.cli.words import log_limits
from minirun.docker import output_reader
from minirun.running.output import OutputLimits
from minirun.running.output_files import OutputLog

SHELL = ("busybox", "sh", "-c")
LINES = "i=0; while [ $i -lt {count} ]; do echo line $i; i=$((i+1)); {pause}done"


def files(program: Program, name: str) -> list[Path]:
    return sorted(program.directory(name).glob("log.json*"))


def numbers(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines()]


@pytest.mark.parametrize("flags", [("-d",), ()], ids=["detached", "shown"])
def test_the_oldest_lines_go(minirun: Program, flags: tuple[str, ...]) -> None:
    words = ("--log-opt", "max-size=4k", "--log-opt=max-file=3", *SHELL)
    minirun("run", "--name", "c", *flags, *words, LINES.format(count=2000, pause=""))
    wait_until(lambda: minirun("logs", "c").stdout.endswith("line 1999\n"))
    found = files(minirun, "c")
    assert [path.name for path in found] == ["log.json", "log.json.1", "log.json.2"]
    assert all(path.stat().st_size <= 4096 for path in found)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in found)
    kept = numbers(minirun("logs", "c").stdout)
    assert kept == list(range(kept[0], 2000)) and len(kept) > 100
    assert numbers(minirun("logs", "--tail", "70", "c").stdout) == list(range(1930, 2000))


def test_one_file(minirun: Program) -> None:
    words = ("--log-opt", "max-size=4k", "--log-opt", "max-file=1", *SHELL)
    minirun("run", "--name", "c", *words, LINES.format(count=500, pause=""))
    assert [path.name for path in files(minirun, "c")] == ["log.json"]
    kept = numbers(minirun("logs", "c").stdout)
    assert kept == list(range(kept[0], 500))


def test_no_limit(minirun: Program) -> None:
    words = ("--log-opt", "max-size=-1", *SHELL)
    minirun("run", "--name", "c", *words, LINES.format(count=500, pause=""))
    assert numbers(minirun("logs", "c").stdout) == list(range(500))


def test_follow_across_files(minirun: Program) -> None:
    pause = "[ $((i % 40)) -ne 0 ] || sleep 0.1; "
    words = ("--log-opt", "max-size=4k", "--log-opt", "max-file=5", *SHELL)
    minirun("run", "-d", "--name", "c", *words, LINES.format(count=1000, pause=pause))
    with minirun.start("logs", "-f", "c") as following:
        said, _ = following.communicate(timeout=60)
    assert numbers(said) == list(range(1000))
    assert len(files(minirun, "c")) == 5


@pytest.mark.parametrize("flags", [("--rm",), ()], ids=["removed", "kept"])
def test_follow_to_the_last_line(minirun: Program, flags: tuple[str, ...]) -> None:
    """The command has ended before its supervisor has written all of it down."""
    for number in range(4):
        name = f"c{number}"
        minirun("run", "-d", *flags, "--name", name, *SHELL, "sleep 0.5; seq 0 4000; echo end")
        done = minirun("logs", "-f", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-2:] == ["4000", "end"]


def test_a_usual_run_is_bounded() -> None:
    assert log_limits([]) == OutputLimits(max_size=20 << 20, max_file=5)
    assert log_limits(["max-size=10m", "max-file=3"]) == OutputLimits(10 << 20, 3)


def test_a_writer_that_was_killed_between_two_steps(tmp_path: Path) -> None:
    """A number is missing then; what is there is read in order, and the next step works."""
    log = OutputLog(str(tmp_path), *OutputLimits(300, 4))
    for number in range(12):
        log.write("stdout", b"line %d\n" % number)
    log.close()
    before = [os.read(fd, 99999) for fd in output_reader.open_all(str(tmp_path))]
    assert len(before) == 4
    (tmp_path / "log.json.2").rename(tmp_path / "log.json.3")
    left = [os.read(fd, 99999) for fd in output_reader.open_all(str(tmp_path))]
    assert left == before[1:]
    log = OutputLog(str(tmp_path), *OutputLimits(300, 4))
    for number in range(12, 16):
        log.write("stdout", b"line %d\n" % number)
    log.close()
    assert len(output_reader.open_all(str(tmp_path))) in (3, 4)
    assert b"line 15" in [os.read(fd, 99999) for fd in output_reader.open_all(str(tmp_path))][-1]


@pytest.mark.parametrize(
    "option", ["max-size=", "max-size=x", "max-size=0", "max-file=0", "max-file=-1", "tag=x", "x"]
)
def test_a_wrong_option(minirun: Program, option: str) -> None:
    done = minirun("run", "--log-opt", option, "busybox", "true")
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    assert "log-opt" in done.stderr or "size" in done.stderr
    assert minirun.left() == []


def test_half_a_line_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk has room for half a line: it is taken back, and what comes later is whole."""
    log = OutputLog(str(tmp_path), *OutputLimits())
    log.write("stdout", b"one\n")
    whole = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: whole(fd, data[: len(data) // 2]))
        log.write("stdout", b"lost\n")
    log.write("stdout", b"two\n")
    log.close()
    lines = (tmp_path / "log.json").read_text().splitlines()
    assert [json.loads(line)["log"] for line in lines] == ["one\n", "two\n"]


def test_many_short_lines_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a command that writes 10,000 lines waits for as many system calls of its supervisor."""
    log = OutputLog(str(tmp_path), *OutputLimits())
    written: list[int] = []
    whole = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: written.append(whole(fd, data)) or written[-1])
        log.write("stdout", b"y\n" * 10_000)
    log.close()
    assert len(written) == 1
    rows = (tmp_path / "log.json").read_text().splitlines()
    assert [json.loads(row)["log"] for row in rows] == ["y\n"] * 10_000


def test_a_disk_that_takes_some_of_many_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = OutputLog(str(tmp_path), *OutputLimits())
    whole = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: whole(fd, data[: len(data) * 5 // 8]))
        log.write("stdout", b"1\n2\n3\n4\n")
    log.write("stdout", b"5\n")
    log.close()
    rows = (tmp_path / "log.json").read_text().splitlines()
    assert [json.loads(row)["log"] for row in rows] == ["1\n", "2\n", "5\n"]


def test_a_terminal_that_was_shown_is_kept_too(minirun: Program) -> None:
    flags = ("-q", "-t", "--name", "c")
    assert minirun("run", *flags, *SHELL, "tty; echo two").stdout == "/dev/pts/0\ntwo\n"
    kept = subprocess.run(minirun.argv("logs", "c"), capture_output=True, check=True).stdout
    assert kept == b"/dev/pts/0\r\ntwo\r\n", "as the terminal has them, and docker's logs"
    assert minirun("run", *flags[:-1], "d", "--rm", *SHELL, "echo gone").stdout == "gone\n"
    assert minirun("logs", "d").returncode == 1


@pytest.mark.parametrize("word", ["all", "-1"])
def test_all_lines_as_docker_has_it(minirun: Program, word: str) -> None:
    minirun("run", "-q", "--name", "c", *SHELL, "echo 1; echo 2")
    assert minirun("logs", "--tail", word, "c").stdout == "1\n2\n"
    done = minirun("logs", "--tail", "-2", "c")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_a_full_disk_behind_the_caller_is_one_line(minirun: Program) -> None:
    minirun("run", "-q", "--name", "c", *SHELL, "echo 1; echo 2")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            minirun.argv("logs", "c"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode and done.stderr.count("\n") == 1


def test_a_broken_line_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = OutputLog(str(tmp_path), *OutputLimits())
    log.write("stdout", b"one\n")
    os.write(log.fd, b'{"log": "ha\n[]\n{"log": 1}\n\xff\n')
    log.write("stdout", b"two\n")
    log.close()
    reader = output_reader.OutputReader(str(tmp_path), False)
    reader.show()
    assert reader.current
    reader.current.close()
    assert capfd.readouterr().out == "one\ntwo\n"
