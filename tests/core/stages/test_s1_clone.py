"""Stage 1, while init is half-made: who may look into it, and what it keeps of its caller."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Program, wait_until
from minirun.core.errors import MinirunError
from minirun.core.gates import open_gate
from minirun.core.kernel import namespaces
from minirun.core.stages import s1_clone

NAME = f"clone-{os.getpid()}"
MAP = ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")


@pytest.fixture
def held(reachable: Program) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Hold a run at the end of stage 1, in two groups besides root's; return its log."""
    runs = []

    def start(*flags: str) -> list[dict[str, Any]]:
        argv = reachable.argv("run", "--rm", "--name", NAME, *flags, "busybox", "true")
        env = os.environ | {"MINIRUN_GATES": "2:begin"}
        runs.append(subprocess.Popen(["setpriv", "--groups", "4711,4712", *argv], env=env))
        wait_until(lambda: '"kind":"gate"' in reachable.log(NAME))
        return [json.loads(line) for line in reachable.log(NAME).splitlines()]

    yield start
    open_gate(str(reachable.directory(NAME)))
    assert runs[0].wait(30) == 0


@pytest.mark.parametrize("flags", [(), MAP], ids=["root", "user"])
def test_no_process_may_look_into_init(
    held: Callable[..., list[dict[str, Any]]], flags: tuple[str, ...]
) -> None:
    rows = [row for row in held(*flags) if row["actor"] == "init" and row["name"] == "prctl"]
    options = [(row["args"]["option"], row["args"].get("arg2")) for row in rows]
    assert options.count(("PR_SET_DUMPABLE", 0)) == (2 if flags else 1)
    assert ("PR_SET_DUMPABLE", 0) in options[:2], "at once"


def test_root_of_a_user_namespace_has_none_of_the_callers_groups(
    held: Callable[..., list[dict[str, Any]]],
) -> None:
    """By them it would reach the sources of mounts that only they may read."""
    pid = held(*MAP)[-1]["pid"]
    status = Path(f"/proc/{pid}/status").read_text()
    assert "\nUid:\t100000\t100000\t100000\t100000\n" in status
    assert (
        next(line for line in status.splitlines() if line.startswith("Groups:")).split()[1:] == []
    )


def test_in_a_chroot_the_reason_is_said(tmp_path: Path) -> None:
    """There / is no mount point, unless the directory was bound on itself before."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            namespaces.unshare(namespaces.CLONE_NEWNS)
            os.chroot(tmp_path)
            container: Any = SimpleNamespace(extras={})
            with pytest.raises(MinirunError, match=r"^/ is no mount point, as in a chroot: "):
                s1_clone.isolate_mounts(container)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
