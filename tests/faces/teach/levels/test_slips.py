"""Destructive slips of beginners: the host is unharmed, and the check says what it found."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from minirun.core.errors import MinirunError
from minirun.core.kernel import mountinfo
from minirun.faces.teach.levels import checks, sandbox
from minirun.faces.teach.levels.sandbox import witness

HERE = Path(__file__).parent
SLIPS = tomllib.loads((HERE / "slips.toml").read_text())["slip"]
CASES = [(slip, kind) for slip in SLIPS for kind in ("hybrid", "v1", "v2")]


OTHERS = "/tmp/pytest-of-"
"""What another worker's test remounts meanwhile lies there."""


@pytest.fixture
def decoy_node() -> Iterator[str]:
    """A file in the machine's own devtmpfs; no device, since other checks count those."""
    path = Path(f"/dev/minirun-decoy-{os.getpid()}")
    path.touch()
    yield str(path)
    path.unlink()


def hierarchies_of_version_1() -> list[mountinfo.Mount]:
    """The trees of version 1 that are mounted here."""
    return [mount for mount in mountinfo.read(fs_type="cgroup") if mount.fs_type == "cgroup"]


def disk() -> str:
    """The numbers of the disk that the root lies on, else of the first one."""
    (root,) = [mount for mount in mountinfo.read() if mount.mount_point == "/"][:1]
    major, minor = root.device.split(":")
    return f"{major} {minor}" if major != "0" else "8 0"


def name(each: Any) -> str:
    """What a case is called."""
    return each if isinstance(each, str) else each["title"]


def in_a_decoy(kind: str, *command: str) -> Any:
    """Run a command on a throw-away host; return what decoy.py says."""
    done = subprocess.run([sys.executable, HERE / "decoy.py", kind, *command],
                          capture_output=True, text=True, timeout=110)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("script", "path"), [
    ("rm -rf /root", "/root is gone"), ("echo x > /home/decoy", "home/decoy"),
    ("mv /etc /etc.old", "/etc is gone"), ("echo x > /etc/passwd", "/etc/passwd was written to"),
])  # fmt: skip
def test_the_throw_away_host_sees_harm(script: str, path: str) -> None:
    assert path in in_a_decoy("hybrid", "sh", "-c", script)["changed"]


@pytest.mark.parametrize(("slip", "kind"), CASES, ids=name)
def test_a_slip_harms_nothing(
    minirun: Program, slip: dict[str, Any], kind: str, tmp_path: Path, decoy_node: str
) -> None:
    if kind == "v1" and not hierarchies_of_version_1():
        pytest.skip("this machine has no tree of cgroups of version 1")
    program = tmp_path / "slip"
    script = slip["script"].replace("DECOY", os.path.basename(decoy_node)).replace("$DISK", disk())
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    before = witness.look()
    words = minirun.argv("--lang", "en", "level", "check", "2", "--", str(program))
    said = in_a_decoy(kind, *words)
    own = {f"{minirun.root} is new", f"{minirun.root}/.levels is new"}  # what `level list` shows
    assert set(said["changed"]) <= own
    left = [f"{folder}/{name}" for mount in mountinfo.read(fs_type="cgroup")
            for folder, names, _ in os.walk(mount.mount_point)
            for name in names if name == os.path.basename(decoy_node)]  # fmt: skip
    assert left == []
    harm = witness.differences(before, witness.look())
    assert [each for each in harm if OTHERS not in each] == []
    assert os.path.exists(decoy_node)
    found = re.search(r"Not yet \((.*)\)\.", said["out"])
    assert found and found[1] in slip["says"].split("|"), said
    assert said["err"] == "" or OTHERS in said["err"]


JOB = sandbox.Job(0, [], "", "", [], first=False)
HELD = [["", ""]] * len(checks.promises(0))


@pytest.mark.parametrize("said", [
    "", "no JSON", "[]", '"text"', "{}", *map(json.dumps, (
        HELD[1:], [*HELD, ["", ""]], [*HELD[1:], ["made-up", ""]], [*HELD[1:], ["hangs", 1]],
        [*HELD[1:], ["hangs"]], [*HELD[1:], "hangs"], [*HELD[1:], ["hangs", "", ""]],
        [*HELD[1:], [["hangs"], ""]],
    )),
])  # fmt: skip
def test_an_answer_that_the_program_has_made_up(said: str) -> None:
    """The program is root beside process 1, and can write to its output."""
    with pytest.raises(MinirunError, match="the sandbox's answer is no finding"):
        sandbox._results(said, JOB)
    assert sandbox._results(json.dumps(HELD), JOB) == HELD
