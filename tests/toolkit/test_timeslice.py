"""`minirun gpu timeslice`: what nvidia-smi is told, by a script that stands in for it."""

import os
from pathlib import Path

import pytest

from conftest import Program
from minirun.core.errors import GPUError
from minirun.gpu.inventory import Inventory
from minirun.toolkit import timeslice


@pytest.fixture
def driven(simulated: Inventory) -> Inventory:
    """The simulated host, as if its driver were real."""
    return simulated._replace(simulated=False)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nvidia-smi"
    path.write_text('#!/bin/sh\necho "$@" >>"$0.calls"\necho "timeslice: Default"\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return path


def test_each_gpu_by_its_uuid(driven: Inventory, smi: Path) -> None:
    lines = timeslice.set_slice(driven, driven.gpus[1:3], "medium")
    assert lines == ["gpu 1: time slice medium", "gpu 2: time slice medium"]
    assert Path(f"{smi}.calls").read_text().splitlines() == [
        f"compute-policy -i {gpu.uuid} --set-timeslice 2" for gpu in driven.gpus[1:3]
    ]
    assert timeslice.show(driven) == ["timeslice: Default"]


def test_nvidia_smis_own_words(driven: Inventory, smi: Path) -> None:
    smi.write_text("#!/bin/sh\necho 'Unable to set timeslice: Not Supported'\nexit 3\n")
    with pytest.raises(GPUError, match="nvidia-smi: Unable to set timeslice: Not Supported"):
        timeslice.set_slice(driven, driven.gpus[:1], "short")


def test_no_driver_no_slice(minirun: Program) -> None:
    for words in ((), ("short",), ("default", "--gpus", "0")):
        done = minirun("gpu", "timeslice", *words, "--gpu-driver", "simulated")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
        assert "the simulated driver has no time slices" in done.stderr
        assert "SIMULATED" in done.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("tiny",), "invalid time slice 'tiny' (one of default, short, medium, long)"),
        (("short", "long"), "invalid time slice 'short long'"),
        (("short", "--gpus", "3:0"), "--gpus 3:0: name whole gpus here"),
        (("short", "--gpus", "count=1"), "--gpus count=1: name whole gpus here"),
        (("short", "--gpus", "9"), "device error: 9: unknown device"),
    ],
)
def test_mistakes(minirun: Program, words: tuple[str, ...], line: str) -> None:
    done = minirun("gpu", "timeslice", *words, "--gpu-driver", "simulated")
    assert done.returncode != 0 and line in done.stderr and done.stderr.count("\n") == 1
