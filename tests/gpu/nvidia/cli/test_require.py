"""NVIDIA_REQUIRE_*: what is satisfied by 4 × A100 with driver 550.163.01, CUDA 12.4."""

import pytest

from minirun.core.errors import GPUError
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.cli.require import check


@pytest.mark.parametrize(
    "text",
    (
        "cuda>=12.4", "cuda=12.4", "cuda=12.4.0", "cuda<=12.4", "cuda<13", "cuda>12", "cuda!=12.3",
        "driver>=470", "driver=550.163.01", "driver<550.163.2", "arch=8.0", "arch>=7",
        "brand=nvidia", "brand!=tesla", "cuda>=13.0 brand=nvidia,driver>=550", "cuda>=12.9 arch=8",
        "cuda=12.4.0.0", "cuda>=12..4", "Cuda>=12,,DRIVER>=550", "", ",", " cuda>=12",
        "cuda>=12 nonsense",  # what follows is not read
    ),
)  # fmt: skip
def test_satisfied(text: str, simulated: Inventory) -> None:
    check(simulated, simulated.gpus[:1], (text,))


@pytest.mark.parametrize(
    ("text", "failed"),
    (
        ("cuda>=12.5", "cuda>=12.5"), ("cuda>12.4", "cuda>12.4"), ("driver<550", "driver<550"),
        ("arch>=9.0", "arch>=9.0"), ("brand=tesla", "brand=tesla"), ("cuda!=12.4", "cuda!=12.4"),
        ("cuda>=13.0 brand=tesla", "cuda>=13.0"), ("cuda>=12.4,driver>=560", "driver>=560"),
        ("driver>=550.163.02", "driver>=550.163.02"),
        ("driver>=560,nonsense", "driver>=560"),  # what follows is not read
        ("CUDA>=13", "CUDA>=13"), ("cuda!12.4", "cuda!12.4"),
    ),
)  # fmt: skip
def test_unsatisfied(text: str, failed: str, simulated: Inventory) -> None:
    with pytest.raises(GPUError, match="requirement error: unsatisfied condition") as caught:
        check(simulated, simulated.gpus[:1], (text,))
    assert failed in str(caught.value)
    assert "driver 550.163.01" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    (
        "foo=1", "cuda", "cuda>=", "cuda>=x", "cuda=>1", "cuda==12.4", "cuda>=.1", "cuda>=١",
        "brand>=a", "brand=", "=1", "cuda>=" + 30 * "9",
    ),
)  # fmt: skip
def test_invalid(text: str, simulated: Inventory) -> None:
    with pytest.raises(GPUError, match="requirement error: invalid expression"):
        check(simulated, simulated.gpus[:1], (text,))


def test_without_a_gpu_the_driver_is_checked(simulated: Inventory) -> None:
    check(simulated, (), ("cuda>=12.4", "arch>=99,brand=tesla"))
    with pytest.raises(GPUError, match="unsatisfied condition: cuda>=99, please"):
        check(simulated, (), ("cuda>=99",))


def test_the_error_names_the_whole_first_alternative(simulated: Inventory) -> None:
    """Advice about CUDA only follows what begins with cuda>=."""
    first = "cuda>=12.4,driver>=560"
    for text, advice in ((f"{first} arch=9", ", please"), ("cuda<12 arch=9", "")):
        with pytest.raises(GPUError) as caught:
            check(simulated, simulated.gpus[:1], (text,))
        said = str(caught.value).partition("unsatisfied condition: ")[2]
        assert said.startswith(f"{text.partition(' ')[0]}{advice}"), said
        assert ("please" in said) == bool(advice)


def test_an_unknown_fact_satisfies_nothing(simulated: Inventory) -> None:
    gpu = simulated.gpus[0]._replace(arch="")
    for text in ("arch>=1", "arch!=9"):
        with pytest.raises(GPUError, match="unsatisfied"):
            check(simulated, (gpu,), (text,))


def test_a_version_that_cannot_be_asked_for_is_not_too_old(simulated: Inventory) -> None:
    with pytest.raises(GPUError, match="cannot be asked for") as caught:
        check(simulated._replace(cuda=""), simulated.gpus[:1], ("cuda>=12.4",))
    assert "update your driver" not in str(caught.value)
