"""Consent: an image's environment alone gives no GPU; the user's does."""

import json
from pathlib import Path

import pytest

from conftest import Program
from gpu import images
from minirun.core.errors import GPUError
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.asked.ways import environment

ALL = ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility")
NODES = "ls /dev | grep -c '^nvidia[0-9]'"


@pytest.mark.parametrize(
    ("image", "user", "way"),
    [
        (ALL, (), "--gpus all"),
        (("NVIDIA_VISIBLE_DEVICES=0,1",), (), "--gpus 0,1"),
        (("NVIDIA_VISIBLE_DEVICES=none",), (), "--gpus none"),
        (("NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0",), (), "--device nvidia.com/gpu=0"),
        (("CUDA_VERSION=12.4.1",), (), "--gpus all"),
        (("CUDA_VERSION=12.4.1", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"), (), ""),
        (("NVIDIA_VISIBLE_DEVICES=void",), (), ""),
        (("NVIDIA_VISIBLE_DEVICES=",), (), ""),
        (ALL, ("NVIDIA_VISIBLE_DEVICES=void",), ""),
        ((), ("CUDA_VERSION=12.4.1",), ""),
        ((), (), ""),
    ],
)
def test_what_an_image_is_refused(image: tuple[str, ...], user: tuple[str, ...], way: str) -> None:
    own, refused = environment.requested_by_user("cuda", image, user)
    assert own is None
    assert refused.endswith(f"gets none: {way} gives them") if way else refused == ""


@pytest.mark.parametrize(
    ("value", "devices"),
    [("all", ("all",)), ("0, 2", ("0", "2")), ("none", ()), ("GPU-1", ("GPU-1",))],
)
def test_what_the_user_asks_for(value: str, devices: tuple[str, ...]) -> None:
    own, refused = environment.requested_by_user("cuda", ALL, (f"NVIDIA_VISIBLE_DEVICES={value}",))
    assert own == GpuSelector(devices or ("none",))
    assert refused == ""


def test_the_users_cdi_name_belongs_elsewhere() -> None:
    with pytest.raises(GPUError, match="is the name of a cdi device"):
        environment.requested_by_user("cuda", (), ("NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0",))


@pytest.fixture
def asking(minirun: Program, tmp_path: Path) -> Program:
    """The program, with a store in which the image `cuda` asks for all GPUs."""
    images.make(tmp_path / "store", "cuda", ALL)
    minirun.store = str(tmp_path / "store")
    return minirun


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_the_image_alone_gets_none_and_one_line(asking: Program, mode: str) -> None:
    done = asking("run", "--name", "c", "--gpu-mode", mode, "cuda", "sh", "-c", NODES)
    assert done.stdout == "0\n"
    assert done.stderr == (
        "minirun: the image cuda:latest asks for GPUs by its own environment "
        "(NVIDIA_VISIBLE_DEVICES=all) and gets none: --gpus all gives them\n"
    )
    config = json.loads((asking.directory("c") / "config.json").read_text())
    assert "hooks" not in config
    (said,) = (event for event in asking.events("c") if event["name"] == "warning")
    assert "--gpus all gives them" in str(said["args"])


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        (("--gpus", "0,1"), 2),
        (("-e", "NVIDIA_VISIBLE_DEVICES=1"), 1),
        (("-e", "NVIDIA_VISIBLE_DEVICES=all"), 4),
        (("-e", "NVIDIA_VISIBLE_DEVICES=0,2", "--gpu-mode", "cdi"), 2),
        (("-e", "NVIDIA_VISIBLE_DEVICES=none"), 0),
        (("-e", "NVIDIA_VISIBLE_DEVICES=void"), 0),
        (("-e", "NVIDIA_VISIBLE_DEVICES="), 0),
        (("--gpus", "none", "-e", "NVIDIA_VISIBLE_DEVICES=all"), 0),
    ],
)
def test_the_users_word_counts(asking: Program, flags: tuple[str, ...], count: int) -> None:
    flags = ("--rm", "--gpu-driver", "simulated", *flags)
    done = asking("run", *flags, "cuda", "sh", "-c", NODES)
    assert (done.stdout, done.stderr) == (f"{count}\n", "")


def test_a_file_of_the_user_is_the_users_word(asking: Program, tmp_path: Path) -> None:
    (tmp_path / "env").write_text("NVIDIA_VISIBLE_DEVICES=0,2\n")
    flags = ("--rm", "--gpu-driver", "simulated", "--env-file", f"{tmp_path}/env")
    done = asking("run", *flags, "cuda", "sh", "-c", NODES)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("-e", "NVIDIA_VISIBLE_DEVICES=0"), {"--utility"}),
        (("--gpus", "0"), {"--utility"}),
        (("--gpus", "0", "-e", "NVIDIA_DRIVER_CAPABILITIES=compute"), {"--compute"}),
        (("--gpus", '"device=0","capabilities=compute,utility"'), {"--compute", "--utility"}),
    ],
)
def test_the_capabilities_of_the_image_hold(
    asking: Program, flags: tuple[str, ...], expected: set[str]
) -> None:
    """As with docker: the user names GPUs, and the image knows what it needs of the driver."""
    asking("run", "--name", "c", "--gpu-driver", "simulated", *flags, "cuda", "true")
    argv = next(e["args"] for e in asking.events("c") if e["name"] == "nvidia-container-cli")
    assert expected == {"--compute", "--utility"}.intersection(argv["argv"])


def test_in_a_bundle_the_rule_of_the_real_stack_holds(asking: Program, tmp_path: Path) -> None:
    """Its config.json names the hook: its author has decided."""
    spec = json.loads(asking("spec", "--gpus", "0", "--gpu-driver", "simulated", "cuda", "sh", "-c",
                             NODES).stdout)  # fmt: skip
    env = [row for row in spec["process"]["env"] if not row.startswith("NVIDIA_")]
    spec["process"]["env"] = [*env, *ALL]
    spec["root"]["path"] = str(next((tmp_path / "store/images/cuda/layers").iterdir()))
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/config.json").write_text(json.dumps(spec))
    flags = ("--gpu-driver", "simulated", "--bundle", str(tmp_path / "bundle"))
    done = asking("run", *flags, "b")
    assert done.stdout == "4\n", done.stderr
