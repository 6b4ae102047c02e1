"""The Python API, with a state root of the test's own."""

import pytest

from conftest import STORE, Program


@pytest.fixture(autouse=True)
def place(minirun: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIRUN_ROOT", str(minirun.root))
    monkeypatch.setenv("MINIRUN_STORE", STORE)
