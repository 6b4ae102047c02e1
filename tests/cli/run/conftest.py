"""minirun beside docker, whose answers are kept: tests/beside.py."""

from collections.abc import Iterator

import pytest

from beside import Beside


@pytest.fixture(scope="module")
def sides(
    request: pytest.FixtureRequest, command: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Beside]:
    """For `beside`. A module's function `prepare` makes on each side what its tests ask about."""
    prepare = getattr(request.module, "prepare", None)
    folder = tmp_path_factory.mktemp("beside")
    made = Beside(command, folder, request.config.option.peers, prepare)
    yield made
    made.close()


@pytest.fixture
def beside(sides: Beside, request: pytest.FixtureRequest) -> Beside:
    """minirun beside docker, whose answers are kept."""
    sides.asked = []
    request.node.user_properties.append(("docker", sides.asked))
    return sides
