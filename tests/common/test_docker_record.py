"""Docker's fields of state.json: each is declared once, with its type, and checked when it is read.

tests/data/records has two records as minirun 0.1 wrote them, when docker's fields and the core's
were one class: with other names, and without what only their machine had.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.keeping.test_container_record import PLACE, WRONG
from minirun.common import docker_record
from minirun.common.docker_record import DockerRecord
from minirun.core.keeping import container_record
from minirun.core.keeping.container_record import ContainerRecord
from records import whole

EARLIER = Path(__file__).parents[1] / "data/records"
MOUNT = {"type": "volume", "name": "a", "source": "/a", "target": "/x", "options": []}
WRONG_MOUNTS: tuple[Any, ...] = (
    {}, [5], [{"type": "volume"}], [{**MOUNT, "type": "image"}], [{**MOUNT, "target": "x"}],
    [{**MOUNT, "options": "ro"}], [{**MOUNT, "anonymous": 1}], [{**MOUNT, "subpath": 1}],
)  # fmt: skip


def earlier(name: str) -> tuple[dict[str, Any], ContainerRecord]:
    """Return a record of an earlier minirun, as its file has it and as it is read."""
    row = json.loads((EARLIER / f"{name}.json").read_text())
    return row, container_record.parse(row, row["directory"])


@pytest.mark.parametrize(("name", "kind"), DockerRecord.__annotations__.items())
def test_each_field_is_checked_by_the_reader_of_state_json(name: str, kind: str) -> None:
    wrong = WRONG | {"MountRecords": WRONG_MOUNTS}
    wrong |= dict.fromkeys(("Declared", "OutputRecord"), WRONG["dict[str, Any]"])
    for value in wrong[kind.removesuffix(" | None")]:
        document = whole(PLACE).as_json() | {name: value}
        with pytest.raises(ValueError, match=f"^{name} is not "):
            container_record.parse(document, PLACE)


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
        output={"max_size": 20 << 20, "max_file": 5}, health={"Test": ["CMD-SHELL", "true"]},
        mounts=row["mounts"], cap_add=["NET_ADMIN"], cap_drop=["CHOWN"], shared_memory=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["image", "bundle"])
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
