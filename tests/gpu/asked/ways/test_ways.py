"""Four ways to ask for GPUs, each pair of them: which one counts, which two are refused."""

from pathlib import Path
from typing import Any

import pytest

from gpu.cdi.conftest import spec, write
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings
from minirun.gpu.asked.request import GpuOptions
from minirun.gpu.asked.ways import resolve
from minirun.gpu.asked.ways.records import RunGpus
from toolkit.vendors.tree import amd_host

OF_HOST = {"gpus": "0"}
ENVIRONMENT = {"variables": ("NVIDIA_VISIBLE_DEVICES=1",)}
VENDOR = {"gpus": "0", "driver": "amd"}
VENDORS_VARIABLE = {"variables": ("AMD_VISIBLE_DEVICES=1",)}
DEVICE = {"devices": ("nvidia.com/gpu=0",)}
ANNOTATION = {"annotations": (("cdi.k8s.io/x", "nvidia.com/gpu=0"),)}
AMD_DEVICE = {"devices": ("amd.com/gpu=1",)}


@pytest.fixture
def specs(tmp_path: Path) -> str:
    """A folder with a spec of each vendor."""
    for vendor in ("nvidia", "amd"):
        write(tmp_path / "specs", f"{vendor}.json", spec("0", "1", kind=f"{vendor}.com/gpu"))
    return str(tmp_path / "specs")


def given(tmp_path: Path, specs: str, *ways: dict[str, Any]) -> RunGpus:
    """What a host with AMD's GPUs, and the simulated driver, gives for these ways together."""
    together: dict[str, Any] = {"driver": "simulated", "spec_dirs": (specs,)}
    for way in ways:
        for name, value in way.items():
            both = isinstance(value, tuple) and name in together
            together[name] = (*together[name], *value) if both else value
    if together["driver"] == "amd" or "AMD" in str(together.get("variables")):
        together["driver_root"] = str(amd_host(tmp_path).root)
    settings = Settings()._replace(store=str(tmp_path / "store"), root=str(tmp_path / "root"))
    return resolve(GpuOptions(**together), settings, "")


@pytest.mark.parametrize("named", [DEVICE, ANNOTATION])
@pytest.mark.parametrize(
    ("way", "said"), [(OF_HOST, "--gpus 0"), (ENVIRONMENT, "-e NVIDIA_VISIBLE_DEVICES")]
)
def test_nvidias_gpus_by_a_variable_and_by_cdi_are_refused(
    tmp_path: Path, specs: str, way: dict[str, Any], named: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        given(tmp_path, specs, way, named)
    two = "are two ways to ask for the same vendor's gpus"
    assert str(caught.value) == f"{said} and the CDI device nvidia.com/gpu=0 {two}"
    assert caught.value.hint == "all of them in one: --gpus 0,1; or --gpu-mode=cdi for both"


def test_another_vendors_gpus_by_gpus_and_by_cdi_are_refused(tmp_path: Path, specs: str) -> None:
    with pytest.raises(UsageError, match=r"--gpus 0 and the CDI device amd.com.gpu=1 are two ways"):
        given(tmp_path, specs, VENDOR, AMD_DEVICE)


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_the_same_device_twice_is_one(tmp_path: Path, specs: str, mode: str) -> None:
    found = given(tmp_path, specs, VENDOR, {"devices": ("amd.com/gpu=0",), "mode": mode})
    assert found.cdi and found.cdi.devices == ("amd.com/gpu=0",)


def test_of_different_vendors_both_are_given(tmp_path: Path, specs: str) -> None:
    found = given(tmp_path, specs, OF_HOST, AMD_DEVICE)
    assert found.env[0] == "NVIDIA_VISIBLE_DEVICES=0"
    assert found.cdi and found.cdi.devices == ("amd.com/gpu=1",)
    found = given(tmp_path, specs, VENDOR, DEVICE)
    assert (found.env, found.choices.gpu_driver) == ((), "amd")
    assert found.cdi and found.cdi.devices == ("nvidia.com/gpu=0", "amd.com/gpu=0")


@pytest.mark.parametrize("way", [OF_HOST, ENVIRONMENT])
def test_in_cdi_mode_all_names_are_one_way(tmp_path: Path, specs: str, way: dict[str, Any]) -> None:
    named = {"devices": ("nvidia.com/gpu=0", "nvidia.com/gpu=1"), "mode": "cdi"}
    found = given(tmp_path, specs, way, named, {"driver": ""})
    assert found.env == ()
    assert found.cdi and sorted(found.cdi.devices) == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]


def test_gpus_counts_before_the_variable(tmp_path: Path, specs: str) -> None:
    """As with docker: the flag is the last word. It may be of another vendor, too."""
    assert given(tmp_path, specs, OF_HOST, ENVIRONMENT).env[0] == "NVIDIA_VISIBLE_DEVICES=0"
    found = given(tmp_path, specs, VENDOR, ENVIRONMENT)
    assert found.env == ()
    assert found.cdi and found.cdi.devices == ("amd.com/gpu=0",)


def test_gpus_of_the_host_count_before_a_vendors_variable(tmp_path: Path, specs: str) -> None:
    found = given(tmp_path, specs, OF_HOST, VENDORS_VARIABLE)
    assert found.env[0] == "NVIDIA_VISIBLE_DEVICES=0"
    assert found.cdi is None


def test_a_vendors_variable_counts_before_nvidias(tmp_path: Path, specs: str) -> None:
    found = given(tmp_path, specs, VENDORS_VARIABLE, ENVIRONMENT)
    assert (found.env, found.choices.gpu_driver, found.choices.gpus) == ((), "amd", "1")
    assert found.cdi and found.cdi.devices == ("amd.com/gpu=1",)


def test_the_variable_is_nvidias_whichever_driver_is_chosen(tmp_path: Path, specs: str) -> None:
    found = given(tmp_path, specs, ENVIRONMENT, AMD_DEVICE, {"driver": "amd"})
    assert found.env == ("NVIDIA_VISIBLE_DEVICES=1",)
    assert found.cdi and found.cdi.devices == ("amd.com/gpu=1",)


def test_none_and_a_device_are_no_two_ways(tmp_path: Path, specs: str) -> None:
    found = given(tmp_path, specs, {"gpus": "none"}, DEVICE)
    assert found.env[0] == "NVIDIA_VISIBLE_DEVICES=none"
    assert found.cdi and found.cdi.devices == ("nvidia.com/gpu=0",)
