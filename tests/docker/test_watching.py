"""wait, top, stats, rename, info and version, on real containers; ps(1) and docker beside them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from conftest import Program, wait_until
from minirun import __version__


def good(program: Program, *words: str) -> str:
    done = program(*words)
    assert (done.returncode, done.stderr) == (0, ""), words
    return done.stdout


def start(program: Program, name: str, *command: str, flags: str = "") -> int:
    good(program, "run", "-d", "--name", name, *flags.split(), "busybox", *command)
    return int(json.loads((program.directory(name) / "state.json").read_text())["pid"])


def test_wait_prints_each_exit_status(minirun: Program) -> None:
    start(minirun, "a", "sh", "-c", "sleep 1; exit 3")
    start(minirun, "b", "sleep", "300")
    minirun("run", "--name", "c", "busybox", "sh", "-c", "exit 7")
    waiting = minirun.start("wait", "a", "b", "nosuch", "c")
    time.sleep(0.5)
    assert waiting.poll() is None
    minirun("kill", "b", "KILL")
    out, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, out) == (1, "3\n137\n7\n")
    assert err.startswith("minirun: container 'nosuch' does not exist (") and err.count("\n") == 1
    assert good(minirun, "wait", "a") == "3\n"


def test_wait_for_one_that_removes_itself(minirun: Program) -> None:
    """docker's status, by the log, which stays; without a log it is not known."""
    start(minirun, "a", "sh", "-c", "sleep 1; exit 5", flags="--rm")
    assert good(minirun, "wait", "a") == "5\n"
    os.environ["MINIRUN_LOG"] = "off"
    try:
        start(minirun, "a", "sleep", "1", flags="--rm")
    finally:
        del os.environ["MINIRUN_LOG"]
    done = minirun("wait", "a")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "minirun: a has removed itself at its end, and its exit status with it "
        "(run it without --rm, or with a log)\n"
    )


def test_top_is_what_ps_says(minirun: Program) -> None:
    script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 299 & exec sleep 300"
    pid = start(minirun, "c", "sh", "-c", script)
    wait_until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00300\x00")
    lines = [line.split(None, 7) for line in good(minirun, "top", "c").splitlines()]
    assert lines[0] == ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"]
    assert len(lines) == 3
    done = subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=True)
    by_pid = {line.split()[1]: line.split(None, 7) for line in done.stdout.splitlines()}
    for row in lines[1:]:
        theirs = by_pid[row[1]]
        assert [row[n] for n in (0, 2, 5, 7)] == [theirs[n] for n in (0, 2, 5, 7)]
        assert row[4] == theirs[4] or abs(int(row[4][-2:]) - int(theirs[4][-2:])) in (1, 59)
        assert abs(int(row[6][-2:]) - int(theirs[6][-2:])) <= 1
    options = good(minirun, "top", "c", "-o", "pid,comm").splitlines()
    assert sorted(line.split()[1] for line in options[1:]) == ["sleep", "sleep"]
    assert minirun("top", "c", "-o", "comm").stderr.startswith("minirun: couldn't find PID field")


def test_top_without_ps_and_with_a_hostile_name(minirun: Program) -> None:
    name = "\x1b[2Jevil\nrow"
    start(minirun, "c", "sh", "-c", "sleep 300 & wait", name)
    wait_until(lambda: "sleep 300\n" in good(minirun, "top", "c"))
    shown = good(minirun, "top", "c")
    assert shown.count("\n") == 3 and all(line.isprintable() for line in shown.splitlines())
    assert "\\x1b[2Jevil\\nrow" in shown
    done = subprocess.run(minirun.argv("top", "c"), env={"PATH": "/nosuch"}, capture_output=True,
                          text=True, check=True)  # fmt: skip
    assert done.stdout == shown


def test_stats_are_the_cgroup_s(minirun: Program) -> None:
    start(minirun, "busy", "sh", "-c", "while :; do :; done", flags="--memory 64m")
    start(minirun, "idle", "sleep", "300", flags="--pids-limit 0")
    minirun("run", "--name", "gone", "busybox", "true")
    rows = [json.loads(line) for line in good(
        minirun, "stats", "--no-stream", "--format", "json").splitlines()]  # fmt: skip
    assert [row["Name"] for row in rows] == ["idle", "busy"], (
        "the newest first, none that has ended"
    )
    idle, busy = rows
    assert float(busy["CPUPerc"].rstrip("%")) > 5 > float(idle["CPUPerc"].rstrip("%"))
    assert busy["MemUsage"].endswith(" / 64MiB") and busy["PIDs"] == "1"
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = float(idle["MemUsage"].rpartition(" / ")[2].removesuffix("GiB"))
    assert abs(limit - total / 2**30) < 0.5
    form = "table {{.Name}}\\t{{.MemPerc}}\\t{{.NetIO}}\\t{{.BlockIO}}"
    lines = good(minirun, "stats", "--no-stream", "-a", "--format", form).splitlines()
    assert re.split(r"\s{2,}", lines[0]) == ["NAME", "MEM %", "NET I/O", "BLOCK I/O"]
    assert [line.split()[0] for line in lines[1:]] == ["gone", "idle", "busy"]
    table = good(minirun, "stats", "--no-stream", "busy").splitlines()
    assert re.split(r"\s{2,}", table[0])[:2] == ["CONTAINER ID", "NAME"] and len(table) == 2
    assert table[1].split()[:2] == [minirun.id("busy")[:12], "busy"]


def test_stats_count_memory_that_is_used(minirun: Program) -> None:
    """Pages of files that the kernel would give back do not count, as with docker."""
    if subprocess.check_output(["stat", "-f", "-c%T", minirun.root.parent], text=True) == "tmpfs\n":
        pytest.skip("the container's files are on a tmpfs: they are memory, and are not given back")
    script = "head -c 20000000 /dev/zero > /tmp/f; cat /tmp/f > /dev/null; cat /tmp/f | sleep 300"
    start(minirun, "c", "sh", "-c", f"mkdir -p /tmp; {script}")

    def is_little() -> bool:
        row = json.loads(good(minirun, "stats", "--no-stream", "--format", "json", "c"))
        used = row["MemUsage"].partition(" / ")[0]
        number, unit = re.fullmatch(r"([\d.]+)(\w+)", used).groups()  # type: ignore[union-attr]
        return float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[unit] < 15e6

    time.sleep(1)
    wait_until(is_little)  # each processor keeps new pages back for a while


def test_stats_on_a_terminal_stays_in_one_place(minirun: Program) -> None:
    start(minirun, "c", "sleep", "300")
    main, worker = pty.openpty()
    termios.tcsetwinsize(worker, (24, 100))
    done = subprocess.Popen(minirun.argv("stats"), stdout=worker, stderr=worker, stdin=worker,
                            start_new_session=True, env=os.environ | {"TERM": "xterm"})  # fmt: skip
    os.close(worker)
    shown = b""
    while shown.count(b"NAME") < 2:
        shown += os.read(main, 4096)
    done.send_signal(2)
    assert done.wait(10) == 0
    try:
        while chunk := os.read(main, 4096):
            shown += chunk
    except OSError:  # EIO: the other end is closed, and all of it was read
        pass
    os.close(main)
    assert b"\x1b[?1049h" in shown and b"\x1b[?1049l" in shown, "the screen is given back"
    assert b"Traceback" not in shown


def test_rename(minirun: Program) -> None:
    start(minirun, "web", "sh", "-c", "echo hi; sleep 300")
    own = minirun.id("web")
    assert good(minirun, "rename", "web", "shop") == ""
    assert minirun.id("shop") == own != minirun.id("web")
    assert good(minirun, "ps", "--format", "{{.ID}} {{.Names}}") == f"{own[:12]} shop\n"
    assert good(minirun, "ps").splitlines()[0].endswith("NAMES")
    assert good(minirun, "inspect", "-f", "{{.Name}}", "shop") == "/shop\n"
    wait_until(lambda: minirun("logs", "shop").stdout == "hi\n")
    assert good(minirun, "exec", "shop", "echo", "x") == "x\n"
    assert good(minirun, "ps", "-q", "-f", "name=^shop$") == f"{own[:12]}\n"
    done = minirun("run", "--name", "shop", "busybox", "true")
    assert done.returncode == 125 and 'The container name "/shop" is already in use' in done.stderr
    start(minirun, "other", "sleep", "300")
    for new in ("shop", own):
        done = minirun("rename", "other", new)
        assert done.returncode == 1 and f'name "/{new}" is already in use' in done.stderr
        assert done.stderr.count("\n") == 1
    assert "is called shop already" in minirun("rename", "shop", "shop").stderr
    good(minirun, "rename", "shop", "web")
    assert good(minirun, "ps", "-f", f"id={own[:7]}", "--format", "{{.Names}}") == "web\n"
    good(minirun, "rename", "web", "last")
    assert good(minirun, "stop", "-t", "0", "last") == "last\n"
    assert good(minirun, "rm", "last") == "last\n"
    assert not (minirun.root / own).exists()
    start(minirun, "last", "sleep", "300")


def test_renames_at_once_give_one_name_once(minirun: Program) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        minirun("run", "--name", name, "busybox", "true")
    running = [minirun.start("rename", name, "same") for name in names]
    codes = sorted(each.wait() for each in running)
    for each in running:
        each.communicate()
    assert codes == [0, 1, 1, 1]
    assert good(minirun, "ps", "-a", "--format", "{{.Names}}").split().count("same") == 1


def test_version_and_info(minirun: Program) -> None:
    form = "{{.Server.Version}} {{.Client.Version}} {{.Client.Os}}"
    assert good(minirun, "version", "--format", form) == f"{__version__} {__version__} linux\n"
    assert (
        json.loads(good(minirun, "version", "--format", "json"))["Client"]["PythonVersion"]
        == (sys.version.split()[0])
    )
    assert good(minirun, "version").startswith(f"Client:\n Version: {__version__}\n")
    start(minirun, "c", "sleep", "300")
    minirun("run", "--name", "gone", "busybox", "true")
    found = json.loads(good(minirun, "info", "--format", "{{json .}}"))
    assert (found["Containers"], found["ContainersRunning"], found["ContainersStopped"]) == (
        2,
        1,
        1,
    )
    assert found["NCPU"] == len(os.sched_getaffinity(0)) and found["Name"] == os.uname().nodename
    assert found["KernelVersion"] == os.uname().release
    version = json.loads((minirun.directory("c") / "state.json").read_text())["cgroup"]["version"]
    assert found["CgroupVersion"] == str(version)
    text = good(minirun, "info").splitlines()
    assert text[:4] == ["Containers: 2", " Running: 1", " Paused: 0", " Stopped: 1"]
