"""The fields of state.json: each is declared once, with its type, and checked when it is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from minirun.common.docker_record import DockerRecord
from minirun.core.errors import StateError
from minirun.core.keeping import container_record, field_types, state, state_file
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.container_record import ContainerRecord, parse
from records import whole

PLACE = "/run/minirun/c1"
SCOPE = {
    "version": 2, "path": "/s.slice/a.scope", "dirs": {"": "/sys/fs/cgroup/s.slice/a.scope"},
    "slice": "s.slice", "scope": "a.scope",
}  # fmt: skip
WRONG: dict[str, tuple[Any, ...]] = {
    "str": (5, [], True), "int": ("1", True, 1.5), "bool": (0, "true", []),
    "Switch": (0, []), "list[str]": ("a", [5]), "tuple[str, ...]": ("a", [5]),
    "dict[str, str]": ([], {"a": 1}), "dict[str, Any]": ([], "a"), "Choices": ([], "a"),
    "Status": ("ended", "", 5, []), "Pid": (-1, 1 << 40, True, "1"),
    "ProcessIdentity": ({}, {"pid": 0, "start": 1, "boot": "x"}, {"pid": 1, "start": 1}, 5),
    "Time": ("now", 5, "2026-13-01T00:00:00.0Z"), "CgroupVersion": ("v3", 2, []),
    "CgroupRecord": (
        {}, {"version": 2, "path": "/", "dirs": {"": "/"}}, [], {**SCOPE, "scope": 1},
        {**SCOPE, "slice": None}, {**SCOPE, "scope": "b.scope"},
    ),
    "HostMountRecord": ({}, {"id": 1, "directory": [1], "boot": ""}), "ExitStatus": (-1, 256, True),
}  # fmt: skip


def field_types_of_the_class() -> dict[str, str]:
    rows = ContainerRecord.__annotations__.items()
    return {name: kind.removesuffix(" | None") for name, kind in rows if name != "rest"}


def test_every_type_has_a_test_and_no_other() -> None:
    others = (Choices, DockerRecord)
    kinds = {
        kind.removesuffix(" | None") for each in others for kind in each.__annotations__.values()
    }
    kinds |= set(field_types_of_the_class().values())
    objects = {"Asked", "Declared", "OutputRecord", "HealthCheck", "NetworkRequest"}
    of_docker = {"MountRecords", *objects}
    assert kinds - of_docker == set(field_types.TESTS) == set(WRONG)


@pytest.mark.parametrize(("name", "kind"), Choices.__annotations__.items())
def test_each_choice_is_checked(name: str, kind: str) -> None:
    for value in WRONG[kind.removesuffix(" | None")]:
        with pytest.raises(ValueError, match=f"^choices: {name} is not "):
            parse(whole(PLACE).as_json() | {"choices": {name: value}}, PLACE)


def test_a_choice_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^choices: there is no nosuch$"):
        parse(whole(PLACE).as_json() | {"choices": {"nosuch": 1, "volatile": True}}, PLACE)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"cgroup_path": "/a//./c1"}, "/a/c1"), ({"cgroup_path": "/b/c1"}, "/a/c1"),
        ({"cgroup_path": "s.slice:minirun:c1", "systemd_cgroup": True}, "/a/c1"),
    ],
)  # fmt: skip
def test_the_cgroup_is_the_one_that_the_record_names(changes: dict[str, Any], path: str) -> None:
    cgroup = {"version": 2, "path": path, "dirs": {"": f"/sys/fs/cgroup{path}"}}
    record = whole(PLACE, cgroup=cgroup, **changes)
    if changes["cgroup_path"] == "/a//./c1":
        assert parse(record.as_json(), PLACE) == record
        return
    with pytest.raises(ValueError, match=r"^cgroup '/a/c1' is not the container's$"):
        parse(record.as_json(), PLACE)


@pytest.mark.parametrize("name", field_types_of_the_class())
def test_each_field_is_checked(name: str) -> None:
    for value in WRONG[field_types_of_the_class()[name]]:
        document = whole(PLACE).as_json() | {name: value}
        with pytest.raises(ValueError, match=f"^{name} is not "):
            parse(document, PLACE)


@pytest.mark.parametrize(
    ("year", "is_leap"), [(2028, True), (2026, False), (2000, True), (2100, False)]
)
def test_february_has_a_29th_in_a_leap_year(year: int, is_leap: bool) -> None:
    is_time, _ = field_types.TESTS["Time"]
    assert is_time(f"{year}-02-28T23:59:59.0Z")
    assert is_time(f"{year}-02-29T00:00:00.0Z") is is_leap


def test_the_scope_of_systemd_is_a_cgroup() -> None:
    record = whole(PLACE, cgroup_path="s.slice:minirun:a", systemd_cgroup=True)
    assert parse(record.as_json() | {"cgroup": SCOPE}, PLACE).cgroup == SCOPE


def test_what_has_no_default_must_be_there() -> None:
    document = whole(PLACE).as_json()
    assert document.keys() == set(ContainerRecord._fields) - ContainerRecord._field_defaults.keys()
    for name in document:
        rest = {key: value for key, value in document.items() if key != name}
        with pytest.raises(ValueError, match=f"^{name} is missing$"):
            parse(rest, PLACE)


def test_what_is_left_out_means_the_same_in_every_version() -> None:
    """A record on the disk says nothing of it: another default would make it another container."""
    records = (ContainerRecord, Choices, DockerRecord)
    usual = {name: value for each in records for name, value in each._field_defaults.items()}
    assert {name: value for name, value in usual.items() if value} == {
        "stop_timeout": 10,
        "choices": Choices(),
    }


def test_the_directory_is_the_one_that_is_read(tmp_path: Path) -> None:
    """A root may be reached by a link; another place, there or not, is another container's."""
    here = tmp_path / "here/c1"
    here.mkdir(parents=True)
    (tmp_path / "other/c1").mkdir(parents=True)
    (tmp_path / "link").symlink_to("here")
    document = whole(str(here)).as_json()
    assert parse(document, str(tmp_path / "link/c1")).directory == str(here)
    for place in ("other/c1", "nosuch/c1"):
        with pytest.raises(ValueError, match=r"^it is the record of "):
            parse(document, str(tmp_path / place))


def test_null_is_as_good_as_missing_where_there_is_a_default() -> None:
    nulls = dict.fromkeys(ContainerRecord._field_defaults)
    del nulls["rest"]
    record = whole(PLACE)
    assert parse(record.as_json() | nulls, PLACE) == record


def test_a_record_comes_back_as_it_was() -> None:
    cgroup = {"version": 2, "path": "/a/c1", "dirs": {"": "/sys/fs/cgroup/a/c1"}, "new": [1]}
    record = whole(
        PLACE, cgroup_path="/a/c1", exit_status=0, cgroup=cgroup,
        choices=Choices(layers=("/l",)), no_pivot="", poststop_done=True,
    )  # fmt: skip
    assert parse(json.loads(json.dumps(record.as_json())), PLACE) == record
    assert list(record.as_json()) == [key for key in record._fields if key in record.as_json()]


def test_what_another_version_wrote_is_written_again() -> None:
    document = {"later": {"a": [1]}, **whole(PLACE).as_json(), "rest": 5}
    record = parse(document, PLACE)
    assert record.rest == {"later": {"a": [1]}, "rest": 5}
    assert record._replace(status=state.STOPPED).as_json() == document | {"status": "stopped"}


def test_a_wrong_name_is_an_error() -> None:
    record = whole(PLACE)
    with pytest.raises(AttributeError):
        record.stauts  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError):
        record.stauts = "running"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        record.status = "running"  # type: ignore[misc]
    with pytest.raises(TypeError):
        record._replace(stauts="running")  # type: ignore[call-arg]


def test_without_an_init_there_is_no_first_process() -> None:
    assert whole(PLACE).first_process() == whole(PLACE).init
    with pytest.raises(StateError, match="container not running"):
        whole(PLACE, init=None).first_process()


def test_the_reader_returns_a_record(tmp_path: Path) -> None:
    record = whole(str(tmp_path))
    state.save(str(tmp_path), record)
    assert json.loads((tmp_path / "state.json").read_text()) == record.as_json()
    assert state_file.read(str(tmp_path)) == record
    assert type(state_file.read(str(tmp_path))) is container_record.ContainerRecord
