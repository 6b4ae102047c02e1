"""On a machine with a GPU: NVIDIA's driver, a container, and a CUDA program that computes in it.

Everything is real here, or it is skipped: elsewhere the driver is simulated or pretended.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import Program
from minirun.faces.inspect.sizes import human_binary

VERSION = Path("/proc/driver/nvidia/version")
SUM = "sum 528"
"""What kernel.c's 32 threads make."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kernel.c, compiled. It needs no CUDA toolkit, only gcc."""
    target = tmp_path_factory.mktemp("cuda") / "kernel"
    source = Path(__file__).with_name("kernel.c")
    subprocess.run(["gcc", "-O1", "-w", "-o", target, source, "-ldl"], check=True)
    return target


def driver() -> None:
    """Skip where NVIDIA's driver is not loaded."""
    if not VERSION.exists():
        pytest.skip(f"no GPU to compute on: NVIDIA's driver is not loaded ({VERSION} is missing)")


def run(
    minirun: Program, gpus: str, program: Path, *command: str
) -> subprocess.CompletedProcess[str]:
    flags = ("--gpus", gpus, "--gpu-driver", "nvidia", "-v", f"{program}:/kernel:ro")
    return minirun("run", "--rm", *flags, "debian", *command)


def test_the_container_sees_what_the_host_sees(minirun: Program, program: Path) -> None:
    driver()
    host = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    done = run(minirun, "all", program, "nvidia-smi", "-L")
    assert (done.returncode, done.stdout) == (0, host), done.stderr


def test_a_cuda_program_computes(minirun: Program, program: Path) -> None:
    driver()
    done = run(minirun, "all", program, "/kernel")
    assert done.returncode == 0 and SUM in done.stdout, done.stderr
    assert "SIMULATED" not in done.stderr


def test_one_gpu_of_all(minirun: Program, program: Path) -> None:
    driver()
    done = run(minirun, "0", program, "/kernel")
    assert (done.returncode, done.stdout) == (0, f"gpus 1 {SUM}\n"), done.stderr


def test_without_a_gpu_it_fails(minirun: Program, program: Path) -> None:
    driver()
    done = run(minirun, "none", program, "/kernel")
    assert done.returncode != 0 and SUM not in done.stdout


def test_the_program_itself_needs_a_driver(program: Path) -> None:
    """So that the tests above cannot pass by themselves."""
    if VERSION.exists():
        pytest.skip("there is a driver here")
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "libcuda.so.1" in done.stderr


def test_stats_has_what_nvidia_smi_says(minirun: Program, program: Path) -> None:
    """The column of a GPU that does nothing: its memory is that of the host's own look."""
    driver()
    flags = ("-d", "--name", "busy", "--gpus", "0", "--gpu-driver", "nvidia")
    assert minirun("run", *flags, "debian", "sleep", "300").returncode == 0
    form = "{{.GPU}}"
    (shown,) = minirun("stats", "--no-stream", "--format", form, "busy").stdout.splitlines()
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    total = int(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
    percent, _, memory = shown.partition("%, ")
    assert 0 <= int(percent) <= 100 and memory.endswith(f" / {human_binary(total << 20)}")
