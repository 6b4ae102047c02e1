"""SIGKILL during load and save: the next command succeeds, and nothing foreign is left."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rootfs_tools import catalogue
from rootfs_tools.draft import beside
from rootfs_tools.gc import collect
from tests.rootfs_tools.layouts import LayoutFolder, listing, member, tar

TIMES = 12


def until_killed(argv: list[str], moment: float) -> None:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()


def seconds(argv: list[str]) -> float:
    begin = time.monotonic()
    subprocess.run(argv, check=True, capture_output=True)
    return time.monotonic() - begin


def names(top: Path) -> set[str]:
    """What lies in a store, but for its locks and the content of layers."""
    found = (str(path.relative_to(top)) for path in top.rglob("*"))
    return {name for name in found if "/fs/" not in name and ".lock" not in name}


@pytest.fixture
def folder(tmp_path: Path) -> LayoutFolder:
    layers = [
        tar(*(member(f"{n}/{k}", content=os.urandom(20_000)) for k in range(40))) for n in range(5)
    ]
    return LayoutFolder(tmp_path / "layout", *layers)


def test_load(command: str, tmp_path: Path, folder: LayoutFolder) -> None:
    whole, store = tmp_path / "whole", tmp_path / "store"
    argv = [command, "--store", "", "load", "-i", f"{folder.path}:test", "app"]
    long = seconds([*argv[:2], str(whole), *argv[3:]])
    argv[2], chance = str(store), random.Random(5)
    for _ in range(TIMES):
        until_killed(argv, chance.uniform(long / 4, long))
    seconds(argv)
    assert catalogue.verify(str(store), "app") == ""
    collect(str(store), list)
    assert names(store) == names(whole)
    image, other = (catalogue.resolve(str(top), "app") for top in (store, whole))
    for one, two in zip(image.layers, other.layers, strict=True):
        assert listing(Path(one), times=False) == listing(Path(two), times=False)


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive", "oci-dir"])
def test_save(command: str, tmp_path: Path, folder: LayoutFolder, form: str) -> None:
    store, out = str(tmp_path / "store"), tmp_path / "out"
    seconds([command, "--store", store, "load", "-i", f"{folder.path}:test", "app"])
    out.mkdir()
    before, chance = names(Path(store)), random.Random(6)
    argv = [command, "--store", store, "save", "--format", form, "-o", "", "app"]
    argv[-2] = str(tmp_path / "whole")
    long = seconds(argv)
    argv[-2] = str(out / "app")
    for _ in range(TIMES):
        until_killed(argv, chance.uniform(long / 3, long))
        if (out / "app").is_file():
            (out / "app").unlink()
        else:
            subprocess.run(["rm", "-rf", str(out / "app")], check=True)
    seconds(argv)
    assert os.listdir(out) == ["app"]
    assert names(Path(store)) == before
    if form != "oci-dir":
        assert (out / "app").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_draft_of_a_living_maker_stays(tmp_path: Path) -> None:
    with beside(str(tmp_path)) as one, beside(str(tmp_path)) as two:
        assert os.path.isdir(one) and os.path.isdir(two)
    assert os.listdir(tmp_path) == []
    dead = tmp_path / ".minirun-draft-dead"
    other = tmp_path / ".minirun-draft-other"
    for path in (dead, other):
        path.mkdir()
    os.chown(other, 54321, 54321)
    (tmp_path / ".minirun-draft-link").symlink_to("/etc")
    with beside(str(tmp_path)):
        assert not dead.exists()
    assert {path.name for path in tmp_path.iterdir()} == {other.name, ".minirun-draft-link"}
