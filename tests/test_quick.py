"""Which tests `make quick` takes for a change."""

from pathlib import Path

import pytest

import quick


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("minirun/net/firewall.py", {
            "tests/net/test_walls.py", "tests/net/test_flushed.py", "tests/net/test_docker_user.py",
        }),
        ("minirun/cgroups/resources.py", {"tests/cgroups/test_resources.py"}),
        ("minirun/cli/runc/notify.py", {"tests/cli/runc/test_notify.py"}),
        ("minirun/core/events.py", {"tests/core/test_events.py"}),
        ("minirun/image/nosuch.py", {"tests/image"}),
        ("rootfs-tools/rootfs_tools/durable.py", {"tests/rootfs_tools/test_durable.py"}),
        ("tests/net/test_why.py", {"tests/net/test_why.py"}),
        ("tutorials/07-devices.en.md", set(quick.PAGES)),
        ("LICENSE", set()),
    ],
)  # fmt: skip
def test_the_tests_of_a_file(path: str, tests: set[str]) -> None:
    found = quick.tests_of(path)
    assert tests <= found
    assert all((quick.TOP / test).exists() for test in found)


def test_the_core_comes_with_each_change_and_once() -> None:
    assert quick.chosen([]) == [*quick.ALWAYS]
    assert quick.chosen(["tests/core/test_events.py", "LICENSE"]) == [*quick.ALWAYS]
    assert quick.chosen(["minirun/net/firewall.py"])[-3:] == [*quick.ALWAYS]


def test_each_source_file_has_tests() -> None:
    """No file of the package is without any but the core's."""
    for folder in quick.SOURCES:
        for path in Path(quick.TOP, folder).rglob("*.py"):
            assert quick.tests_of(str(path.relative_to(quick.TOP))), path
