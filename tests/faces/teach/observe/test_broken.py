"""What broken.py says of each bundle is true, by strace; and `minirun observe` finds it."""

import os
import platform
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from faces.teach.observe.broken import (
    BROKEN,
    EXIT,
    RUNTIMES,
    VERSIONS,
    Broken,
    Config,
    argv,
    clear,
    make,
)
from minirun.faces.knowledge.texts import AROUND, room
from minirun.faces.show.log.recording import read
from minirun.faces.teach.observe import inference, trace
from required import installed

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the calls are those of x86-64"
)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", BROKEN)
def test_the_call_that_fails(tmp_path: Path, name: str, runtime: str) -> None:
    attempt = Attempt(tmp_path, BROKEN[name], runtime)
    file = tmp_path / "trace"
    attempt.run("strace", "-f", "-qq", "-s", "300", "-o", str(file))
    failure = BROKEN[name].failure(runtime)
    calls = whole(file.read_text(errors="replace"))
    fitting = [call for call in calls if call.startswith(f"{failure.call}(")]
    fitting = [call for call in fitting if failure.about in call.partition(") = ")[0]]
    if failure.call == EXIT:
        assert [call for call in fitting if call.startswith(f"{EXIT}({failure.about})")]
    elif failure.errno:
        assert [call for call in fitting if f" = -1 {failure.errno} " in call], calls
    else:
        assert [call for call in fitting if call.endswith(" = 0")]
        assert not [call for call in fitting if " = -1 " in call]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", BROKEN)
def test_observe_names_it(tmp_path: Path, command: str, name: str, runtime: str) -> None:
    """The call with its error, who made it, in which stage: in the log, and on the last lines."""
    attempt = Attempt(tmp_path, BROKEN[name], runtime)
    log = tmp_path / "seen.jsonl"
    said = attempt.run(command, "observe", "-o", str(log), "--")
    (found,) = read(log)
    (failed,) = [event for event in found.events if event.name == "failed by"]
    failure = BROKEN[name].failure(runtime)
    call = str(failed.args["call"])
    assert call.startswith(f"{failure.call}(")
    assert failure.about in call
    assert failure.errno in call
    assert (failed.actor, failed.stage) == (failure.actor, failure.stage)
    line = f"\nminirun: stage {failure.stage}, {failure.actor} (pid {failed.pid}): {call}"
    assert said.count(line) == 1
    assert "failed by" not in said  # the note is the last lines, and is not drawn as well
    topic = BROKEN[name].topic
    if room("error_texts")[topic].kind == AROUND and failure.errno:
        topic = f"{failure.call} {failure.errno}"  # says more than the words around the cause
    assert said.partition(line)[2].partition("\n")[2].startswith(f"{topic}: ")


def test_observe_explains_in_the_user_s_language(tmp_path: Path, command: str) -> None:
    attempt = Attempt(tmp_path, BROKEN["hostname-too-long"], "runc")
    said = attempt.run(command, "--lang", "ko", "observe", "--")
    assert "\nsethostname: invalid argument: 호스트 이름이 64바이트보다 길다\n" in said


def _read_only_below_a_file(config: Config, rootfs: Path) -> None:
    (rootfs / "plain").write_text("")
    config["linux"]["readonlyPaths"] = ["/plain/x"]


def _group_of_no_number(config: Config, _: Path) -> None:
    config["process"]["user"]["additionalGids"] = [2**32 - 1]


@pytest.mark.parametrize(("runtime", "call"), [("runc", "mount"), ("crun", "openat2")])
def test_words_that_are_not_known(tmp_path: Path, command: str, runtime: str, call: str) -> None:
    """explain's topic of the call and its error is shown instead."""
    broken = replace(BROKEN["root-missing"], breaks=_read_only_below_a_file)
    said = Attempt(tmp_path, broken, runtime).run(command, "observe", "--")
    assert f"\n{call} ENOTDIR: not a directory\n" in said


def test_a_runtime_that_decides_by_itself(tmp_path: Path, command: str) -> None:
    """No call fails because of a number that runc does not like: none is guessed."""
    broken = replace(BROKEN["root-missing"], breaks=_group_of_no_number)
    log = tmp_path / "seen.jsonl"
    said = Attempt(tmp_path, broken, "runc").run(command, "observe", "-o", str(log), "--")
    (found,) = read(log)
    (failed,) = [event for event in found.events if event.name == "failed by"]
    assert (failed.actor, failed.args["call"]) == ("runtime", "exit_group(1) = ?")
    assert "uids and gids must be in range" in str(failed.args["report"])
    assert "exit_group(1) = ? (it decided by itself: no call that failed fits its words)\n" in said


def test_a_search_of_path_is_no_reason(tmp_path: Path, command: str) -> None:
    """env looks for runc in each folder of PATH, and each try names the bundle among its words."""
    attempt = Attempt(tmp_path, BROKEN["root-missing"], "runc")
    path = f"PATH=/nosuch/bin:{os.environ['PATH']}"
    said = attempt.run(command, "observe", "--level", "summary", "--", "env", path)
    assert f'"{attempt.bundle}/nosuch/rootfs", ' in said.partition("minirun: stage 1, runtime")[2]


def test_a_broken_pipe_is_no_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the hook's program is missing, its process may end before crun writes the state to it."""
    slow = ("-e", "inject=write:delay_enter=30000")
    monkeypatch.setattr(trace, "_FLAGS", (*trace._FLAGS, *slow))
    attempt = Attempt(tmp_path, BROKEN["hook-program-missing"], "crun")
    for _ in range(9):  # the delay only makes it likely
        seen, zero = trace.watch(attempt.words(), stderr=subprocess.DEVNULL)
        attempt.clear()
        if " EPIPE " in seen.text:
            break
    assert " EPIPE " in seen.text
    (failed,) = [one for one in inference.infer(seen.text, zero) if one.name == inference.FAILED_BY]
    assert str(failed.args["call"]).startswith('execve("/nosuch/hook"')
    assert "Broken pipe" in failed.args["report"]


class Attempt:
    """One try to start a broken bundle, by a program around it."""

    def __init__(self, folder: Path, broken: Broken, runtime: str) -> None:
        self.runtime, self.root = runtime, folder / "root"
        self.container = f"observe-{broken.breaks.__name__}-{runtime}"
        for program in ("strace", "runc", runtime):
            installed(program)
        version = VERSIONS[runtime]
        if version not in subprocess.check_output([runtime, "--version"], text=True):
            pytest.skip(f"what is known of the calls is of {version}")
        (folder / "bundle").mkdir()
        self.bundle = make(broken, folder / "bundle")

    def run(self, *around: str) -> str:
        """Return what is said on the standard error."""
        done = subprocess.run(
            self.words(*around), capture_output=True, text=True, check=False, timeout=60
        )
        self.clear()
        assert done.returncode != 0
        return done.stderr

    def words(self, *around: str) -> list[str]:
        """Return the command line, with the program around the runtime."""
        *before, program = argv(self.runtime)
        words = ["--root", str(self.root), "run", "--bundle", str(self.bundle), self.container]
        return [*before, *around, program, *words]

    def clear(self) -> None:
        """Delete what is left of the container."""
        clear(self.runtime, self.root, self.container)


def whole(text: str) -> list[str]:
    """The calls of a trace, without the pid; halves that strace wrote apart are joined."""
    calls, begun = [], {}
    for line in text.splitlines():
        pid, _, call = line.partition(" ")
        if call.endswith("<unfinished ...>"):
            begun[pid] = call.removesuffix("<unfinished ...>").rstrip()
        elif found := re.match(r"\s*<\.\.\. \w+ resumed>(.*)", call):
            call = begun.pop(pid, "") + found[1]
        if not call.endswith("<unfinished ...>"):
            calls.append(re.sub(r"\)\s+= ", ") = ", call.strip()))
    return calls
