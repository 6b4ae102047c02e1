"""Spec files: what the schema and the reference library refuse, with the exact place."""

from typing import Any

import pytest

from gpu.cdi.conftest import KIND, recorded, spec
from minirun.common.schema import SchemaError
from minirun.gpu.cdi import check, names


def edited(**edits: Any) -> dict[str, Any]:
    return spec("a", containerEdits=edits)


def test_what_the_real_generator_makes_passes() -> None:
    document = recorded("host4-vendor-v1.20.0")
    assert check.check(document) == document


def test_everything_that_the_schema_knows_passes() -> None:
    node = {
        "path": "/dev/x", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3,
        "fileMode": 438, "permissions": "rw", "uid": 1, "gid": 2,
    }  # fmt: skip
    hook = {"hookName": "poststop", "path": "/x", "args": ["x"], "env": ["A=1"], "timeout": 3}
    mount = {"hostPath": "tmpfs", "containerPath": "/t", "type": "tmpfs", "options": ["ro"]}
    document = edited(
        env=["A="], deviceNodes=[node], hooks=[hook], mounts=[mount], additionalGids=[7],
        netDevices=[{"hostInterfaceName": "eth1", "name": "eth0"}],
        intelRdt={"closID": "/", "schemata": ["L3:0=f"], "enableMonitoring": True},
    )  # fmt: skip
    document["annotations"] = {"a": "b"}
    document["devices"][0]["annotations"] = {"a": "b"}
    assert check.check(document) == document


def test_null_is_as_good_as_absent() -> None:
    assert check.check(spec("a", containerEdits=None)) == spec("a")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cdiVersion": "2.0.0"}, "cdiVersion: unknown version '2.0.0': 0.3.0 to 1.1.0"),
        ({"cdiVersion": None}, "cdiVersion: is required"),
        ({"kind": "thing"}, "kind: 'thing' is not vendor/class, as in nvidia.com/gpu"),
        ({"kind": "1x.com/gpu"}, "kind: vendor '1x.com' must begin with a letter"),
        ({"kind": "x.com/g pu"}, "kind: class 'g pu' may not hold ' '"),
        ({"devices": []}, "devices: is empty"),
        ({"devices": {}}, "devices: expected a list, got {}"),
        ({"device": []}, "device: is no property that CDI knows"),
        ({"annotations": {"a": 1}}, "annotations.a: expected a string, got 1"),
        ({"annotations": {1: "a"}}, "annotations.1: expected a string, got 1"),
        ({"annotations": {"a": "\ud800"}}, "annotations.a: holds half of a surrogate pair"),
    ],
)
def test_mistakes_in_a_spec(change: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        check.check(spec("a") | change)
    assert str(caught.value) == text


NODE = {"path": "/dev/x", "hostPath": "/dev/null"}
MOUNT = {"hostPath": "tmpfs", "containerPath": "/t"}


@pytest.mark.parametrize(
    ("least", "edits", "more"),
    [
        ("0.3.0", {"mounts": [MOUNT], "deviceNodes": [{"path": "/dev/null"}]}, {}),
        ("0.4.0", {"mounts": [{**MOUNT, "type": "tmpfs"}]}, {}),
        ("0.5.0", {"deviceNodes": [NODE]}, {}),
        ("0.6.0", {}, {"annotations": {"a": "b"}}),
        ("0.6.0", {}, {"kind": "vendor.com/a.b"}),
        ("0.7.0", {"additionalGids": [1]}, {}),
        ("0.7.0", {"intelRdt": {}}, {}),
        ("1.1.0", {"intelRdt": {"schemata": ["L3:0=f"]}}, {}),
        ("1.1.0", {"intelRdt": {"enableMonitoring": True}}, {}),
        ("1.1.0", {"netDevices": [{"hostInterfaceName": "e", "name": "f"}]}, {}),
    ],
)
def test_a_version_is_as_new_as_what_the_file_has(
    least: str, edits: dict[str, Any], more: dict[str, Any]
) -> None:
    """The reference library's rule, specs-go/version.go: `v` before a version is taken too."""
    for document in (edited(**edits) | more, spec("a") | more):
        if "containerEdits" not in document:
            document["devices"][0]["containerEdits"].update(edits)
        assert check.least_version(document) == least
        at = check.VERSIONS.index(least)
        for version in check.VERSIONS[at:]:
            check.check(document | {"cdiVersion": f"v{version}"})
        for version in check.VERSIONS[:at]:
            with pytest.raises(SchemaError, match=f"cdiVersion: {version} is .*: at least {least}"):
                check.check(document | {"cdiVersion": version})


def test_a_name_that_begins_with_a_digit_needs_0_5() -> None:
    assert check.least_version(spec("0")) == "0.5.0"


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ({"env": ["NAME"]}, "env[0]: 'NAME' is not NAME=VALUE"),
        ({"env": ["=x"]}, "env[0]: '=x' is not NAME=VALUE"),
        ({"env": ["A=\0"]}, "env[0]: holds a NUL character"),
        ({"deviceNodes": [{}]}, "deviceNodes[0].path: is required"),
        ({"deviceNodes": [{"path": "x"}]}, "deviceNodes[0].path: 'x' is not an absolute path"),
        (
            {"deviceNodes": [{"path": "/x", "type": "z"}]},
            "deviceNodes[0].type: 'z' is none of b, c, u, p",
        ),
        (
            {"deviceNodes": [{"path": "/x", "major": -1}]},
            "deviceNodes[0].major: must lie between 0 and 4294967295",
        ),
        (
            {"deviceNodes": [{"path": "/x", "permissions": "rwx"}]},
            "deviceNodes[0].permissions: 'rwx' is neither none nor letters of rwm",
        ),
        (
            {"deviceNodes": [{"path": "/x", "uid": True}]},
            "deviceNodes[0].uid: expected a whole number from 0 to 2^32 - 1, got True",
        ),
        ({"hooks": [{"hookName": "start", "path": "/x"}]}, "hooks[0].hookName: 'start' is none of"),
        ({"hooks": [{"hookName": "poststop"}]}, "hooks[0].path: is required"),
        (
            {"hooks": [{"hookName": "poststop", "path": "/x", "env": ["A"]}]},
            "hooks[0].env[0]: 'A' is not NAME=VALUE",
        ),
        (
            {"hooks": [{"hookName": "poststop", "path": "/x", "timeout": 0}]},
            "hooks[0].timeout: must be greater than 0 (seconds)",
        ),
        ({"mounts": [{"hostPath": "/x"}]}, "mounts[0].containerPath: is required"),
        ({"mounts": [{"hostPath": "", "containerPath": "/x"}]}, "mounts[0].hostPath: is empty"),
        (
            {"additionalGids": [-1]},
            "additionalGids[0]: expected a whole number from 0 to 2^32 - 1, got -1",
        ),
        ({"intelRdt": {"closID": "a/b"}}, "intelRdt.closID: 'a/b' is no name of a file"),
        (
            {"netDevices": [{"hostInterfaceName": "e", "name": ""}]},
            "netDevices[0].name: '' is empty",
        ),
        (
            {"netDevices": [{"hostInterfaceName": "e", "name": n} for n in "ab"]},
            "netDevices[1].hostInterfaceName: 'e' stands there twice",
        ),
    ],
)
def test_mistakes_in_edits(edits: dict[str, Any], text: str) -> None:
    for document, where in ((edited(**edits), ""), (spec("a"), "devices[0].")):
        if where:
            document["devices"][0]["containerEdits"] = edits
        with pytest.raises(SchemaError) as caught:
            check.check(document)
        assert str(caught.value).startswith(f"{where}containerEdits.{text}")


def test_mistakes_in_devices() -> None:
    for devices, text in (
        (("a", "a"), "devices[1].name: 'a' stands there twice"),
        (("-a",), "devices[0].name: name '-a' must begin and end with a letter or digit"),
        (("",), "devices[0].name: name '' is empty"),
    ):
        with pytest.raises(SchemaError) as caught:
            check.check(spec(*devices))
        assert str(caught.value) == text
    document = spec("a")
    document["devices"][0]["containerEdits"] = {}
    with pytest.raises(SchemaError, match="is empty"):
        check.check(document)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (f"{KIND}=a", True), ("nvidia.com/gpu=0", True), ("nvidia.com/gpu=3:0", True),
        ("v/c=0", True), ("v.c-d_e/f.g=GPU-0a", True), ("/dev/null", False), ("/dev/a=b", False),
        ("nvidia.com/gpu", False), ("nvidia.com=0", False), ("nvidia.com/gpu=", False),
        ("nvidia.com/gpu=a=b", False), ("nvidia.com/gpu=0:", False), ("nvídia.com/gpu=0", False),
    ],
)  # fmt: skip
def test_names(text: str, is_one: bool) -> None:
    assert names.is_qualified(text) is is_one
