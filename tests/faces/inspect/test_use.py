"""stats: the column of GPUs. NVML's numbers for a real GPU, and none for one that is SIMULATED."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from minirun.core.keeping import state
from minirun.faces.inspect import use
from minirun.gpu.nvidia.shared import nvml

NAMES = ("none", "one", "both")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """use_nvml.c, compiled: NVML's functions are real calls of a library, by pynvml, in a child."""
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("use_nvml.c")
    soname = "-Wl,-soname,libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", soname, "-o", path, source], check=True)
    return path


@pytest.fixture
def three(minirun: Program) -> Program:
    """Containers with no GPU, one and two: of the simulated driver."""
    for name, flags in zip(NAMES, ((), ("--gpus", "0"), ("--gpus", "0,1")), strict=True):
        driver = ("--gpu-driver", "simulated") if flags else ()
        words = ("run", "-d", "--name", name, *flags, *driver, "busybox", "sleep", "300")
        done = minirun(*words, env={"MINIRUN_SIM": "count=2"})
        assert done.returncode == 0, done.stderr
    return minirun


def rows(program: Program) -> dict[str, Any]:
    records = [state.load(str(program.root), program.id(name)) for name in NAMES]
    found = use.samples(records)
    return {row["Name"]: row.get("GPU") for row in use.rows(found, found)}


def rewrite(program: Program, **changes: Any) -> None:
    """Change the records of stage 5: the library's UUIDs, and whose driver it was."""
    for name in NAMES[1:]:
        path = program.directory(name) / "edits.json"
        edits = json.loads(path.read_text())
        for number, gpu in enumerate(edits["gpus"]):
            gpu["uuid"] = f"GPU-of-the-test-{number}"
        path.write_text(json.dumps(edits | changes))


def answering(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `use` find a driver, and NVML's library be this one."""
    ask: Callable[..., Any] = nvml.ask

    def prepare() -> Any:
        import pynvml

        pynvml.CDLL(str(library))  # while it is root: no other user gets to the folder of tests
        return pynvml

    monkeypatch.setattr(use, "_has_driver", lambda: True)
    monkeypatch.setattr(nvml, "ask", lambda _, work: ask(prepare, work))


def test_without_a_driver_there_is_no_column(three: Program) -> None:
    if use._has_driver():
        pytest.skip("NVIDIA's driver is loaded on this machine")
    shown = three("stats", "--no-stream").stdout
    assert "GPU" not in shown and len(shown.splitlines()) == 4
    assert rows(three) == dict.fromkeys(NAMES)


def test_a_simulated_gpu_has_no_numbers(
    three: Program, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a driver answers, and for a GPU of the same UUID."""
    answering(library, monkeypatch)
    rewrite(three)
    assert rows(three) == dict.fromkeys(NAMES, "-")


def test_a_real_one_has_nvml_s(
    three: Program, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(library, monkeypatch)
    rewrite(three, simulated=False)
    assert rows(three) == {
        "none": "-", "one": "31%, 1GiB / 80GiB", "both": "32%, 3GiB / 160GiB",
    }  # fmt: skip


def test_a_driver_that_does_not_answer_has_no_column(
    three: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use, "_has_driver", lambda: True)
    if not list(Path("/usr/lib").glob("**/libnvidia-ml.so.1")):
        assert rows(three) == dict.fromkeys(NAMES)
