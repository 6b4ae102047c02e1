"""Docker's fields of state.json: each is declared once, with its type, and checked when it is read.

tests/data/records has records as earlier versions wrote them, with other names, and without what
only their machine had: image and bundle when docker's fields and the core's were one class;
networks when health and network were objects of no type.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from core.keeping.test_container_record import PLACE, WRONG
from minirun.common import docker_record, network_request
from minirun.common.docker_record import DockerRecord, HealthCheck
from minirun.common.network_request import Attachment, NetworkRequest
from minirun.core.keeping import container_record
from minirun.core.keeping.container_record import ContainerRecord
from records import whole

EARLIER = Path(__file__).parents[1] / "data/records"
MOUNT = {"type": "volume", "name": "a", "source": "/a", "target": "/x", "options": []}
WRONG_MOUNTS: tuple[Any, ...] = (
    {}, [5], [{"type": "volume"}], [{**MOUNT, "type": "image"}], [{**MOUNT, "target": "x"}],
    [{**MOUNT, "options": "ro"}], [{**MOUNT, "anonymous": 1}], [{**MOUNT, "subpath": 1}],
)  # fmt: skip
WRONG_OF_NETWORKS: dict[str, tuple[Any, ...]] = {
    "tuple[Attachment, ...]": ("a", ["a"], [{"network": 5}]), "Hosts": ([["a"]], [["a", 1]], "ab"),
    "AskedPorts": ([80], [[80, "tcp", "", 0]], [[80, "tcp", "", 0, "0"]], [[True, "", "", 0, 0]]),
    "PublishedPorts": (
        [80], [{"port": 80}], [{"port": 80, "protocol": "tcp", "host_ip": "", "host_port": "a"}],
    ),
}  # fmt: skip


def earlier(name: str) -> tuple[dict[str, Any], ContainerRecord]:
    """Return a record of an earlier minirun, as its file has it and as it is read."""
    row = json.loads((EARLIER / f"{name}.json").read_text())
    return row, container_record.parse(row, row["directory"])


@pytest.mark.parametrize(("name", "kind"), DockerRecord.__annotations__.items())
def test_each_field_is_checked_by_the_reader_of_state_json(name: str, kind: str) -> None:
    wrong = WRONG | {"MountRecords": WRONG_MOUNTS}
    objects = ("Declared", "OutputRecord", "HealthCheck", "NetworkRequest", "Asked")
    wrong |= dict.fromkeys(objects, WRONG["dict[str, Any]"])
    for value in wrong[kind.removesuffix(" | None")]:
        document = whole(PLACE).as_json() | {name: value}
        with pytest.raises(ValueError, match=f"^{name} is not "):
            container_record.parse(document, PLACE)


def asked_as_written() -> dict[str, str]:
    """The fields of Asked, which only the type checker knows: name and type."""
    tree = ast.parse(Path(docker_record.__file__).read_text())
    (found,) = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "Asked"]
    fields = [row for row in found.body if isinstance(row, ast.AnnAssign)]
    return {ast.unparse(row.target): ast.unparse(row.annotation) for row in fields}


@pytest.mark.parametrize(("name", "kind"), asked_as_written().items())
def test_each_flag_as_it_was_typed_is_checked(name: str, kind: str) -> None:
    for value in WRONG[kind]:
        document = whole(PLACE).as_json() | {"asked": {name: value}}
        with pytest.raises(ValueError, match=f"^asked: {name} is not "):
            container_record.parse(document, PLACE)
    right = {"str": "a", "int": 1, "bool": True, "list[str]": ["a"]}[kind]
    container_record.parse(whole(PLACE).as_json() | {"asked": {name: right}}, PLACE)


@pytest.mark.parametrize(
    ("record", "name", "kind"),
    [
        (record, name, kind.removesuffix(" | None"))
        for record, fields in (("network", NetworkRequest), ("health", HealthCheck))
        for name, kind in fields.__annotations__.items()
    ],
)
def test_each_field_of_a_record_in_it_is_checked(record: str, name: str, kind: str) -> None:
    for value in (WRONG | WRONG_OF_NETWORKS)[kind]:
        document = whole(PLACE).as_json() | {record: {name: value}}
        with pytest.raises(ValueError, match=f"^{record}: {name} is not "):
            container_record.parse(document, PLACE)


@pytest.mark.parametrize("row", [{}, {"network": "a", "address": 5}, {"network": "a", "mac": []}])
def test_each_network_is_checked(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^network: (networks|address|mac) is not "):
        container_record.parse(whole(PLACE).as_json() | {"network": {"networks": [row]}}, PLACE)


def test_what_is_asked_of_networks_is_read_as_it_was_written() -> None:
    port = {"port": 80, "protocol": "tcp", "host_ip": "", "host_port": 8080}
    helper = {"pid": 7, "start": 1, "boot": "x"}
    asked = NetworkRequest(
        "userspace", (Attachment("a", aliases=("b",)),), ((80, "tcp", "", 0, 0),), (("x", "y"),),
        dns=("192.0.2.1",), published=(port,), helper=helper, default=True,
    )  # fmt: skip
    row = asked.as_json()
    assert json.loads(json.dumps(row)) == row
    assert network_request.from_json(row) == asked
    record = docker_record.put(whole(PLACE), DockerRecord(network=asked))
    assert container_record.parse(record.as_json(), PLACE) == record
    assert docker_record.of(record).network == asked
    assert docker_record.of(record).attachments == asked.networks


def test_what_another_version_asks_of_networks_stays() -> None:
    row = {"network": {"mode": "host", "later": 1}, "health": {"Test": ["CMD", "a"], "Later": [2]}}
    record = container_record.parse(whole(PLACE).as_json() | row, PLACE)
    docker = docker_record.of(record)
    assert docker == DockerRecord(
        network=NetworkRequest("host"), health=HealthCheck(["CMD", "a"]),
    )  # fmt: skip
    again = docker_record.put(record, docker._replace(restarts=1))
    assert again.as_json() == record.as_json() | {"restarts": 1}


def test_no_field_is_both_the_cores_and_dockers() -> None:
    assert not {*DockerRecord._fields} & {*ContainerRecord._fields}


def test_a_bundles_container_has_none() -> None:
    assert docker_record.of(whole(PLACE)) == DockerRecord()
    record = whole(PLACE)
    assert docker_record.put(record, DockerRecord()) == record


def test_what_is_put_is_there_and_what_another_version_wrote_stays() -> None:
    document = whole(PLACE).as_json() | {"later": [1], "auto_remove": False, "image": None}
    record = container_record.parse(document, PLACE)
    docker = docker_record.of(record)
    assert docker == DockerRecord()
    changed = docker_record.put(record, docker._replace(labels={"a": "b"}, image="x"))
    assert changed.as_json() == document | {"labels": {"a": "b"}, "image": "x"}
    assert docker_record.of(changed) == DockerRecord(labels={"a": "b"}, image="x")


def test_an_earlier_record_of_run_image_is_read() -> None:
    row, record = earlier("image")
    assert record.status == "running" and record.args == ["sleep", "100"]
    assert docker_record.of(record) == DockerRecord(
        managed=True, image="busybox:latest", gpus="", warnings=[], seccomp="default",
        default_pids_limit=True, declared={"ports": ["80/tcp"], "stop_signal": "INT"},
        labels={"a": "b"}, restart="on-failure:3", stop_timeout=3, interactive=True,
        output={"max_size": 20 << 20, "max_file": 5}, health=HealthCheck(["CMD-SHELL", "true"]),
        mounts=row["mounts"], cap_add=["NET_ADMIN"], cap_drop=["CHOWN"], shared_memory=True,
    )  # fmt: skip


def test_an_earlier_record_with_networks_is_read() -> None:
    docker = docker_record.of(earlier("networks")[1])
    assert docker.health == HealthCheck(["CMD-SHELL", "true"], 9 * 10**9, Retries=2)
    assert docker.network == NetworkRequest(
        "networks", (Attachment("front", "10.99.7.9", aliases=("www",)),),
        ((80, "tcp", "", 8080, 8080), (53, "udp", "", 0, 0)), (("db", "10.0.0.9"),),
        ("192.0.2.53",), domainname="example.org",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["image", "bundle", "networks"])
def test_an_earlier_record_is_written_as_it_was(name: str) -> None:
    """Its supervisor may be that earlier minirun still: it reads the record next."""
    row, record = earlier(name)
    assert json.loads(json.dumps(record.as_json())) == row
    docker = docker_record.of(record)._replace(restarts=1)
    again = docker_record.put(record, docker)
    assert json.loads(json.dumps(again.as_json())) == row | {"restarts": 1}


def test_an_earlier_record_of_a_bundle_is_read() -> None:
    row, record = earlier("bundle")
    assert (record.no_pivot, record.origin, record.cgroup) == (
        True, {"engine": "plain"}, row["cgroup"],
    )  # fmt: skip
    assert docker_record.of(record) == DockerRecord()
