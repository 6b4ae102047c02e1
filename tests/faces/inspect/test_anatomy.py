"""Parts of the anatomy that can be looked at without a container."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minirun.cgroups import reading
from minirun.cgroups.ruleset import parse
from minirun.core.kernel import mountinfo
from minirun.core.rootfs.tree import remove_tree
from minirun.faces.inspect import mounts, page, snapshot
from records import whole

CONTAINER: Any = SimpleNamespace(
    directory="/state/c",
    record=whole("/state/c", image="a:b"),
    config=SimpleNamespace(
        layers=["/store/images/a:b/layers/0", "/plain"], rootfs="/state/c/rootfs"
    ),
)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], ""),
        (["a *:* rwm"], "rwm"),
        (["c *:* m", "c 195:0 rw"], "rwm"),
        (["c 195:* r"], "r"),
        (["b 195:0 rwm", "c 195:1 rwm", "c 1:0 rwm"], ""),
    ],
)
def test_what_rules_allow_of_a_node(rules: list[str], expected: str) -> None:
    assert reading.access([parse(rule) for rule in rules], "c", 195, 0) == expected


def test_the_last_rule_decides() -> None:
    everything, none = parse("a *:* rwm"), parse("c 195:0 w")._replace(allow=False)
    assert reading.access([everything, none], "c", 195, 0) == "rm"
    assert reading.access([none, everything], "c", 195, 0) == "rwm"


def test_an_overlay_of_mountinfo() -> None:
    """Spaces are octal, and what overlayfs gives a meaning has a backslash (doubled, as octal)."""
    line = (
        "80 70 0:44 / /a\\040b rw,relatime - overlay overlay rw,lowerdir="
        "/state/c/lower/1:/state/c/lower/0:/x\\134:y:/store/images/debian/layers/2,upperdir=/up\\134,per,"
        "workdir=/w,volatile"
    )
    row = mounts._row(CONTAINER, *mountinfo.parse(line))
    assert row["path"] == "/a b"
    assert row["layers"]["upper"] == "/up,per"
    assert row["layers"]["volatile"]
    lower = row["layers"]["lower"]
    assert [layer["path"] for layer in lower] == [
        "/plain", "/store/images/a:b/layers/0", "/x:y",
        "/store/images/debian/layers/2",
    ]  # fmt: skip
    assert [layer["image"] for layer in lower] == ["", "a:b", "", "debian"]
    assert [layer["idMapped"] for layer in lower] == [True, True, False, False]


def test_sizes() -> None:
    assert [page._size(n) for n in (None, 12, 1536, 64 << 20, 3 << 29)] == [
        None, "12 bytes", "1.5 KiB", "64 MiB", "1.5 GiB",
    ]  # fmt: skip


def test_mounts_that_are_nested_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container may mount them, each on the one before."""
    rows = [f"{n + 2} {n + 1} 0:1 / /m rw - tmpfs tmpfs rw" for n in range(5_000)]
    found = mountinfo.parse("\n".join(rows))
    monkeypatch.setattr(mountinfo, "read", lambda pid: found)
    container: Any = SimpleNamespace(config=SimpleNamespace(linux={}))
    assert [row["depth"] for row in mounts.tree(container, 1)] == list(range(5_000))


def test_a_layer_that_is_nested_deeply(tmp_path: Path) -> None:
    path, here = tmp_path / "top", ""
    path.mkdir()
    try:
        for _ in range(1_200):
            here += "/d"
            os.mkdir(f"{path}{here}")
        os.symlink("x", f"{path}{here}/link")
        found: list[str] = []
        snapshot._walk(os.open(path, os.O_RDONLY), ".", found)
        assert len(found) == 1_201 and found[-1] == f".{here}/link -> x"
    finally:
        remove_tree(str(path))
