"""What users do with podman and docker, with runc below and with minirun below."""

from collections.abc import Iterator

import pytest

from engines.clients.answers import CLIENTS, Scenario
from engines.clients.engine import Docker, Podman, RemappedDocker
from engines.clients.scenario import Engines, compare, pair


@pytest.fixture(scope="session")
def podmans(command: str) -> Iterator[Engines]:
    yield from pair(Podman, command)


@pytest.fixture(scope="session")
def dockers(command: str) -> Iterator[Engines]:
    yield from pair(Docker, command)


@pytest.mark.parametrize("scenario", CLIENTS["podman"], ids=lambda s: s.__name__)
def test_podman(scenario: Scenario, podmans: Engines, request: pytest.FixtureRequest) -> None:
    compare("podman", scenario, podmans, request)


@pytest.mark.parametrize("scenario", CLIENTS["docker"], ids=lambda s: s.__name__)
def test_docker(scenario: Scenario, dockers: Engines, request: pytest.FixtureRequest) -> None:
    compare("docker", scenario, dockers, request)


@pytest.fixture(scope="session")
def remapped(command: str) -> Iterator[Engines]:
    yield from pair(RemappedDocker, command)


@pytest.mark.parametrize("scenario", CLIENTS["remap"], ids=lambda s: s.__name__)
def test_remapped(scenario: Scenario, remapped: Engines, request: pytest.FixtureRequest) -> None:
    compare("remap", scenario, remapped, request)
