"""What users do with podman and docker, with runc below and with minirun below."""

from collections.abc import Iterator

import pytest

from engines.clients import docker, dockerlife, dockerlike, dockerremap, podman
from engines.clients.engine import Docker, Podman, RemappedDocker
from engines.clients.scenario import Engines, Record, Scenario, compare, pair, scenarios

BOTH = [*scenarios(dockerlike), *scenarios(dockerlife)]
PODMAN = [*BOTH, *scenarios(podman)]
DOCKER = [*BOTH, *scenarios(docker)]


@pytest.fixture(scope="session")
def podmans(command: str) -> Iterator[Engines]:
    yield from pair(Podman, command)


@pytest.fixture(scope="session")
def dockers(command: str) -> Iterator[Engines]:
    yield from pair(Docker, command)


@pytest.mark.parametrize("scenario", PODMAN, ids=lambda s: s.__name__)
def test_podman(scenario: Scenario, podmans: Engines, record_property: Record) -> None:
    compare(scenario, podmans, record_property, "podman")


@pytest.mark.parametrize("scenario", DOCKER, ids=lambda s: s.__name__)
def test_docker(scenario: Scenario, dockers: Engines, record_property: Record) -> None:
    compare(scenario, dockers, record_property, "docker")


@pytest.fixture(scope="session")
def remapped(command: str) -> Iterator[Engines]:
    yield from pair(RemappedDocker, command)


@pytest.mark.parametrize("scenario", scenarios(dockerremap), ids=lambda s: s.__name__)
def test_remapped(scenario: Scenario, remapped: Engines, record_property: Record) -> None:
    compare(scenario, remapped, record_property, "remap")
