"""What users do with buildah and Slurm, with runc below them and with minirun below them."""

from collections.abc import Iterator

import pytest

from engines.clients.answers import CLIENTS, Scenario
from engines.clients.buildah_engine import Buildah
from engines.clients.scenario import Engines, compare, pair
from engines.clients.slurm_engine import Slurm


@pytest.fixture(scope="session")
def buildahs(command: str) -> Iterator[Engines]:
    yield from pair(Buildah, command)


@pytest.fixture(scope="session")
def slurms(command: str) -> Iterator[Engines]:
    yield from pair(Slurm, command)


@pytest.mark.parametrize("scenario", CLIENTS["buildah"], ids=lambda s: s.__name__)
def test_buildah(scenario: Scenario, buildahs: Engines, request: pytest.FixtureRequest) -> None:
    compare("buildah", scenario, buildahs, request)


@pytest.mark.parametrize("scenario", CLIENTS["slurm"], ids=lambda s: s.__name__)
def test_slurm(scenario: Scenario, slurms: Engines, request: pytest.FixtureRequest) -> None:
    compare("slurm", scenario, slurms, request)
