"""Folders of spec files: priority, conflicts, broken files, both formats."""

from pathlib import Path

import pytest

from gpu.cdi.conftest import KIND, spec, write
from minirun.core.errors import GPUError
from minirun.gpu.cdi import registry


def env_of(found: registry.CdiRegistry, *names: str) -> list[str]:
    parts = found.edits([f"{KIND}={name}" for name in names])
    return [entry for part in parts for entry in part.env]


def test_both_formats(tmp_path: Path) -> None:
    for name, device in (("a.json", "j"), ("b.yaml", "y"), ("c.yml", "m"), ("d.txt", "t")):
        write(tmp_path, name, spec(device))
    found = registry.load((str(tmp_path), f"{tmp_path}/missing"))
    assert sorted(found.devices) == [f"{KIND}={name}" for name in "jmy"]
    assert found.warnings == []


def test_a_later_folder_wins(tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    write(low, "a.json", spec("a", "b", containerEdits={"env": ["FROM=low"]}))
    write(high, "z.yaml", spec("a", containerEdits={"env": ["FROM=high"]}))
    found = registry.load((str(low), str(high)))
    assert env_of(found, "a") == ["FROM=high", "THING=a"]
    assert env_of(found, "b", "a") == ["FROM=low", "THING=b", "FROM=high", "THING=a"]
    found = registry.load((str(high), str(low)))
    assert env_of(found, "a", "b") == ["FROM=low", "THING=a", "THING=b"], "its own edits once"


def test_a_conflict_makes_the_device_unusable(tmp_path: Path) -> None:
    one = write(tmp_path, "one.json", spec("a", "b"))
    two = write(tmp_path, "two.yaml", spec("a"))
    found = registry.load((str(tmp_path),))
    assert env_of(found, "b") == ["THING=b"]
    with pytest.raises(GPUError) as caught:
        env_of(found, "a")
    assert caught.value.line() == (
        f"unresolvable CDI devices {KIND}=a ({KIND}=a is in {one} and in {two})"
    )
    over = tmp_path / "over"
    write(over, "three.json", spec("a"))
    found = registry.load((str(tmp_path), str(over)))
    assert env_of(found, "a") == ["THING=a"], "a folder of higher priority settles it"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("x.json", "{} x", "unexpected text at character 2"),
        ("x.json", "[]", "the file: expected an object"),
        ("x.json", '{"cdiVersion": "0.5.0"}', "kind: is required"),
        ("x.yaml", "a: [", "line 1"),
        ("x.yaml", "cdiVersion: 0.5\n", "cdiVersion: expected a string, got 0.5"),
        ("x.yaml", "!!python/object/apply:os.system ['true']\n", "could not determine"),
    ],
)
def test_a_broken_file_is_the_only_victim(
    tmp_path: Path, name: str, content: str, what: str
) -> None:
    path = write(tmp_path, name, content)
    write(tmp_path, "good.json", spec("a"))
    found = registry.load((str(tmp_path),))
    assert env_of(found, "a") == ["THING=a"]
    (warning,) = found.warnings
    assert warning.startswith(f"{path}: ")
    assert what in warning
    assert "\n" not in warning


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\xff\xfe")
    (tmp_path / "y.json").mkdir()
    warnings = registry.load((str(tmp_path),)).warnings
    assert [text.partition(": ")[0] for text in warnings] == [
        f"{tmp_path}/x.json", f"{tmp_path}/y.json",
    ]  # fmt: skip


def test_all_that_cannot_be_resolved_are_named(tmp_path: Path) -> None:
    with pytest.raises(GPUError) as caught:
        registry.load((str(tmp_path),)).edits(["nvidia.com/gpu=9", "a.b/c=d"])
    assert str(caught.value) == "unresolvable CDI devices nvidia.com/gpu=9, a.b/c=d"
