"""`minirun replay`, and the recordings that are shipped: on any system, by anybody."""

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Program
from minirun.core.keeping.places import HISTORY
from minirun.faces import recordings
from minirun.faces.show.log import event_row, recording

NAMES = tuple(recordings.RECORDINGS)
CDI = ("cdi", "cdi-podman", "cdi-containerd")
CHOSEN_ABOVE = ("slurm", "swarm")
SIMULATED = ("gpus-0-1", "figure-1", "runc-gpus", *CHOSEN_ABOVE, *CDI)
IN_A_POD = ("pod", "cdi-containerd")
"""Of these containerd keeps the names; their namespaces are a pod's."""
PYTHON = os.path.realpath(sys.executable)
STRANGER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NOWHERE = ("unshare", "--net", *STRANGER)
"""In a network namespace with nothing in it, as nobody."""


def run(directory: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=directory, capture_output=True, text=True, timeout=60, check=False,
        stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **env},
    )  # fmt: skip


# --- what is shipped ---------------------------------------------------------------------------


def test_they_are_all_there() -> None:
    directory = Path(recordings.__file__).parent
    assert {path.stem for path in directory.glob("*.jsonl")} == set(NAMES)
    with pytest.raises(KeyError):
        recordings.path("../plain")


@pytest.mark.parametrize("name", recordings.OWN)
def test_each_is_whole_and_in_order(name: str) -> None:
    found = recording.read(recordings.path(name))
    if name in IN_A_POD:
        origins = [next(e for e in each.events if e.name == "origin") for each in found]
        both = ["lessons/train", "lessons/train/cuda"]
        assert [e.args["name"] for e in origins] == both[-len(found) :]
    else:
        names = ["a", "b", "c"] if name == "figure-1" else [name]
        assert [each.name for each in found] == names
    for each in found:
        assert each.unreadable == 0
        numbers = [stage.number for stage in each.stages]
        plain = {each: [1, 2, 3, 6, 7] for each in ("plain", "pod", *CDI)}
        expected = {**plain, "failing-hook": [1, 2, 3]}
        assert numbers == expected.get(name, [1, 2, 3, 4, 5, 6, 7])
        begins = [stage.begin for stage in each.stages]
        assert begins == sorted(begins)
        assert each.complete == (name != "failing-hook")
        assert each.simulated == (name in SIMULATED)
        said = [message.name for message in each.messages]
        assert said[:4] == ["READY", "YOUR_TURN", "RUN_HOOKS", "YOUR_TURN"]
        assert ("WAITING" in said) == each.complete
        born = {
            stage: [e.ret for e in each.events if (e.name, e.stage) == ("clone3", stage)]
            for stage in (1, 3, 7)
        }
        helper = name in IN_A_POD  # it goes into the namespaces that were there, and clones init
        assert born[1][helper:] == [*{e.pid for e in each.events if e.actor == "init"}]
        by_hook = name in ("gpus-0-1", "figure-1", "failing-hook", "pod", *CHOSEN_ABOVE)
        assert len(born[3]) == by_hook + (name == "swarm"), "docker's own hook, for the network"
        assert (len(born[7]) == 7) == (name in CDI), "its createContainer hooks"
        hooks = {e.pid for e in each.events if e.actor == "hook"}
        assert len(hooks) == len(born[7] if name in CDI else born[3])
        assert name in CDI or hooks <= {*born[3]}


@pytest.mark.parametrize("name", recordings.OBSERVED)
def test_each_that_was_observed_is_whole(name: str) -> None:
    (found,) = recording.read(recordings.path(name))
    assert all(event.observed for event in found.events)
    assert name == found.id or name in ("podman", "cdi-podman")
    assert found.complete
    assert found.unreadable == 0
    expected = [1, 2, 3, 4, 5, 6, 7] if name == "runc-gpus" else [1, 2, 3, 6, 7]
    assert [stage.number for stage in found.stages] == expected
    assert found.simulated == (name in SIMULATED)
    assert not {"failed by", "not readable"} & {event.name for event in found.events}
    engine = {"podman", "conmon"}
    actors = {
        "podman": engine,
        "cdi-podman": {*engine, "hook", "ldconfig"},
        "runc-gpus": {"hook", "cli", "ldconfig"},
    }
    assert {"runtime", "init"} | actors.get(name, set()) <= set(found.actors)


CGROUPS = {"write", "mkdir", "rmdir", "bpf", "mount", "mount_setattr"}
"""Calls that differ between cgroup v1 and v2."""


def steps(log: Path) -> set[tuple[int, str, str]]:
    """Return stage, actor and name of each call and message, without those for cgroups."""
    (found,) = recording.read(log)
    return {
        (event.stage, event.actor, event.name)
        for event in found.events
        if event.kind in ("syscall", "message", "exec") and event.name not in CGROUPS
    }


def test_they_show_what_a_run_does_today(minirun: Program) -> None:
    """If this fails, what a run does has changed: `make recordings`."""
    flags = ("--rm", "--snapshots", "--gpu-driver=simulated", "--gpus=0,1")
    done = minirun("run", *flags, "busybox", "true")
    assert done.returncode == 0, done.stderr
    (log,) = (minirun.root / HISTORY).glob("*.jsonl")
    assert steps(log) == steps(recordings.path("gpus-0-1"))


def test_they_show_what_they_say() -> None:
    def argv(each: recording.Recording) -> list[str]:
        (note,) = [e for e in each.events if e.name == "nvidia-container-cli"]
        return [word for word in note.args["argv"] if word.startswith("--device=")]

    a, b, c = recording.read(recordings.path("figure-1"))
    assert [argv(each) for each in (a, b, c)] == [
        ["--device=0,1"], ["--device=0,2,3"], ["--device=3"],
    ]  # fmt: skip
    assert max(a.start, b.start, c.start) < min(each.stages[-1].begin for each in (a, b, c))
    assert min(a.end, b.end, c.end) > max(each.stages[-1].end or 0 for each in (a, b, c))
    (failed,) = recording.read(recordings.path("failing-hook"))
    assert "failed with exit status 3: no licence for this machine" in failed.stages[-1].error


def test_every_boundary_has_a_snapshot() -> None:
    for name in ("plain", "gpus-0-1", "figure-1"):
        for each in recording.read(recordings.path(name)):
            edges = [f"{stage.number}:{edge}" for stage in each.stages for edge in ("begin", "end")]
            assert list(each.snapshots) == edges


# --- the command -------------------------------------------------------------------------------


EACH = """
import sys
from minirun import cli
from minirun.faces import recordings
for name in recordings.RECORDINGS:
    print(f"replay {name}", flush=True)
    if status := cli.main(["replay", name, *sys.argv[1:]]):
        sys.exit(status)
"""
"""Plays them all, one after the other: an interpreter starts once."""


@pytest.mark.parametrize("flags", [(), ("--plain",), ("--text",), ("--level", "syscalls")])
def test_by_nobody_without_a_network(copied: Path, flags: tuple[str, ...]) -> None:
    started = time.monotonic()
    done = run(copied, *NOWHERE, PYTHON, "-c", EACH, *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert time.monotonic() - started < 30, "off a terminal they play at once"
    _, *played = re.split(r"^replay (\S+)$", done.stdout, flags=re.M)
    assert played[::2] == [*NAMES]
    for name, shown in zip(played[::2], played[1::2], strict=True):
        stages = (1, 2, 3) if name == "failing-hook" else (1, 2, 3, 6, 7)
        titles = event_row.stages(observed=name in recordings.OBSERVED)
        assert all(titles[number] in shown for number in stages), name
        assert ("SIMULATED" in shown) == (name in SIMULATED), name


ALIEN = '''
"""minirun as on another system: without the modules and names that only Unix, or Linux, has."""
import importlib.abc, os, runpy, select, signal, sys
import _signal

MODULES = set(
    "_ctypes ctypes _posixsubprocess _prctl crypt fcntl grp prctl pty pwd pynvml pyroute2 "
    "resource spwd syslog termios tty".split()
)
OS = (
    "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH WNOHANG chown chroot fchdir "
    "fchmod fork forkpty getegid geteuid getgid getgroups getpgid getrandom getuid killpg lchown "
    "major makedev memfd_create minor mkfifo mknod openpty pidfd_open pipe2 posix_spawn pread "
    "pwrite sched_getaffinity set_blocking setgid setpgid setsid setuid splice statvfs uname "
    "waitid".split()
)
WINDOWS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in MODULES & set(sys.modules):
    del sys.modules[name]
for name in OS:
    delattr(os, name)
for name in ("poll", "epoll"):
    delattr(select, name)
for module in (signal, _signal):
    for name in dir(module):
        if name.startswith("SIG") and name not in WINDOWS or name == "pthread_sigmask":
            delattr(module, name)
sys.platform = "darwin"
runpy.run_module("minirun", run_name="__main__", alter_sys=True)
'''


@pytest.mark.parametrize(
    "args",
    [
        ("replay",), ("replay", "gpus-0-1"), ("replay", "failing-hook", "--plain"),
        ("replay", "figure-1", "--trace", "-"), ("timeline",
        "minirun/faces/recordings/plain.jsonl"), ("--help",), ("replay", "--help"),
    ],
)  # fmt: skip
def test_on_a_system_that_is_no_linux(copied: Path, args: tuple[str, ...]) -> None:
    here = run(copied, PYTHON, "-m", "minirun", *args)
    there = run(copied, *NOWHERE, PYTHON, "-c", ALIEN, *args)
    assert (there.returncode, there.stderr) == (0, "")
    assert there.stdout == here.stdout != ""


def test_other_commands_say_that_they_need_linux(copied: Path) -> None:
    done = run(copied, PYTHON, "-c", ALIEN, "run", "busybox")
    assert done.returncode == 125
    assert done.stderr == "minirun: run needs Linux (replay and timeline FILE do not)\n"


def test_the_list(minirun: Program) -> None:
    lines = minirun("replay").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *NAMES]
    assert "a b c" in lines[1 + NAMES.index("figure-1")]


def test_a_file_goes_before_a_name(minirun: Program, tmp_path: Path) -> None:
    shutil.copy(recordings.path("failing-hook"), tmp_path / "plain")
    assert "container plain: " in minirun("replay", "plain").stdout
    assert "container failing-hook: " in minirun("replay", "plain", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("nosuch",), "no recording of 'nosuch'"),
        (("plain", "--speed", "fast"), "invalid --speed 'fast'"),
        (("plain", "--speed=-1"), "invalid --speed '-1'"),
        (("plain", "--speed=nan"), "invalid --speed 'nan'"),
        (("plain", "plain"), "replay takes one recording"),
    ],
)
def test_mistakes(minirun: Program, args: tuple[str, ...], error: str) -> None:
    done = minirun("replay", *args)
    assert done.returncode == 1
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_its_own_pace(minirun: Program, tmp_path: Path) -> None:
    """Pauses are real, scaled, and never longer than a second."""
    lines = recordings.path("failing-hook").read_text().splitlines()
    told = recording.read(recordings.path("failing-hook"))[0]
    span = (told.end - told.start) / 1e9
    took = {}
    for speed in ("0", str(span / 0.8)):
        started = time.monotonic()
        assert minirun("replay", "failing-hook", "--speed", speed).returncode == 0
        took[speed] = time.monotonic() - started
    slow = took.popitem()[1]
    assert slow > 0.8
    assert slow - took["0"] > 0.5
    path = tmp_path / "long.jsonl"
    last = told.events[-1].t
    later = lines[-1].replace(f'"t":{last}', f'"t":{last + 10**12}')
    path.write_text("\n".join([*lines[:2], later]) + "\n")
    started = time.monotonic()
    assert minirun("replay", str(path), "--speed", "1").returncode == 0
    assert 1 <= time.monotonic() - started < 5, "a thousand seconds are played in one"


def test_on_a_terminal_it_plays_in_colour(minirun: Program) -> None:
    pid, screen = pty.fork()
    if pid == 0:
        os.environ.update(LANG="C.UTF-8", TERM="xterm-256color")
        os.environ.pop("LC_ALL", None)
        os.execv(minirun.path, [minirun.path, "replay", "plain"])
    shown = b""
    try:
        while chunk := os.read(screen, 65536):
            shown += chunk
    except OSError:
        pass  # EIO: it has ended
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(screen)
    assert "\x1b[" in shown.decode()
    assert "◄─────── RUN_HOOKS ───────" in shown.decode()


def test_html(minirun: Program, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert minirun("replay", "gpus-0-1", "--html", str(page)).returncode == 0
    assert "SIMULATED" in page.read_text()
