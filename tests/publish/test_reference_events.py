"""The reference of events: as the source has it, and true of what is really logged."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from conftest import Program
from minirun.faces import recordings
from tutorials.publish.reference import events

CHECK = Draft202012Validator(json.loads(events.SCHEMA.read_text()))


def wrong(log: Path) -> list[str]:
    """Return what of a log is not as the schema has it."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines
    errors = [(line["name"], error) for line in lines for error in CHECK.iter_errors(line)]
    return [f"{name}: {error.json_path}: {error.message}" for name, error in errors]


def test_it_is_what_the_source_has() -> None:
    """If this fails: `make reference`."""
    assert json.loads(events.SCHEMA.read_text()) == events.schema()
    assert events.PAGE.read_text() == events.text()
    Draft202012Validator.check_schema(events.schema())


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_a_shipped_recording_is_valid(name: str) -> None:
    assert wrong(recordings.path(name)) == []


@pytest.mark.parametrize(
    "flags",
    [
        "--rm", "--rm --gpus 0,1 --gpu-driver simulated --snapshots", "--rm -t",
        "--rm --memory 64m --cpus 0.5 --user 1000:1000 --read-only --hostname h",
        "--rm --uidmap 0:100000:65536 --gidmap 0:100000:65536",
    ],
)  # fmt: skip
def test_a_run_is_valid(reachable: Program, flags: str) -> None:
    done = reachable("run", *flags.split(), "busybox", "true")
    assert done.returncode == 0, done.stderr
    (log,) = reachable.root.glob(".history/*.jsonl")
    assert wrong(log) == []


def test_what_is_wrong_is_found() -> None:
    line = json.loads(recordings.path("plain").read_text().splitlines()[5])
    assert not list(CHECK.iter_errors(line))
    for change in ({"stage": 8}, {"v": 2}, {"t": "now"}, {"kind": "thought"}, {"errno": "none"}):
        assert list(CHECK.iter_errors(line | change)), change
    mount = line | {"kind": "syscall", "name": "mount", "args": {"nosuch": 1}}
    assert list(CHECK.iter_errors(mount))
