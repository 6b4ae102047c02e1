"""Fuzzed configurations, hostile images, containers, archives and recordings, in a cage.

None may hang, end with a traceback, print more than a line or two, use more than 600 MB, change
the decoy beside it, or leave a process, a mount, a cgroup or a record. What is drawn by lot is
drawn with a seed, so a case that fails fails again. MINIRUN_FUZZ=2200 tries as many configurations,
and all images in all ways; without it `make test` tries a part.
"""

import json
import os
from pathlib import Path

import pytest

from apart import HOST, apart
from fuzz import archives, configurations, containers, living, recordings
from fuzz.cage import Cage
from fuzz.images import IMAGES
from minirun.faces.recordings import path
from night import CASES

_BLOCK = 25
_MACHINE = os.readlink("/proc/self/ns/net")
_SEEDS = (*containers.SEEDS, *containers.RUNS)


def _blocks(count: int) -> list[int]:
    return list(range(0, count, _BLOCK))


def _ways(image: str) -> list[str]:
    """The ways to run an image: all, or the one that it is made for, in turn."""
    if CASES:
        return list(_SEEDS)
    if image == "fifo etc/ld.so.conf":  # it costs ldconfig's timeout
        return ["volumes"]
    if any(word in image for word in ("ld.so", "lib", "cuda", "driver", "usr")):
        return ["gpus"]
    if "passwd" in image or "group" in image:
        return ["a user and group"]
    return [_SEEDS[list(IMAGES).index(image) % len(_SEEDS)]]


def _tell(faults: dict[object, tuple[str, list[str], str]]) -> None:
    text = [f"{key}: {said}\n  {found}\n  {line[:300]!r}"
            for key, (said, found, line) in faults.items()]  # fmt: skip
    assert not text, "\n".join(text)


@pytest.mark.parametrize("first", _blocks(CASES or 150))
def test_configurations(cage: Cage, first: int) -> None:
    faults: dict[object, tuple[str, list[str], str]] = {}
    for seed in range(first, first + _BLOCK):
        case = configurations.run(cage, seed)
        if case.faults:
            faults[seed] = (case.said, case.faults, case.outcome.stderr)
    _tell(faults)


@pytest.mark.parametrize("image", IMAGES)
def test_images(cage: Cage, image: str) -> None:
    faults: dict[object, tuple[str, list[str], str]] = {}
    for way in _ways(image):
        by = containers.by_bundle if way in containers.SEEDS else containers.by_flags
        outcome, found = by(cage, image, way)
        if found:
            faults[way] = (image, found, outcome.stderr)
    _tell(faults)


@pytest.mark.parametrize("name", living.SCRIPTS if CASES else list(living.SCRIPTS)[::4])
def test_containers(cage: Cage, name: str) -> None:
    case = living.run(cage, name)
    assert not case.faults, case.outcome


@pytest.mark.parametrize("first", _blocks(CASES // 4 or 50))
def test_archives(cage: Cage, first: int) -> None:
    faults: dict[object, tuple[str, list[str], str]] = {}
    for seed in range(first, first + _BLOCK):
        case = archives.run(cage, seed)
        if case.faults:
            faults[seed] = (case.said, case.faults, case.outcome.stderr)
    _tell(faults)


@pytest.mark.parametrize("first", _blocks(CASES // 2 or 50))
def test_recordings(cage: Cage, first: int) -> None:
    lines = path("gpus-0-1").read_text().splitlines()
    assert json.loads(lines[0])
    faults: dict[object, tuple[str, list[str], str]] = {}
    for seed in range(first, first + _BLOCK):
        case = recordings.run(cage, seed, lines)
        if case.faults:
            faults[seed] = (case.said, case.faults, case.outcome.stderr)
    _tell(faults)


def test_only_its_own_host_is_watched(cage: Cage) -> None:
    """Another test may switch forwarding on for the machine, and mount what it likes."""
    assert os.readlink("/proc/thread-self/ns/net") != _MACHINE
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    before = forwarding.read_text()
    with apart(*HOST):
        forwarding.write_text("0" if int(before) else "1")
    assert not cage.harm()
    forwarding.write_text("0" if int(before) else "1")
    assert cage.harm() == ["the host's net/ipv4/ip_forward changed"]
    forwarding.write_text(before)


def test_the_decoy_notices(cage: Cage) -> None:
    """What the cases rely on: each kind of change is seen, once."""
    secret = Path(cage.decoy.path, "secret")
    for change in (
        lambda: secret.write_text("other"), lambda: secret.chmod(0o600),
        lambda: Path(cage.decoy.path, "new").touch(), lambda: Path(cage.decoy.path, "new").unlink(),
    ):  # fmt: skip
        change()
        assert cage.decoy.changes()
        assert not cage.decoy.changes()
