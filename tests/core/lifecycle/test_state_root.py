r"""A state root whose path the kernel escapes in mountinfo: with a blank, a tab, a newline, a \."""

import json
from pathlib import Path

import pytest

from conftest import Program, wait_until
from core.lifecycle.held import GPUS, Held
from core.lifecycle.leftovers import assert_nothing
from minirun.core.kernel import mountinfo


@pytest.fixture(params=["state root", "state\troot", "state\nroot", "state\\040root"])
def awkward(request: pytest.FixtureRequest, minirun: Program, tmp_path: Path) -> Program:
    """`minirun`, with its containers below such a place."""
    minirun.named = tmp_path / request.param / "containers"
    return minirun


def _mounted(program: Program) -> list[str]:
    return sorted(
        {m.mount_point for m in mountinfo.read() if m.mount_point.startswith(str(program.root))}
    )


def test_run_ps_exec_delete(awkward: Program) -> None:
    done = awkward("run", "-d", "--name", "c", *GPUS, "busybox", "sleep", "60")
    assert done.returncode == 0, done.stderr
    assert "c " in awkward("ps").stdout
    assert awkward("exec", "c", "ls", "/dev/nvidia0").stdout == "/dev/nvidia0\n"
    facts = json.loads(awkward("inspect", "--json", "c").stdout)
    top = next(row for row in facts["mounts"] if row["path"] == "/")
    assert top["layers"]["upper"] == f"{awkward.directory('c')}/upper"
    done = awkward("delete", "--force", "c")
    assert (done.returncode, done.stderr) == (0, "")
    assert (awkward.left(), _mounted(awkward)) == ([], [])


def test_exec_before_pivot_root(awkward: Program) -> None:
    """The joiner has to find out that init's root is still the host's, and not to use that."""
    held = Held(awkward, "5:end", "--rm", *GPUS)
    assert awkward("exec", held.name, "ls", "/dev/nvidia0").stdout == "/dev/nvidia0\n"
    assert awkward("exec", held.name, "ls", str(awkward.root.parent)).returncode == 1
    held.runtime.kill()
    held.end()
    done = awkward("gc")
    assert (done.returncode, done.stderr) == (0, "")
    assert held.name in done.stdout
    assert_nothing(awkward, held.name, held.family)


def test_delete_of_a_damaged_record(awkward: Program) -> None:
    awkward("run", "-d", "--name", "c", "busybox", "sleep", "60")
    wait_until(lambda: json.loads(awkward("state", "c").stdout)["status"] == "running")
    (awkward.directory("c") / "state.json").write_text("{")
    done = awkward("delete", "--force", "c")
    assert done.returncode == 0, done.stderr
    assert (awkward.left(), _mounted(awkward)) == ([], [])
