"""The recipe cuda-sim: the layout of nvidia/cuda, and a program that asks the driver."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import STORE, Program
from minirun.core.kernel.architecture import NATIVE
from minirun.gpu.simulated.elf import shared_object
from rootfs_tools import catalogue, recipe
from rootfs_tools.archives.saving import SavedSource, collected
from rootfs_tools.recipe import build, text
from rootfs_tools.take import take

SIMULATED = ("--gpus", "0,1", "--gpu-driver=simulated")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the image debian of the tests' own store, and cuda-sim on top of it."""
    path = str(tmp_path_factory.mktemp("store"))
    with collected(STORE, ["debian"]) as (image,):
        take(path, "debian", SavedSource(image, "debian of the tests"))
    build.build(path, "cuda-sim", lambda line: None)
    return path


def test_its_program_in_a_container(minirun: Program, store: str) -> None:
    minirun.store, words = store, ("run", "--rm", "--quiet")
    done = minirun(*words, *SIMULATED, "cuda-sim")
    assert done.stdout.splitlines() == [
        "/dev/nvidia0: No such device or address",
        "/dev/nvidia1: No such device or address",
        "libcuda.so.1: loaded, but it has no cuInit: a stand-in, as of a SIMULATED driver",
    ]
    assert done.returncode == 3
    done = minirun(*words, "cuda-sim")
    assert done.stdout.startswith("no driver: libcuda.so.1: cannot open shared object file")
    assert done.returncode == 1
    assert "asks for GPUs by its own environment (NVIDIA_VISIBLE_DEVICES=all)" in done.stderr


def test_its_layout_is_that_of_nvidias(store: str) -> None:
    image = catalogue.resolve(store, "cuda-sim")
    assert image.layers[0] == catalogue.resolve(store, "debian").layers[0]
    names = {text.partition("=")[0] for text in image.env}
    assert names == {
        "PATH", "LD_LIBRARY_PATH", "CUDA_VERSION", "NVIDIA_REQUIRE_CUDA", "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
    }  # fmt: skip
    top = Path(image.layers[1])
    assert os.readlink(top / "usr/local/cuda") == "cuda-12.4"
    assert "not by NVIDIA" in catalogue.details(store, "cuda-sim")["labels"]["maintainer"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled as the recipe says, beside a libcuda.so.1 that answers."""
    folder = tmp_path_factory.mktemp("ask")
    (wanted,) = text.load("cuda-sim").programs
    source = f"{recipe.FOLDER}/{wanted.compile}"
    subprocess.run(["cc", "-o", folder / "ask", source, *wanted.options], check=True)
    library = ["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1"]
    subprocess.run([*library, Path(__file__).with_name("pretend_cuda.c")], check=True)
    return folder / "ask"


@pytest.mark.parametrize(
    ("gpus", "status", "last"),
    [
        ("2", 0, "cuDeviceGetCount: 2"), ("0", 0, "cuDeviceGetCount: 0"),
        ("-1", 2, "cuInit: error 100 (CUDA_ERROR_NO_DEVICE)"),
    ],
)  # fmt: skip
def test_what_a_driver_answers(program: Path, gpus: str, status: int, last: str) -> None:
    done = ask(program, str(program.parent), gpus)
    assert done.returncode == status
    lines = [line for line in done.stdout.splitlines() if not line.startswith("/dev/")]
    assert lines[:2] == ["libcuda.so.1: loaded", "cuDriverGetVersion: CUDA 12.4"]
    assert lines[-1] == last


def test_a_stand_in_is_named(program: Path, tmp_path: Path) -> None:
    library = shared_object("libcuda.so.1", NATIVE.machine, (), "SIMULATED")
    (tmp_path / "libcuda.so.1").write_bytes(library)
    assert ask(program, str(tmp_path), "1").returncode == 3


def ask(program: Path, folder: str, gpus: str) -> subprocess.CompletedProcess[str]:
    environment = {"LD_LIBRARY_PATH": folder, "PRETEND": gpus}
    return subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
