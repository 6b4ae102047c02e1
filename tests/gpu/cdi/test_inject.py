"""containerEdits → config.json, as the reference library does it."""

import os
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import GPUError
from minirun.gpu.cdi import inject
from minirun.gpu.cdi.container_edits import parse


def config(**process: Any) -> dict[str, Any]:
    return {"process": {"env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}, **process}}


def injected(document: dict[str, Any], *parts: dict[str, Any]) -> dict[str, Any]:
    inject.apply(document, inject.complete(inject.join([parse(part) for part in parts])))
    return document


def test_environment_is_appended() -> None:
    document = injected(config(), {"env": ["PATH=/x", "A=1"]}, {"env": ["B=2", "A=3"]})
    assert document["process"]["env"] == ["PATH=/bin", "PATH=/x", "A=3", "B=2"]


def test_a_node_is_filled_from_the_host() -> None:
    node = {"path": "/dev/x", "hostPath": "/dev/null", "permissions": "r"}
    linux = injected(config(), {"deviceNodes": [node]})["linux"]
    row = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
    assert linux["devices"] == [row]
    assert linux["resources"]["devices"] == [
        {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "r"}
    ]


def test_a_node_that_says_all_is_not_looked_up() -> None:
    node = {"path": "/dev/none-such", "type": "b", "major": 9, "uid": 5, "fileMode": 0o640}
    linux = injected(config(user={"uid": 7, "gid": 8}), {"deviceNodes": [node]})["linux"]
    assert linux["devices"] == [
        {
            "path": "/dev/none-such", "type": "b", "major": 9, "minor": 0, "fileMode": 0o640,
            "uid": 5, "gid": 8,
        }
    ]  # fmt: skip
    assert linux["resources"]["devices"][0]["access"] == "rwm"


def test_a_fifo_has_no_rule_and_none_is_no_access(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    nodes = [
        {"path": "/fifo", "hostPath": f"{tmp_path}/fifo"},
        {"path": "/dev/null", "permissions": "none"},
    ]
    linux = injected(config(), {"deviceNodes": nodes})["linux"]
    row = {"path": "/fifo", "type": "p", "major": 0, "minor": 0, "fileMode": 0o644}
    assert linux["devices"][0] == row
    assert [rule["access"] for rule in linux["resources"]["devices"]] == [""]


def test_an_earlier_entry_of_the_same_path_is_replaced() -> None:
    document = config() | {
        "linux": {"devices": [{"path": "/dev/null", "type": "p"}, {"path": "/dev/y", "type": "p"}]},
        "mounts": [{"destination": "/a/b"}, {"destination": "/c", "source": "old"}],
    }
    mounts = [{"hostPath": "/h", "containerPath": "/c", "options": ["ro"]}]
    injected(document, {"deviceNodes": [{"path": "/dev/null"}], "mounts": mounts})
    assert [row["path"] for row in document["linux"]["devices"]] == ["/dev/y", "/dev/null"]
    assert document["mounts"] == [
        {"destination": "/c", "source": "/h", "options": ["ro"]},
        {"destination": "/a/b"},
    ]


def test_mounts_are_sorted_by_depth_and_else_stay_in_order() -> None:
    paths = ["/z/z/z", "/b/b", "/y", "/a/a/", "/x//y", "/"]
    mounts = [{"hostPath": "/h", "containerPath": path} for path in paths]
    document = injected(config(), {"mounts": mounts})
    found = [row["destination"] for row in document["mounts"]]
    assert found == ["/y", "/", "/b/b", "/a/a/", "/x//y", "/z/z/z"]


def test_hooks_groups_and_the_rest() -> None:
    hook = {"hookName": "createContainer", "path": "/x", "args": ["x"], "timeout": 3}
    document = config(user={"uid": 0, "gid": 0, "additionalGids": [4]})
    document["hooks"] = {"createContainer": [{"path": "/first"}]}
    injected(
        document,
        {"hooks": [hook], "additionalGids": [0, 5, 4]},
        {"additionalGids": [5, 6], "intelRdt": {"closID": "a"}},
        {"intelRdt": {"closID": "b"}, "netDevices": [{"hostInterfaceName": "e1", "name": "e0"}]},
    )
    assert document["hooks"]["createContainer"] == [
        {"path": "/first"}, {"path": "/x", "args": ["x"], "timeout": 3},
    ]  # fmt: skip
    assert document["process"]["user"]["additionalGids"] == [4, 5, 6]
    assert document["linux"]["intelRdt"] == {"closID": "b"}
    assert document["linux"]["netDevices"] == {"e1": {"name": "e0"}}


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"path": "/dev/none-such"}, 'failed to stat CDI host device "/dev/none-such"'),
        ({"path": "/etc/passwd"}, 'CDI host device "/etc/passwd" is not a device node'),
        ({"path": "/dev/null", "type": "b"}, "host type mismatch (b, c)"),
    ],
)
def test_nodes_that_cannot_be(node: dict[str, Any], text: str) -> None:
    with pytest.raises(GPUError) as caught:
        inject.complete(parse({"deviceNodes": [node]}))
    assert text in str(caught.value)
