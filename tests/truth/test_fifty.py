"""Fifty-five runs under the oracle: eleven kinds of container, five of each, as users start them.

Every second run of a kind is on cgroup v2, four kinds have GPUs, and the flags change from run to
run. Each goes through `minirun teach oracle`, the command itself.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, skip
from truth.conftest import GPUS, USER, plain_config, save, with_command

RUNS = (
    ("--rm",),
    ("--rm", "--pids-limit", "0"),
    ("--memory", "64m"),
    ("--rm", "-e", "A=1", "--hostname", "host", "-w", "/tmp"),
    ("--rm", "--cap-add", "ALL", "--network", "host"),
)
"""The flags of a kind's five runs."""


class Case:
    """One of them: a program with a state root, a directory, and the flags of this run."""

    def __init__(self, program: Program, directory: Path, layer: Path, flags: tuple[str, ...]):
        self.program = program
        self.directory = directory
        self.layer = layer
        self.flags = flags
        self.name = f"fifty-{os.getpid()}"

    def run(self, *args: str, status: int = 0, more: int = 80) -> dict[str, Any]:
        """Ask the oracle about `run IMAGE`."""
        return self.ask("run", *self.flags, *args, status=status, more=more)

    def ask(self, *words: str, status: int = 0, more: int = 0) -> dict[str, Any]:
        """Ask the oracle; insist that both directions agree on over `more` system calls."""
        report = self.directory / "report"
        with report.open("wb") as out, (self.directory / "said").open("wb") as said:
            done = subprocess.run(
                self.program.argv("teach", "oracle", "--json", "--", *words),
                stdin=subprocess.DEVNULL, stdout=out, stderr=said, timeout=60, check=False,
            )  # fmt: skip
        return self.judge(done.returncode, report.read_text(), status, more)

    def judge(self, code: int, text: str, status: int, more: int) -> dict[str, Any]:
        said = self.directory / "said"
        assert text, said.exists() and said.read_text()
        found: dict[str, Any] = json.loads(text)
        sums = f"{found['events']} events, {found['system_calls']} system calls"
        print(sums, *found["untrue"], *found["missing"], sep="\n")
        assert (len(found["untrue"]), len(found["missing"]), code) == (0, 0, 0)
        assert found["events"] == found["system_calls"] > more
        assert found["status"] == status
        return found


def plain(case: Case) -> None:
    case.run("busybox", "true")


def gpus(case: Case) -> None:
    assert case.run(*GPUS, "busybox", "true", more=150)["simulated"]


def user_namespace(case: Case) -> None:
    case.run(*USER, "busybox", "true")


def failing_prestart_hook(case: Case) -> None:
    config = plain_config(case.program, case.layer)
    config["hooks"] = {"prestart": [{"path": "/bin/true"}, {"path": "/bin/false"}]}
    bundle = save(case.layer.parent, config)
    case.ask("run", "--bundle", str(bundle), case.name, status=1, more=30)


def missing_command(case: Case) -> None:
    case.run("busybox", "nosuch", status=127)


def terminal(case: Case) -> None:
    """Standard input and the command's output are a terminal, which somebody types into."""
    ours, theirs = os.openpty()
    argv = case.program.argv("teach", "oracle", "--json", "--", "run", *case.flags, "-it")
    oracle = subprocess.Popen(
        [*argv, "busybox", "sh", "-c", "tty; read line; exit $line"],
        stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"7\n")
    screen = b""
    while chunk := _read(ours):
        screen += chunk
    text, _ = oracle.communicate(timeout=60)
    os.close(ours)
    assert b"/dev/pts/0" in screen
    case.judge(oracle.returncode, text, 7, 80)


def _read(screen: int) -> bytes:
    try:
        return os.read(screen, 65536)
    except OSError:  # EIO: nobody has the terminal any more
        return b""


def volumes(case: Case) -> None:
    (case.directory / "file").touch()
    flags = ("-v", f"{case.directory}:/data:ro", "-v", f"{case.directory}/file:/etc/file")
    case.run(*GPUS, *flags, "busybox", "true", more=150)


def read_only(case: Case) -> None:
    case.run(*GPUS, "--read-only", "--user", "1000:1000", "busybox", "true", more=150)


def cdi_mode(case: Case) -> None:
    found = case.run(*GPUS, "--gpu-mode", "cdi", "busybox", "true", more=200)
    executed = sum(row["count"] for row in found["counts"] if row["event"] == "execve")
    assert found["simulated"]
    assert executed == 7 + 2, "seven hooks of the spec, the trampoline, the command"


def hooks_of_all_six_kinds(case: Case) -> None:
    bundle = with_command(case.layer.parent, "true")
    found = case.ask("run", "--bundle", str(bundle), case.name, more=80)
    executed = sum(row["count"] for row in found["counts"] if row["event"] == "execve")
    assert executed == 2 * 5 + 2


def create_start_exec_delete(case: Case) -> None:
    bundle = save(case.layer.parent, plain_config(case.program, case.layer))
    case.ask("create", "--bundle", str(bundle), case.name, more=80)
    case.ask("start", case.name, more=1)
    case.ask("exec", case.name, "true", more=20)
    case.ask("delete", "--force", case.name)


KINDS: tuple[Callable[[Case], None], ...] = (
    plain, gpus, user_namespace, failing_prestart_hook, missing_command, terminal, volumes,
    read_only, cdi_mode, hooks_of_all_six_kinds, create_start_exec_delete,
)  # fmt: skip


@pytest.fixture(params=range(len(RUNS)))
def case(
    request: pytest.FixtureRequest, reachable: Program, layer: Path, tmp_path: Path
) -> Iterator[Case]:
    if request.param % 2:
        if "cgroup2" not in Path("/proc/mounts").read_text():
            skip("no cgroup2 file system is mounted on this machine")
        reachable.flags = ("--cgroup", "v2")
    if request.getfixturevalue("kind") is hooks_of_all_six_kinds:
        request.getfixturevalue("bundle")
    yield Case(reachable, tmp_path, layer, RUNS[request.param])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_untrue_nothing_missing(kind: Callable[[Case], None], case: Case) -> None:
    kind(case)
