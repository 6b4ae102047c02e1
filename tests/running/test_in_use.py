"""What reads the records of all containers, while some of them begin and end."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from minirun.core.errors import StateError
from minirun.core.keeping import directories, places, state
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.settings import Settings
from minirun.running import store_use
from records import whole

LAYER = f"layers/{'a' * 64}/fs"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=str(tmp_path / "containers"), store=str(tmp_path))


def record(settings: Settings, name: str) -> ContainerRecord:
    """Return a record of a container that has a layer."""
    layers = [f"{settings.store}/{LAYER}"]
    return whole(
        f"{settings.root}/{name}", choices=Choices(layers=tuple(layers)), image="app:latest"
    )


def test_a_container_without_its_name_yet_has_its_layers(settings: Settings) -> None:
    path = directories.make(settings.root)
    state.save(path, record(settings, "one"))
    found = store_use.find(settings).certain()
    assert found.layers == {f"{settings.store}/{LAYER}"}
    assert found.images == {"app:latest"}
    assert found.directories == {f"{settings.root}/one": True}


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"id": 5}', b"\xff", b"\0" * 4096])
def test_what_has_no_whole_record_has_nothing(settings: Settings, content: bytes | None) -> None:
    """It is being made, is being removed, or was cut short by a loss of power."""
    path = Path(directories.make(settings.root))
    (path / places.UPPER).mkdir()
    if content is not None:
        (path / places.STATE).write_bytes(content)
    found = store_use.find(settings).certain()
    assert (found.layers, found.directories) == (set(), {})


@contextmanager
def coming_and_going(settings: Settings, names: list[str]) -> Iterator[None]:
    """Make and remove containers of these names, over and over."""
    over = threading.Event()
    rows = {name: record(settings, name) for name in names}

    def work(name: str) -> None:
        while not over.is_set():
            path = directories.make(settings.root)
            state.save(path, rows[name])
            directories.give_name(path, f"{settings.root}/{name}")
            directories.remove(settings.root, name)

    with ThreadPoolExecutor(len(names)) as pool:
        done = [pool.submit(work, name) for name in names]
        try:
            yield
        finally:
            over.set()
        for each in done:
            each.result()


def test_none_is_damaged_or_a_strangers_while_it_comes_and_goes(settings: Settings) -> None:
    with coming_and_going(settings, ["a", "b"]):
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            store_use.find(settings).certain()
            for name in ("a", "b"):
                try:
                    assert state.load(settings.root, name).id == name
                except StateError as error:
                    expected = f"container {name!r} does not exist (minirun ps -a lists all)"
                    assert error.line() == expected


def test_none_is_missed_as_it_gets_its_name(settings: Settings) -> None:
    """Read is what has no name before what has one is listed."""
    path = directories.make(settings.root)
    state.save(path, record(settings, "one"))
    real = state.names

    def names(root: str) -> list[str]:
        found = real(root)
        if os.path.isdir(path):
            directories.give_name(path, f"{settings.root}/one")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "names", names)
        found = store_use.find(settings)
    assert found.layers == {f"{settings.store}/{LAYER}"}
