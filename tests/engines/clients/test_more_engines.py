"""What users do with buildah and Slurm, with runc below them and with minirun below them."""

from collections.abc import Iterator

import pytest

from engines.clients import buildah, slurm
from engines.clients.buildah_engine import Buildah
from engines.clients.scenario import Engines, Record, Scenario, compare, pair, scenarios
from engines.clients.slurm_engine import Slurm


@pytest.fixture(scope="session")
def buildahs(command: str) -> Iterator[Engines]:
    yield from pair(Buildah, command)


@pytest.fixture(scope="session")
def slurms(command: str) -> Iterator[Engines]:
    yield from pair(Slurm, command)


@pytest.mark.parametrize("scenario", scenarios(buildah), ids=lambda s: s.__name__)
def test_buildah(scenario: Scenario, buildahs: Engines, record_property: Record) -> None:
    compare(scenario, buildahs, record_property, "buildah")


@pytest.mark.parametrize("scenario", scenarios(slurm), ids=lambda s: s.__name__)
def test_slurm(scenario: Scenario, slurms: Engines, record_property: Record) -> None:
    compare(scenario, slurms, record_property, "slurm")
