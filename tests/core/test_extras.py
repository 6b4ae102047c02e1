"""core/extras.py: the one table by which the core reaches the rings."""

import importlib
import inspect
import re

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
    assert extras.POINTS == NAMES > extras.END
    assert {point for _, _, points in TABLE for point in points} == NAMES


def doors() -> dict[str, str]:
    """Return the functions of core/rings.py by name, and the path that the body of each names."""
    found = {name: one for name, one in vars(rings).items() if inspect.isfunction(one)}
    paths = {
        name: re.findall(r'imported\("(.+?)"\)', inspect.getsource(one))
        for name, one in found.items()
    }
    return {name: path for name, (path,) in ((n, p) for n, p in paths.items() if p)}


def test_each_function_of_the_core_to_a_ring_is_a_door() -> None:
    own = {n for n, one in vars(rings).items() if inspect.isfunction(one)} - {"imported"}
    assert set(doors()) == own
    assert len(own) > 5


@pytest.mark.parametrize(("name", "path"), doors().items())
def test_behind_each_door_is_a_function_with_the_same_parameters(name: str, path: str) -> None:
    inside = inspect.signature(rings.imported(path)).parameters
    outside = inspect.signature(getattr(rings, name)).parameters
    assert [p.default for p in outside.values()] == [inside[n].default for n in outside]
    assert all(n in outside or p.default is not p.empty for n, p in inside.items())


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
