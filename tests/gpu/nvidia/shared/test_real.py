"""The real driver's inventory, on pretend hosts: NVML through a library of its real interface.

(test_golden.py compares libraries, binaries, firmware and nodes with the real tools' results.)
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun.core.errors import GPUError, UsageError
from minirun.gpu.drivers import inventory
from minirun.gpu.nvidia.shared import real
from required import installed

NO_DRIVER = "minirun's tests need a host without an nvidia driver here"
ASK = """
import json
from minirun.core.errors import GPUError
from minirun.gpu.nvidia.shared import nvml
nvml.TIMEOUT = 2
try:
    print(json.dumps(nvml.query()))
except GPUError as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture(scope="module")
def library() -> Iterator[Path]:
    compiler = installed("gcc")
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are root's alone; the asker is nobody
    folder.chmod(0o755)
    source = Path(__file__).parent / "fake_nvml.c"
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, source], check=True)
    yield folder
    shutil.rmtree(folder)


def ask(folder: Path | str, **env: str) -> object:
    """Query NVML in an interpreter of its own, as a run does."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)} | env
    done = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, env=environment, timeout=60,
        check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def with_access_files(library: Path, *words: str) -> list[str]:
    """The command in a mount namespace where GPU 0 (by minor) has a MIG instance."""
    base = "/proc/driver/nvidia/capabilities/gpu0/mig/gi7"
    script = (
        f"mount -t tmpfs t /proc/driver && mkdir -p {base}/ci0 && "
        f"echo DeviceFileMinor: 66 > {base}/access && "
        f'echo DeviceFileMinor: 67 > {base}/ci0/access && exec "$@"'
    )
    return ["unshare", "--mount", "sh", "-c", script, "sh", *words]


def test_what_nvml_says(library: Path) -> None:
    done = subprocess.run(
        with_access_files(library, sys.executable, "-c", ASK), capture_output=True, text=True,
        env=os.environ | {"LD_LIBRARY_PATH": str(library)}, check=True,
    )  # fmt: skip
    cuda, gpus, driver = json.loads(done.stdout)
    assert (cuda, driver) == ("12.4", "")
    nobody = "uid-65534"  # whom the library saw itself running as
    # NVML has no MIG device at index 0: that there is one at 1 is not to be forgotten
    assert gpus == [
        [0, 1, f"GPU-0001-{nobody}", "00000000:a1:00.0", "NVIDIA Fake", "Nvidia", "8.0", [],
         False],
        [1, 0, f"GPU-0002-{nobody}", "00000000:a2:00.0", "NVIDIA Fake", "Nvidia", "8.0",
         [[f"MIG-0064-{nobody}", 7, 0, 66, 67, 1]], True],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "error"),
    (
        ("nvmlInitWithFlags", "initialization error: nvml error: driver not loaded"),
        ("nvmlDeviceGetUUID", "detection error: nvml error: gpu is lost"),
        ("crash", "detection error: nvml crashed"),
    ),
)
def test_nvml_fails(library: Path, function: str, error: str) -> None:
    assert ask(library, FAIL=function) == error


def test_no_nvml_at_all(tmp_path: Path) -> None:
    said = ask(tmp_path)
    assert isinstance(said, str)
    assert said.startswith("initialization error: load library failed: libnvidia-ml.so.1: cannot")


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason=NO_DRIVER)
def test_without_a_driver(store: str) -> None:
    with pytest.raises(GPUError, match="no nvidia driver is loaded") as caught:
        inventory("nvidia", store)
    assert "--gpu-driver=simulated" in caught.value.hint
    assert inventory("auto", store).simulated


def test_an_unknown_driver(store: str) -> None:
    with pytest.raises(UsageError, match="unknown gpu driver: voodoo") as caught:
        inventory("voodoo", store)
    assert caught.value.hint == "one of auto, nvidia, simulated, amd, intel, gaudi"
    with pytest.raises(UsageError, match="amd has no driver such as NVIDIA's"):
        inventory("amd", store)


@pytest.mark.parametrize(
    ("line", "version"),
    (
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8", "550.163.01"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release",
            "570.86.15",
        ),
    ),
)
def test_the_version_of_the_kernel_module(line: str, version: str, tmp_path: Path) -> None:
    folder = tmp_path / "proc/driver/nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text(f"{line}\nGCC version:  gcc version 12.2.0\n")
    assert real.kernel_version(str(tmp_path)) == version
    (folder / "version").write_text("nonsense\n")
    with pytest.raises(GPUError, match="no driver version"):
        real.kernel_version(str(tmp_path))


def test_gpus_of_the_kernel_module(tmp_path: Path) -> None:
    for bus, minor in (("0000:0f:00.0", 0), ("0000:07:00.0", 3)):
        folder = tmp_path / "proc/driver/nvidia/gpus" / bus
        folder.mkdir(parents=True)
        text = f"Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-{minor}\nBus Location: \t {bus.upper()}\n"
        (folder / "information").write_text(f"{text}Device Minor: \t {minor}\n")
    gpus = real.proc_gpus(str(tmp_path))
    assert [(g.number, g.minor, g.uuid, g.bus_id, g.model) for g in gpus] == [
        (0, 3, "GPU-3", "00000000:07:00.0", "NVIDIA L4"),
        (1, 0, "GPU-0", "00000000:0f:00.0", "NVIDIA L4"),
    ]
    assert [gpu.proc_name for gpu in gpus] == ["0000:07:00.0", "0000:0f:00.0"]
    assert real.proc_gpus(str(tmp_path / "nowhere")) == ()
