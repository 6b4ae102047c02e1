"""The Python API, called as the program is."""

import pytest

from conftest import Program


@pytest.fixture(autouse=True)
def place(minirun: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in minirun.environment().items():
        monkeypatch.setenv(name, value)
