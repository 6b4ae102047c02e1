"""A store with the simulated driver, and half-started containers."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import skip
from gpu import pretend
from gpu.sandbox import Sandbox, busybox_root, debian_root
from minirun.gpu.drivers import inventory
from minirun.gpu.inventory import Inventory
from required import installed


@pytest.fixture(autouse=True)
def no_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINIRUN_SIM", raising=False)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of this test run; its simulated drivers are made at the first use."""
    return str(tmp_path_factory.mktemp("store"))


@pytest.fixture
def simulated(store: str) -> Inventory:
    """The simulated host as it is without any configuration."""
    return inventory("simulated", store)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Callable[[Path], Sandbox]]:
    """Start half-started containers; they end with the test."""
    with ExitStack() as stack:
        yield lambda root: stack.enter_context(Sandbox(root))


@pytest.fixture
def debian(nodes_path: Path, sandbox: Callable[[Path], Sandbox]) -> Sandbox:
    return sandbox(debian_root(nodes_path / "root"))


@pytest.fixture
def busybox(tmp_path: Path, sandbox: Callable[[Path], Sandbox]) -> Sandbox:
    return sandbox(busybox_root(tmp_path / "root"))


@pytest.fixture(scope="session")
def driver(store: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pretend host's driver."""
    if os.uname().machine != "x86_64":
        skip("the cases were recorded on x86_64")
    installed("gcc")
    return pretend.build(tmp_path_factory.mktemp("pretend") / "driver", store)
