"""An image as nvidia/cuda is, pulled by the run: its conditions, and who made them."""

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Program
from tests.rootfs_tools.layouts import LayoutFolder, member, tar
from tests.rootfs_tools.registry import real
from tests.rootfs_tools.registry.test_trees import CUDA

TAGS = {
    "12.4": ["NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471"],
    "13.0": ["NVIDIA_REQUIRE_CUDA=cuda>=13.0 brand=tesla,driver>=570,driver<571"],
    "legacy": ["CUDA_VERSION=99.1.0"],
}
"""Tag → what makes the condition; the simulated driver has CUDA 12.4."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    shell = Path("/bin/busybox").read_bytes()
    folder = tmp_path_factory.mktemp("registry")
    with real.registry(folder / "r") as found:
        for tag, condition in TAGS.items():
            plain = [text for text in CUDA["Env"] if not text.startswith("NVIDIA_REQUIRE")]
            layers = (
                tar(member("bin/", tarfile.DIRTYPE),
                    *(member(f"bin/{name}", content=shell, mode=0o755) for name in ("sh", "ls"))),
                tar(member("usr/local/cuda/version.txt", content=b"CUDA\n")),
            )  # fmt: skip
            config = {"Env": [*plain, *condition], "Labels": CUDA["Labels"]}
            layout = LayoutFolder(folder / tag, *layers, **config)
            real.fill(found, f"nvidia/cuda:{tag}", layout.path, "--dest-tls-verify=false")
        yield found


@pytest.fixture
def cuda(
    command: str, tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run `ls` in nvidia/cuda:TAG with flags; the registry stands for docker.io."""
    real.no_settings(tmp_path, monkeypatch)
    real.as_docker_io(host, tmp_path)
    program = Program(command, store=tmp_path / "store")

    def call(tag: str, *flags: str) -> tuple[int, str, str]:
        words = ("run", "-q", "--name", "c", "--gpu-driver", "simulated", *flags)
        done = program(*words, f"nvidia/cuda:{tag}", "ls", "/dev/nvidia0")
        return done.returncode, done.stderr, program("gpu", "why", "c").stdout

    yield call
    program.clean()


def test_a_condition_that_holds(cuda: Callable[..., tuple[int, str, str]]) -> None:
    status, error, why = cuda("12.4", "--gpus", "0")
    assert (status, error) == (0, "")
    text = " ".join(why.split())
    assert f"environment of the image nvidia/cuda:12.4: {TAGS['12.4'][0]}" in text
    assert "command line: --gpus 0 " in text


@pytest.mark.parametrize(
    ("tag", "flags", "name", "condition"),
    [
        ("13.0", (), "NVIDIA_REQUIRE_CUDA of the image nvidia/cuda:13.0", "cuda>=13.0"),
        ("legacy", (), "CUDA_VERSION of the image nvidia/cuda:legacy", "cuda>=99.1"),
        ("12.4", ("-e", "NVIDIA_REQUIRE_CUDA=cuda>=77"),
         "NVIDIA_REQUIRE_CUDA of the command line (-e)", "cuda>=77"),
        ("12.4", ("-e", "NVIDIA_REQUIRE_MORE=driver>=999"),
         "NVIDIA_REQUIRE_MORE of the command line (-e)", "driver>=999"),
    ],
)  # fmt: skip
def test_a_condition_that_does_not_hold(
    cuda: Callable[..., tuple[int, str, str]],
    tag: str, flags: tuple[str, ...], name: str, condition: str,
) -> None:  # fmt: skip
    status, error, _ = cuda(tag, "--gpus", "0", *flags)
    assert status == 125
    assert error.count("\n") == 1
    assert f"requirement error: unsatisfied condition: {condition}" in error
    assert f"({name}; this host: cuda 12.4, driver 550.163.01" in error
    assert "-e NVIDIA_DISABLE_REQUIRE=1 passes over it)" in error


def test_the_way_out(cuda: Callable[..., tuple[int, str, str]]) -> None:
    status, error, why = cuda("13.0", "--gpus", "0", "-e", "NVIDIA_DISABLE_REQUIRE=1")
    assert (status, error) == (0, "")
    assert "environment of the command line (-e): NVIDIA_DISABLE_REQUIRE=1" in why


def test_the_image_alone_gets_no_gpu(cuda: Callable[..., tuple[int, str, str]]) -> None:
    status, error, _ = cuda("12.4")
    assert status == 1  # ls finds no node
    assert "the image nvidia/cuda:12.4 asks for GPUs by its own environment" in error
