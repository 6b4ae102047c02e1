"""core/extras.py: the one table by which the core reaches the rings."""

import importlib
import inspect

import pytest

from minirun.core import extras, rings
from minirun.core.extras import TABLE, Extra

NAMES = {name for name in vars(Extra) if not name.startswith("_")}


@pytest.mark.parametrize(("path", "name", "points"), TABLE)
def test_the_table_names_the_points_that_the_module_has(
    path: str, name: str, points: tuple[str, ...]
) -> None:
    module = importlib.import_module(name.rpartition(".")[0])
    assert callable(getattr(module, name.rpartition(".")[2]))
    classes = [
        found for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Extra) and found.__module__ == module.__name__
    ]  # fmt: skip
    (own,) = classes
    assert {name for name in NAMES if name in vars(own)} == set(points), path


def test_all_points_are_known() -> None:
    assert extras.POINTS == NAMES
    assert {point for _, _, points in TABLE for point in points} == NAMES


@pytest.mark.parametrize("name", rings.FUNCTIONS)
def test_behind_each_door_is_a_function(name: str) -> None:
    assert callable(rings.function(name))


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"linux": {"seccomp": {}}}, "linux.seccomp", True),
        ({"linux": {"seccomp": None}}, "linux.seccomp", False),
        ({"linux": None}, "linux.seccomp", False),
        ({}, "linux.seccomp", False),
        ({"process": {"terminal": False}}, "process.terminal", False),
        ({"process": {"terminal": True}}, "process.terminal", True),
        ({"linux": {"namespaces": [{"type": "pid"}]}}, "linux.namespaces.path", False),
        ({"linux": {"namespaces": [{"type": "pid", "path": ""}]}}, "linux.namespaces.path", False),
        ({"linux": {"namespaces": [{"type": "pid", "path": "/x"}]}}, "linux.namespaces.path", True),
        ({"linux": {"namespaces": [{"type": "user"}]}}, "linux.namespaces.type=user", True),
        ({"linux": {"namespaces": [{"type": "pid"}]}}, "linux.namespaces.type=user", False),
        ({"mounts": []}, "mounts", False),
        ({"mounts": [{"destination": "/x"}]}, "mounts", True),
        ({"mounts": [{"options": ["ro", "idmap"]}]}, "mounts.options=idmap", True),
    ],
)  # fmt: skip
def test_a_property_is_there_or_not(document: object, path: str, expected: bool) -> None:
    assert extras._has(document, path.split(".")) is expected
