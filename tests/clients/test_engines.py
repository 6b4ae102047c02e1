"""What users do with podman and docker, with runc below and with minirun below."""

from collections.abc import Callable, Iterator

import pytest

from clients import docker, dockerlife, dockerlike, podman
from clients.engine import Docker, Engine, Podman
from clients.scenario import Scenario, compare, scenarios

Engines = Callable[[str], Engine]
BOTH = [*scenarios(dockerlike), *scenarios(dockerlife)]
PODMAN = [*BOTH, *scenarios(podman)]
DOCKER = [*BOTH, *scenarios(docker)]


@pytest.fixture(scope="session")
def podmans(command: str) -> Iterator[Engines]:
    yield from _engines(Podman, command)


@pytest.fixture(scope="session")
def dockers(command: str) -> Iterator[Engines]:
    yield from _engines(Docker, command)


def _engines(kind: type[Engine], command: str) -> Iterator[Engines]:
    """Give one engine per runtime, made when it is first asked for."""
    made: dict[str, Engine] = {}

    def get(runtime: str) -> Engine:
        if runtime not in made:
            made[runtime] = kind(runtime, command)
        return made[runtime]

    yield get
    for engine in made.values():
        engine.close()


@pytest.mark.parametrize("scenario", PODMAN, ids=lambda s: s.__name__)
def test_podman(
    scenario: Scenario, podmans: Engines, record_property: Callable[[str, object], None]
) -> None:
    compare(scenario, podmans, record_property, "podman")


@pytest.mark.parametrize("scenario", DOCKER, ids=lambda s: s.__name__)
def test_docker(
    scenario: Scenario, dockers: Engines, record_property: Callable[[str, object], None]
) -> None:
    compare(scenario, dockers, record_property, "docker")
