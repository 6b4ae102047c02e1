"""The ladder: skeletons fail where they say, solutions hold, and wrong programs get their hint."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import VERSION_2_ALONE, Program, descendants, wait_until
from faces.teach.levels.checked import (
    LEVELS,
    PUBLISHED,
    beside_the_library,
    check,
    finding,
    text_of,
)
from minirun.faces.teach.levels import checks, programs
from minirun.faces.teach.levels.programs import Level
from required import installed

TOP = Path(__file__).parents[4]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_the_solution_holds(minirun: Program, level: Level, tmp_path: Path) -> None:
    program = str(level.path)
    if level.is_open:
        program = beside_the_library(tmp_path, level, text_of(level))
    done = check(minirun, level, program, status=0)
    count = len(checks.promises(level.number))
    assert f"Level {level.number} holds: {count} checks" in done.stdout
    assert done.stdout.count("✓") == count and not {*"✗–"} & {*done.stdout}


@pytest.mark.parametrize("level", LEVELS[9:], ids=lambda level: level.name)
def test_a_process_that_ends_while_its_state_is_read(level: Level, tmp_path: Path) -> None:
    """The kernel has opened its file, and then has no process to tell of: ESRCH."""
    program = Path(beside_the_library(tmp_path, level, text_of(level)))
    test = """
import pathlib, subprocess
from program import Container

def read_text(path):
    with open(path) as file:
        process.kill()
        process.wait()
        return file.read()

pathlib.Path.read_text = read_text
process = subprocess.Popen(["sleep", "600"])
print(Container(pathlib.Path("."), pathlib.Path("."), {}, pid=process.pid).status)
"""
    program.rename(tmp_path / "program.py")
    done = subprocess.run(
        [sys.executable, "-c", test], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout == "stopped\n"


@pytest.mark.parametrize("level", PUBLISHED, ids=lambda level: level.name)
def test_the_skeleton_fails_where_it_says(minirun: Program, level: Level, tmp_path: Path) -> None:
    done = minirun("--lang", "en", "level", "start", str(level.number), str(tmp_path))
    assert level.idea.split()[0] in done.stdout
    done = check(minirun, level, str(tmp_path / level.file))
    assert finding(done) == "not-written"
    gap = re.search(r"(\S+) is not written yet", done.stdout)
    assert gap and gap[1] in level.gaps
    assert " ".join(level.gaps[gap[1]].split()) in " ".join(done.stdout.split())


def test_an_open_level_goes_on_from_the_one_below(minirun: Program, tmp_path: Path) -> None:
    """Its program is level 9's, with a sentence, and holds all but exec."""
    done = minirun("--lang", "en", "level", "start", "10", str(tmp_path))
    assert "no solution is published" in " ".join(done.stdout.split())
    program = tmp_path / LEVELS[10].file
    assert program.read_text().count("# Level 10: ") == 1
    assert "def enter(" in program.read_text().partition("if __name__")[0]
    done = check(minirun, LEVELS[10], str(program))
    missing = [line for line in done.stdout.splitlines() if line.startswith("✗")]
    assert finding(done) == "exec" and all(line.startswith("✗ 10") for line in missing)


@pytest.mark.parametrize(("number", "stages"), [(3, "12367"), (5, "1234567")])
def test_the_stages_of_a_program_that_holds_are_drawn(
    minirun: Program, number: int, stages: str
) -> None:
    """By the line that the check prints, as it is typed."""
    done = check(minirun, LEVELS[number], str(LEVELS[number].path), status=0)
    (line,) = re.findall(r"^Its stages, drawn: (.*)$", done.stdout, re.MULTILINE)
    path = f"{Path(minirun.path).parent}:{os.environ['PATH']}"
    drawn = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False,
                           env=os.environ | {"PATH": path})  # fmt: skip
    assert drawn.returncode == 0, drawn.stderr
    assert all(f"\n{stage} " in drawn.stderr for stage in stages), drawn.stderr


def test_it_is_checked_again_when_it_has_changed(minirun: Program, tmp_path: Path) -> None:
    program = Path(beside_the_library(tmp_path, LEVELS[0], LEVELS[0].path.read_text()))
    words = minirun.argv("--lang", "en", "level", "check", "--watch", "0", str(program))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout
        assert any(line.startswith("Level 0 holds") for line in started.stdout)
        program.write_text(program.read_text().replace("return 126", "return 127"))
        assert any(line.startswith("Not yet (not-executable)") for line in started.stdout)
        started.send_signal(signal.SIGINT)
        assert started.wait(20) == 128 + signal.SIGINT


@pytest.mark.parametrize("runtime", ["runc", "crun", "minirun"])
def test_a_real_runtime_holds_all_but_the_gpus(
    minirun: Program, runtime: str, tmp_path: Path
) -> None:
    """The GPUs of the check are not those that minirun simulates.

    crun takes what exec is to be from --process alone: config.json's environment is not followed.
    """
    if runtime == "minirun":
        program = tmp_path / "minirun"
        program.write_text(f'''#!/bin/sh
export MINIRUN_LOG=off MINIRUN_STORE=/run/store
exec "{minirun.path}" --root /run/minirun "$@"
''')
        program.chmod(0o755)
        runtime = str(program)
    else:
        installed(runtime)
    done = check(minirun, LEVELS[10], "--", runtime)
    held = [line for line in done.stdout.splitlines() if line.startswith("✓")]
    missing = [line for line in done.stdout.splitlines() if line.startswith("✗")]
    assert len(held) + len(missing) == len(checks.promises(10))
    of_exec = [line for line in missing if line.startswith("✗ 10")]
    assert len(of_exec) == (2 if runtime == "crun" else 0), done.stdout
    others = [line for line in missing if line not in of_exec]
    assert all(line.startswith("✗ 5") or "NVIDIA" in line for line in others), done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("seconds", [0.4, 0.8, 1.6])
def test_a_check_that_is_killed_leaves_nothing(
    minirun: Program, number: signal.Signals, seconds: float
) -> None:
    """What SIGKILL leaves of its cgroups the next check removes."""
    started = minirun.start("level", "check", "3", str(LEVELS[3].path))
    time.sleep(seconds)
    family = descendants(started.pid)
    started.send_signal(number)
    started.communicate(timeout=20)
    wait_until(lambda: not [pid for pid in family if os.path.exists(f"/proc/{pid}")])
    cgroups = [*Path("/sys/fs/cgroup").glob(f"*/minirun-level-{started.pid}")]
    if number == signal.SIGTERM:
        assert not cgroups
    check(minirun, LEVELS[0], str(LEVELS[0].path), status=0)
    assert not [cgroup for cgroup in cgroups if cgroup.exists()]


def test_a_program_that_is_late_has_no_status(minirun: Program, tmp_path: Path) -> None:
    """The check ends it: 137 would be the check's own signal."""
    late = tmp_path / "late"
    solution = f'exec "{sys.executable}" "{LEVELS[0].path}" "$@"'
    late.write_text(f'#!/bin/sh\ncase "$*" in *1234.5*) exec sleep 99 ;; esac\n{solution}\n')
    late.chmod(0o755)
    done = check(minirun, LEVELS[0], "--", str(late), flags=("--first",))
    assert finding(done) == "command-not-run"
    assert "the command did not run: it was not there after 8 s" in done.stdout


def test_a_machine_of_version_2_alone(minirun: Program) -> None:
    """Its one tree lies at /sys/fs/cgroup; level 5 writes a BPF program for it.

    If this machine keeps the controllers in version 1's trees, level 6 finds none to limit with:
    `make test-v2` runs it on a machine that has no version 1.
    """
    words = [*VERSION_2_ALONE, *minirun.argv("level", "check", "5", str(LEVELS[5].path))]
    done = subprocess.run(words, capture_output=True, text=True, cwd=TOP)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_korean(minirun: Program, tmp_path: Path) -> None:
    done = minirun("--lang", "ko", "level", "start", "1", str(tmp_path))
    assert "레벨 1" in done.stdout
    assert "호스트에 나타나지 않는다" in (tmp_path / "01_namespaces.py").read_text()
    done = minirun("--lang", "ko", "level", "check", "1", str(tmp_path / "01_namespaces.py"))
    assert done.returncode == 1 and "아직 아니다 (not-written)" in done.stdout


@pytest.mark.parametrize(("words", "said"), [
    (["start", "12"], "there is no level '12' (0 to 10)"),
    (["solution", "10"], "level 10 is open: it has no published solution"),
    (["diff", "9", "10"], "level 10 is open: it has no published solution"),
    (["check", "3", "/no/such/file.py"], "/no/such/file.py: no such file"),
    (["check", "3", "--", "no-such-program"], "no-such-program: no such program"),
    (["climb"], "unknown command 'level climb'"),
])  # fmt: skip
def test_wrong_words(minirun: Program, words: list[str], said: str) -> None:
    done = minirun("level", *words)
    assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_file_is_never_overwritten(minirun: Program, tmp_path: Path) -> None:
    minirun("level", "start", "0", str(tmp_path))
    (tmp_path / "00_process.py").write_text("mine")
    done = minirun("level", "start", "0", str(tmp_path))
    assert done.returncode == 1 and "is there already" in done.stderr
    assert (tmp_path / "00_process.py").read_text() == "mine"


def test_diff_and_solution(minirun: Program) -> None:
    done = minirun("level", "diff", "0", "1")
    assert "+    pid = linux.clone(NAMESPACES)" in done.stdout.splitlines()
    done = minirun("level", "solution", "9")
    assert done.stdout == LEVELS[9].path.read_text()


@pytest.mark.parametrize("level", PUBLISHED, ids=lambda level: level.name)
def test_a_level_stands_alone(level: Level) -> None:
    """It imports the standard library, python-prctl, pyroute2, linux.py; what it names is there."""
    text = level.path.read_text()
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(str(node.module).partition(".")[0])
    assert names <= {*sys.stdlib_module_names, "prctl", "pyroute2", "linux"}
    for path in re.findall(r"minirun: ([a-z0-9_/]+\.py)", text):
        assert (TOP / "minirun" / path).exists(), path


@pytest.mark.parametrize("number", range(1, 10))
def test_a_gap_is_what_is_new(number: int) -> None:
    """What a skeleton leaves out is not in the level before, or is not the same there."""

    def bodies(level: Level) -> dict[str, str]:
        functions = dict(programs._functions(ast.parse(level.path.read_text())))
        return {name: ast.unparse(function) for name, function in functions.items()}

    before, now = bodies(LEVELS[number - 1]), bodies(LEVELS[number])
    for gap in LEVELS[number].gaps:
        assert now[gap] != before.get(gap), gap


@pytest.mark.parametrize(("number", "status"), [(0, 0), (8, 125)])
def test_a_machine_without_ip(minirun: Program, tmp_path: Path, number: int, status: int) -> None:
    """`make setup` does not install iproute2: only the level about the network needs it."""
    for folder in ("/usr/sbin", "/usr/bin"):
        for path in Path(folder).iterdir():
            if path.name != "ip" and not (tmp_path / path.name).exists():
                (tmp_path / path.name).symlink_to(path)
    program = LEVELS[number].path
    done = minirun("level", "check", str(number), str(program), env={"PATH": str(tmp_path)})
    assert done.returncode == status, done.stdout + done.stderr
    if status:
        hint = "apt-get install iproute2"
        assert done.stderr == f"minirun: this check needs ip, which is not installed ({hint})\n"
