"""The view on config.json that the stages read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import minirun
from minirun.core.config import Config
from minirun.core.keeping.choices import Choices
from minirun.oci import validate


def config(**raw: Any) -> Config:
    return Config({"ociVersion": "1.2.0", "root": {"path": "rootfs"}, **raw}, "/bundle")


def test_an_empty_config_has_defaults() -> None:
    found = config()
    assert found.rootfs == "/bundle/rootfs"
    assert (found.terminal, found.layers) == (False, [])
    assert (found.namespaces, found.environment, found.cgroups_path) == ({}, {}, "")
    assert found.hooks("prestart") == []
    assert not found.new_namespace("mount")


def test_the_root_filesystem() -> None:
    found = config(root={"path": "/elsewhere"})
    assert found.rootfs == "/elsewhere"


def test_namespaces_new_and_existing() -> None:
    rows = [{"type": "pid"}, {"type": "network", "path": "/proc/1/ns/net"}]
    found = config(linux={"namespaces": rows, "cgroupsPath": "/a/b"})
    assert found.namespaces == {"pid": "", "network": "/proc/1/ns/net"}
    assert found.new_namespace("pid")
    assert not found.new_namespace("network")
    assert found.cgroups_path == "/a/b"


def test_the_environment_as_a_program_sees_it() -> None:
    env = ["A=1", "B=x=y", "A=2", "EMPTY=", "novalue", "=nameless", "", "C"]
    found = config(process={"env": env}).environment
    assert found == {"A": "2", "B": "x=y", "EMPTY": ""}
    assert list(found) == ["A", "B", "EMPTY"]
    assert config(process={}).environment == config(process={"env": None}).environment == {}


def test_layers() -> None:
    assert config(annotations={"io.minirun.layers": "/a:/b"}).layers == []
    assert Config({}, "/bundle", Choices(layers=("/a", "/b"))).layers == ["/a", "/b"]


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/usr/bin/nvidia-container-runtime-hook", True),
        ("/opt/x/nvidia-container-runtime-hook", True),
        ("/usr/bin/nvidia-container-runtime-hook.real", False),
        ("/usr/bin/other", False),
        ("/nvidia-container-runtime-hook/other", False),
    ],
)
def test_nvidias_hook_is_known_by_its_name(path: str, is_one: bool) -> None:
    made = Config({"ociVersion": "1.2.0"}, "/")
    assert made.in_line({"path": path}) is is_one


def test_what_it_does_not_know_is_kept(tmp_path: Path) -> None:
    raw = {
        "ociVersion": "1.2.0", "root": {"path": "rootfs"}, "x-unknown": {"kept": [1, 2]},
        "linux": {"namespaces": [{"type": "mount"}], "someday": True},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(raw))
    found = validate.load(str(tmp_path))
    assert found.raw == raw
    assert found.bundle == str(tmp_path)


def written_to(source: str) -> list[str]:
    """Return the statements of a source that change a Config's document in place."""
    part = r"\bconfig\.(?:raw|process|linux|annotations|resources)"
    ways = r"(?:\[[^]]*\] [-+|]?= |\.(?:update|setdefault|pop|clear)\()"
    change = rf"{part}(?:\[[^]]*\])*{ways}|del {part}\["
    return [line.strip() for line in source.splitlines() if re.search(change, line)]


def test_what_writes_is_found() -> None:
    for line in (
        'config.process["env"] = []', 'self.config.raw["a"]["b"] |= {}', "config.raw.update(x)",
        'container.config.linux.pop("a")', 'del config.raw["mounts"]',
    ):  # fmt: skip
        assert written_to(f"    {line}") == [line]
    assert written_to('if config.raw["a"] == 1: x = config.process["b"]') == []


def test_a_config_is_not_written_to() -> None:
    package = Path(minirun.__file__).parent
    found = {path.name: written_to(path.read_text()) for path in package.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_copy_with_other_variables() -> None:
    first = config(process={"env": ["A=1"], "cwd": "/"})
    second = first.with_variables(["A=2"])
    assert (first.environment, second.environment) == ({"A": "1"}, {"A": "2"})
    assert second.process["cwd"] == "/" and second.choices is first.choices
