"""notebooks/01-seven-stages: from top to bottom in a real kernel, beside the kernel's facts."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbformat

import minirun as package
from conftest import STORE, Program, skip
from minirun import api as minirun_api
from minirun.knowledge import texts

ROOT = Path(package.__file__).parents[1]
NOTEBOOK = ROOT / "notebooks" / "01-seven-stages.ipynb"
SOURCE = NOTEBOOK.with_suffix(".py")
PLAY = Path(__file__).with_name("play.py")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
UNANSWERED = "no prediction yet"


def cells(path: Path) -> list[tuple[str, str]]:
    notebook = jupytext.read(path)
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def test_notebook_and_source_are_in_step() -> None:
    assert cells(NOTEBOOK) == cells(SOURCE), "jupytext --to ipynb notebooks/01-seven-stages.py"


def test_it_is_committed_without_outputs() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


def test_no_answer_stands_in_its_text() -> None:
    """Neither what is right nor why: the first is found out, the second is in the program."""
    for kind, source in cells(SOURCE):
        if kind == "code" and ".check(" in source:
            assert "why=" not in source and "answer=" not in source
    said = "".join(source for _, source in cells(SOURCE))
    names = re.findall(r'reason="([^"]+)"', said)
    assert sorted(names) == sorted(texts.table("lessons", "en"))
    for name in names:
        assert texts.reason(name)[:40] not in said.replace("\n", " ")


class Played:
    """A notebook with its outputs."""

    def __init__(self, text: str) -> None:
        self.cells: list[Any] = nbformat.reads(text, as_version=4).cells

    def said(self, source: str) -> str:
        """All that the one code cell that contains `source` has shown, as text."""
        found = [c for c in self.cells if c.cell_type == "code" and source in c.source]
        assert len(found) == 1, source
        return "".join(
            output.get("text") or output["data"]["text/plain"] for output in found[0].outputs
        )

    def html(self, source: str) -> str:
        found = next(c for c in self.cells if c.cell_type == "code" and source in c.source)
        return "".join(output["data"]["text/html"] for output in found.outputs)

    def verdicts(self) -> list[str]:
        """What happened, of each prediction."""
        last = [c.outputs[-1]["data"]["text/plain"] for c in self.cells if ".check(" in c.source]
        return [text.splitlines()[0] for text in last]


def environment(minirun: Program, home: Path) -> dict[str, str]:
    own = {"HOME": str(home), "MINIRUN_ROOT": str(minirun.root), "MINIRUN_STORE": STORE}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "XDG"))}
    return kept | own


HAPPENED = [
    "user, time",
    "init asks the runtime",
    "the host's",
    "--pid: init's process id",
    "5",
    "open fails: not permitted",
    "the message HOOKS_DONE",
    "none",
]


def test_live_beside_the_kernels_facts(minirun: Program, tmp_path: Path) -> None:
    argv = [sys.executable, str(PLAY), str(NOTEBOOK), "-1"]
    player = subprocess.Popen(
        argv, env=environment(minirun, tmp_path), cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert player.stderr
        assert player.stderr.readline() == "ready\n"
        states = [
            json.loads(minirun("state", path.name).stdout) for path in minirun.root.glob("[!.]*")
        ]
        assert sorted(state["status"] for state in states) == ["creating", "running"]
        pid = next(state["pid"] for state in states if state["status"] == "running")
        inodes = {
            kind: (
                os.stat(f"/proc/{pid}/ns/{kind}").st_ino,
                os.stat(f"/proc/self/ns/{kind}").st_ino,
            )
            for kind in os.listdir("/proc/self/ns")
            if "children" not in kind
        }
        nodes = {
            str(path.name): os.stat(path).st_rdev
            for path in Path(f"/proc/{pid}/root/dev").glob("nvidia*")
        }
    finally:
        text, errors = player.communicate("\n", timeout=60)
    assert player.returncode == 0, errors
    played = Played(text)
    table = played.said("namespaces.compare(host)")
    for kind, (inside, outside) in inodes.items():
        row = next(line for line in table.splitlines() if line.startswith(f"{kind} "))
        assert row.split()[1:3] == [str(inside), str(outside)]
        assert ("the same" in row) == (inside == outside)
    shown = played.said("devices = container.devices")
    for name, device in nodes.items():
        assert f"c {os.major(device)}:{os.minor(device)} /dev/{name}\n" in shown
    assert len(nodes) == 5
    assert played.said("status.st_rdev").count("the same") == 5
    assert f"init is process {pid} " in played.said("birth = ")
    assert played.verdicts() == [f"{UNANSWERED}: {text}" for text in HAPPENED]
    assert "status     removed" in played.said("container.remove()")
    assert not Path(f"/proc/{pid}").exists()
    assert minirun.left() == []


def test_from_a_recording_as_nobody(minirun: Program) -> None:
    if not os.stat(ROOT).st_mode & 0o001:
        skip(f"user nobody cannot read {ROOT}")
    with tempfile.TemporaryDirectory(prefix="minirun-nobody.") as home:
        os.chown(home, 65534, 65534)
        done = subprocess.run(
            [*NOBODY, sys.executable, str(PLAY), str(NOTEBOOK)], cwd=home, text=True, check=False,
            env=environment(minirun, Path(home)), capture_output=True, timeout=100,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    played = Played(done.stdout)
    assert "from a recording: containers need root" in played.said("live = minirun.can_run()")
    assert "SIMULATED" in played.said("minirun.replay(")
    recorded = minirun_api.replay("gpus-0-1")
    assert isinstance(recorded, minirun_api.Timeline)
    table = played.said("namespaces.compare(host)")
    assert f"mnt        {recorded.namespaces['mnt']} " in table
    assert "c 195:1 /dev/nvidia1" in played.said("devices = container.devices")
    assert played.verdicts() == [f"{UNANSWERED}: {text}" for text in HAPPENED]
    assert not minirun.root.exists(), "nothing was run"


def test_a_learner_who_answers(minirun: Program, tmp_path: Path) -> None:
    """The second choice everywhere: right where it is what happened, and nowhere else."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        answering = "import functools; predict = functools.partial(minirun.predict, answer=2)"
        cell.source = cell.source.replace("from minirun import Namespaces, predict", f"from minirun import Namespaces; {answering}")
        cell.source = cell.source.replace("live = minirun.can_run()", "live = None")
        cell.source = cell.source.replace("{live.reason}", "")
    copy = tmp_path / "answered.ipynb"
    nbformat.write(notebook, copy)
    done = subprocess.run(
        [sys.executable, str(PLAY), str(copy)], cwd=tmp_path, text=True, check=False,
        env=environment(minirun, tmp_path), capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = [verdict.partition(":")[0] for verdict in Played(done.stdout).verdicts()]
    assert words == ["right", "right", "right", "right", "not so", "not so", "right", "not so"]
