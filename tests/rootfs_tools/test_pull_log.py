"""A pull is events of the run's log: what was done with each layer, before stage 1."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from tests.rootfs_tools.registry import real

BUSYBOX = Path("/bin/busybox").read_bytes()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("registry")
    layers = {"bin/sh": BUSYBOX, "bin/cat": BUSYBOX}, {"who": b"pulled\n"}
    with real.registry(folder / "r") as found:
        for name, more in (("library/one:1", ()), ("library/two:1", ({"new": b"more"},))):
            layout = real.layout(folder / name[8:11], *layers, *more, Cmd=["/bin/cat", "/who"])
            real.fill(found, name, layout, "--dest-tls-verify=false")
        yield found


@pytest.fixture
def own(
    command: str, tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Program]:
    """The program with a store of its own; the registry stands for docker.io."""
    real.no_settings(tmp_path, monkeypatch)
    real.as_docker_io(host, tmp_path)
    program = Program(command, store=tmp_path / "store")
    yield program
    program.clean()


def earlier(program: Program, name: str) -> list[dict[str, object]]:
    """Return the events of before stage 1, but for the image's name, which every run ends with."""
    found = program.events(name)
    before = [event for event in found if event["stage"] == 0]
    assert before == found[: len(before)]
    times = [int(str(event["t"])) for event in found]
    assert times[: len(before) + 1] == sorted(times[: len(before) + 1])
    assert len({event["id"] for event in found}) == 1
    *before, last = before
    assert last["name"] == "origin"
    return before


def named(events: list[dict[str, object]], name: str) -> list[dict[str, object]]:
    return [event for event in events if event["name"] == name]


def test_each_layer_is_told(own: Program) -> None:
    assert own("run", "--name", "a", "one:1").stdout == "pulled\n"
    found = earlier(own, "a")
    assert (found[0]["name"], found[-1]["name"]) == ("pull image", "image pulled")
    assert found[0]["why"] == "no such image is in the store"
    assert all(event["why"] for event in found)
    for name in ("pull layer", "layer verified", "layer unpacked"):
        assert len(named(found, name)) == 2
    [image] = named(found, "image pulled")
    assert image["args"] == {"image": "one:1", "layers": 2}
    assert sum(int(str(event["dur"])) for event in named(found, "layer unpacked")) > 0
    digests = {str(event["args"]) for event in named(found, "layer verified")}
    assert digests == {str(event["args"]) for event in named(found, "layer unpacked")}


def test_only_what_was_done_is_told(own: Program) -> None:
    """Two layers are shared with the first image: neither fetched nor unpacked again."""
    own("pull", "-q", "one:1")
    assert own("run", "-d", "--name", "a", "two:1").returncode == 0
    found = earlier(own, "a")
    counts = {name: len(named(found, name)) for name in ("layer exists", "layer unpacked")}
    assert counts == {"layer exists": 2, "layer unpacked": 1}
    assert len(named(found, "pull layer")) == 1
    own("run", "--name", "b", "two:1")
    assert earlier(own, "b") == []
    own("run", "--name", "c", "--pull", "always", "two:1")
    again = earlier(own, "c")
    assert [event["name"] for event in again] == ["pull image", *["layer exists"] * 3,
                                                  "image pulled"]  # fmt: skip
    assert str(again[0]["why"]).startswith("--pull always")


def test_what_was_left_of_a_layer_is_gone_on_with(own: Program, host: str, tmp_path: Path) -> None:
    own("pull", "-q", "one:1")
    blobs = list((tmp_path / "store/blobs/sha256").iterdir())
    largest = max(blobs, key=lambda path: path.stat().st_size)
    part = largest.read_bytes()[:1000]
    own("rmi", "one:1")
    largest.unlink()
    (tmp_path / "store/blobs/partial" / largest.name).write_bytes(part)
    assert own("run", "--name", "a", "one:1").stdout == "pulled\n"
    [event] = named(earlier(own, "a"), "pull layer")
    assert event["why"] == "it is not in the store; 1000 bytes of it are here"


def test_timeline_shows_it_before_stage_1(own: Program) -> None:
    own("run", "--name", "a", "one:1")
    lines = own("timeline", "a").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("1 runtime"))
    before = "\n".join(lines[:at])
    for words in ("pull image one:1", "pull layer", "layer verified", "layer unpacked",
                  "image pulled one:1 2 layers"):  # fmt: skip
        assert words in before
    assert "pull" not in "\n".join(lines[at:])


def test_a_log_that_is_off_stays_off(own: Program) -> None:
    own("run", "--name", "a", "one:1", env={"MINIRUN_LOG": "off"})
    assert not (own.directory("a") / "events.jsonl").exists()


def test_where_no_registry_is_reached(own: Program, tmp_path: Path) -> None:
    real.as_docker_io("127.0.0.1:1", tmp_path)
    assert own("run", "--name", "a", "busybox", "true").returncode == 0
    names = [event["name"] for event in earlier(own, "a")]
    assert names == ["pull image", "pull failed"]


def test_a_pull_alone_writes_to_log(own: Program, tmp_path: Path) -> None:
    path = tmp_path / "log"
    own("--log", str(path), "--log-format", "json", "pull", "one:1")
    names = [json.loads(line)["name"] for line in path.read_text().splitlines()]
    assert (names[0], names[-1], names.count("layer unpacked")) == ("pull image", "image pulled", 2)
    assert "layer unpacked" in own("timeline", str(path)).stdout
