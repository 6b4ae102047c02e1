"""nvidia-ctk cdi transform root: whose paths change."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Program
from gpu.cdi.conftest import KIND
from minirun.toolkit.ctk.transform import Move


def document() -> dict[str, Any]:
    link = "/host/lib/a::/host/lib/b"
    rows = [
        {"hookName": name, "path": "/host/bin/h", "args": ["h", link, "/host/x"]}
        for name in ("createContainer", "startContainer", "createRuntime")
    ]
    edits = {
        "deviceNodes": [{"path": "/host/dev/a"}, {"path": "/dev/b", "hostPath": "/host/dev/b"}],
        "hooks": rows,
        "mounts": [{"hostPath": "/host/lib/a", "containerPath": "/host/lib/a"}],
    }
    device = {"name": "a", "containerEdits": {"mounts": edits["mounts"]}}
    return {"cdiVersion": "0.5.0", "kind": KIND, "devices": [device], "containerEdits": edits}


def transform(minirun: Program, *flags: str) -> dict[str, Any]:
    words = ("nvidia-ctk", "cdi", "transform", "root", *flags)
    done = minirun(*words, input=json.dumps(document()))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("---\n")
    return yaml.safe_load(done.stdout)


def test_relative_to_the_host(minirun: Program) -> None:
    found = transform(minirun, "--from=/host", "--to=/real")
    edits = found["containerEdits"]
    assert edits["deviceNodes"] == [
        {"path": "/host/dev/a", "hostPath": "/real/dev/a"},
        {"path": "/dev/b", "hostPath": "/real/dev/b"},
    ]
    assert edits["mounts"] == [{"hostPath": "/real/lib/a", "containerPath": "/host/lib/a"}]
    assert found["devices"][0]["containerEdits"]["mounts"] == edits["mounts"]
    paths = {row["hookName"]: (row["path"], row["args"]) for row in edits["hooks"]}
    old = ["h", "/host/lib/a::/host/lib/b", "/host/x"]
    assert paths == {
        "createContainer": ("/real/bin/h", old),
        "startContainer": ("/host/bin/h", old),
        "createRuntime": ("/real/bin/h", ["h", "/real/lib/a::/real/lib/b", "/real/x"]),
    }


def test_relative_to_the_container(minirun: Program) -> None:
    edits = transform(minirun, "--from", "/host", "--relative-to", "container")["containerEdits"]
    assert edits["deviceNodes"][0] == {"path": "/dev/a"}
    assert edits["mounts"] == [{"hostPath": "/host/lib/a", "containerPath": "/lib/a"}]
    paths = {row["hookName"]: (row["path"], row["args"]) for row in edits["hooks"]}
    new, old = ["h", "/lib/a::/lib/b", "/x"], ["h", "/host/lib/a::/host/lib/b", "/host/x"]
    assert paths == {
        "createContainer": ("/host/bin/h", new),
        "startContainer": ("/bin/h", new),
        "createRuntime": ("/host/bin/h", old),
    }


def test_a_path_of_the_host_needs_a_newer_version(minirun: Program, tmp_path: Path) -> None:
    device = {"name": "a", "containerEdits": {"deviceNodes": [{"path": "/host/dev/a"}]}}
    old = {"cdiVersion": "0.3.0", "kind": KIND, "devices": [device]}
    (tmp_path / "a.json").write_text(json.dumps(old))
    flags = ("--from=/host", "--to=/real", f"--input={tmp_path}/a.json")
    done = minirun("nvidia-ctk", "cdi", "transform", "root", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["cdiVersion"] == "0.5.0"


def test_from_file_to_file(minirun: Program, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document()))
    flags = ("--from=/x", "--to=/x", f"--input={tmp_path}/a.json", f"--output={tmp_path}/b.json")
    assert minirun("nvidia-ctk", "cdi", "transform", "root", *flags).returncode == 0
    assert json.loads((tmp_path / "b.json").read_text()) == document()


@pytest.mark.parametrize(
    ("flags", "text", "what"),
    [
        (("--relative-to=x",), "{}", "invalid --relative-to value: x"),
        ((), "{", "failed to parse CDI spec: standard input"),
        ((), "{}", "cdiVersion: is required"),
        (("--input=/nosuch",), "", "/nosuch: No such file or directory"),
    ],
)
def test_mistakes(minirun: Program, flags: tuple[str, ...], text: str, what: str) -> None:
    done = minirun("nvidia-ctk", "cdi", "transform", "root", *flags, input=text)
    (line, *_) = done.stderr.splitlines()
    assert done.returncode == 1 and "level=error" in line and what in line


@pytest.mark.parametrize(
    ("old", "new", "path", "found"),
    [
        ("/a", "/b", "/a/c", "/b/c"), ("/a", "", "/a/c", "/c"), ("/a/", "/b/", "/a/c", "/b/c"),
        ("/", "/b", "/c", "/b/c"), ("/a", "/b", "/c", "/c"), ("/a", "/b", "/a", "/b"),
    ],
)  # fmt: skip
def test_paths(old: str, new: str, path: str, found: str) -> None:
    assert Move(old, new).path(path) == found
