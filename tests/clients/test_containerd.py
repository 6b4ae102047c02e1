"""What users do with containerd, with runc below it and with minirun below it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clients import cri, ctr
from clients.containerd_engine import Containerd, Ctr
from clients.cri_engine import Cri
from clients.scenario import Scenario, compare, scenarios

Engines = Callable[[str], Any]
Record = Callable[[str, object], None]


@pytest.fixture(scope="session")
def ctrs(command: str) -> Iterator[Engines]:
    yield from engines(Ctr, command)


@pytest.fixture(scope="session")
def cris(command: str) -> Iterator[Engines]:
    yield from engines(Cri, command)


def engines(kind: type[Containerd], command: str) -> Iterator[Engines]:
    """Give one engine per runtime, made when it is first asked for."""
    made: dict[str, Containerd] = {}

    def get(runtime: str) -> Containerd:
        if runtime not in made:
            made[runtime] = kind(runtime, command)
        return made[runtime]

    yield get
    for engine in made.values():
        engine.close()


@pytest.mark.parametrize("scenario", scenarios(ctr), ids=lambda s: s.__name__)
def test_ctr(scenario: Scenario, ctrs: Engines, record_property: Record) -> None:
    compare(scenario, ctrs, record_property, "ctr")


@pytest.mark.parametrize("scenario", scenarios(cri), ids=lambda s: s.__name__)
def test_cri(scenario: Scenario, cris: Engines, record_property: Record) -> None:
    compare(scenario, cris, record_property, "cri")
