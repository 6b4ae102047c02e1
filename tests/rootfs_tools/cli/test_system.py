"""`minirun image gc` and `system df`: what is used stays, what is said is what du(1) says."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from conftest import Program
from layers import layer_of
from minirun.core.keeping.settings import Settings
from minirun.core.kernel import files
from minirun.faces.inspect.sizes import human
from rootfs_tools import catalogue, usage
from rootfs_tools.cli import system
from rootfs_tools.take import take
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, member, tar


@pytest.fixture
def program(minirun: Program, tmp_path: Path) -> Program:
    """minirun with a store of its own, in which `app` and `other` share a layer: busybox's."""
    for place in tmp_path.parents[:3]:
        place.chmod(0o755)
    base = layer_of("busybox")
    argv = ["tar", "-C", str(base), "-c", "."]
    first = subprocess.run(argv, capture_output=True, check=True).stdout
    for name in ("app", "other"):
        own = tar(member(name, content=name.encode() * 9000))
        folder = LayoutFolder(tmp_path / name, first, own, Env=["PATH=/bin"], Cmd=["true"])
        take(str(tmp_path / "store"), name, FolderSource(folder))
    return minirun.at(tmp_path / "store")


def table(program: Program) -> dict[str, dict[str, int]]:
    """The rows of system df, by kind."""
    settings = Settings(store=program.store, root=str(program.root), root_is_named=True)
    return {row.kind: row._asdict() for row in system.rows(settings, parts=True)}


def test_a_container_keeps_its_layers_until_it_is_deleted(program: Program, tmp_path: Path) -> None:
    layers = catalogue.resolve(str(tmp_path / "store"), "app").layers
    assert program("run", "-d", "--name", "c", "app", "sleep", "60").returncode == 0
    (tmp_path / "store/images/app/image.json").unlink()
    (tmp_path / "store/images/app").rmdir()
    elsewhere = Program(program.path, tmp_path / "elsewhere", store=program.store)
    for _ in ("running", "ended"):
        done = elsewhere("image", "gc")  # with another --root it is the same store
        assert (done.returncode, done.stderr) == (0, "")
        assert all(map(os.path.isdir, layers))
        assert program("exec", "c", "cat", "/app").stdout == "app" * 9000 or _ == "ended"
        program("kill", "c", "KILL")
    assert program("delete", "--force", "c").returncode == 0
    done = program("image", "gc")
    assert done.stdout.splitlines()[0].startswith(f"removed {os.path.dirname(layers[1])}: ")
    assert [os.path.isdir(layer) for layer in layers] == [True, False]
    assert program("run", "--rm", "other", "true").returncode == 0


def test_nothing_goes_as_long_as_a_record_cannot_be_read(program: Program, tmp_path: Path) -> None:
    program("run", "--name", "c", "app", "true")
    program("rmi", "other")
    state = program.directory("c") / "state.json"
    text = state.read_text()
    for broken in (text[:40], None):
        state.unlink() if broken is None else state.write_text(broken)
        before = sorted(os.listdir(tmp_path / "store/layers"))
        done = program("image", "gc")
        assert (done.returncode, done.stdout) == (1, "")
        assert "record is damaged" in done.stderr and done.stderr.count("\n") == 1
        assert sorted(os.listdir(tmp_path / "store/layers")) == before
        assert "is not counted" in program("system", "df").stderr
    state.write_text(text)
    state.chmod(0o600)
    assert "removed" in program("image", "gc").stdout
    record = tmp_path / "store/images/app/image.json"
    record.write_text("{")
    before = sorted(os.listdir(tmp_path / "store/layers"))
    done = program("image", "gc")
    assert done.returncode == 0, "a damaged image does not stop it"
    assert "warning: image app:latest is damaged: " in done.stderr and "image.json" in done.stderr
    assert sorted(os.listdir(tmp_path / "store/layers")) == before, "the container has its layers"


def test_after_many_takes_and_removals_nothing_is_foreign(program: Program, tmp_path: Path) -> None:
    store = tmp_path / "store"
    kept = _names(store)
    for number in range(8):
        folder = LayoutFolder(tmp_path / f"l{number}", tar(member(f"f{number}")))
        take(str(store), f"n{number % 3}", FolderSource(folder))
        if number % 2:
            assert program("rmi", f"n{number % 3}").returncode == 0
    for number in range(3):
        program("rmi", f"n{number}")
    assert len(program("image", "gc").stdout.splitlines()) == 8 * 4 + 1
    assert _names(store) == kept
    assert program("image", "gc").stdout == "Total reclaimed space: 0B\n"


def _names(store: Path) -> set[str]:
    found = (path for part in ("layers", "blobs") for path in (store / part).glob("*"))
    names = {str(path) for path in found} | {str(path) for path in store.glob("blobs/*/*")}
    return {name for name in names if "/.lock" not in name}


def test_df_says_what_du_says(program: Program, tmp_path: Path) -> None:
    store = tmp_path / "store"
    program("run", "--name", "c", "app", "dd", "if=/dev/zero", "of=/big", "bs=1M", "count=3")
    (program.directory("c") / "upper/loop").symlink_to("/")
    (store / f"images/../containers/{'d' * 200}").mkdir(parents=True)
    found = table(program)
    for kind, place in (("Layers", "layers"), ("Archives", "blobs/sha256")):
        argv = ["du", "-s", "--block-size=1", *map(str, (store / place).glob("[!.]*"))]
        rows = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        assert found[kind]["size"] == sum(int(row.split()[0]) for row in rows.splitlines())
    assert (found["Images"]["total"], found["Images"]["active"]) == (2, 1)
    assert (found["Layers"]["total"], found["Layers"]["active"]) == (3, 2)
    assert 0 < found["Layers"]["reclaimable"] < found["Layers"]["size"] / 2
    assert found["Archives"]["active"] == 4
    assert (found["Containers"]["total"], found["Containers"]["active"]) == (1, 0)
    assert 3 << 20 < found["Containers"]["size"] < 4 << 20
    text = program("system", "df").stdout
    assert text.split()[:5] == ["TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE"]
    kinds = ["Images", "Containers", "Local Volumes", "Build Cache"]
    assert [re.split("  +", line)[0] for line in text.splitlines()[1:]] == kinds
    assert re.search(r"3\.\d+MB", text.splitlines()[2])
    rows = [
        json.loads(line)
        for line in program("system", "df", "--format", "json").stdout.split("\n")[:-1]
    ]
    assert [row["Type"] for row in rows] == kinds and rows[0]["TotalCount"] == "2"
    images = sum(found[kind]["size"] for kind in ("Images", "Layers", "Archives"))
    assert rows[0]["Size"] == human(images)


def test_df_of_volumes(program: Program) -> None:
    for name in ("used", "idle"):
        assert program("volume", "create", name).returncode == 0
    write = "dd if=/dev/zero of=/v/big bs=1M count=3"
    for name in ("idle", "used"):
        program("run", "--name", f"of-{name}", "-v", f"{name}:/v", "app", "sh", "-c", write)
    program("rm", "of-idle")
    found = table(program)["Local Volumes"]
    assert (found["total"], found["active"]) == (2, 1)
    assert 6 << 20 <= found["size"] < 7 << 20 and 3 << 20 <= found["reclaimable"] < 4 << 20


def test_what_df_calls_reclaimable_is_what_goes(program: Program) -> None:
    program("run", "--name", "c", "app", "true")
    before = table(program)
    assert program("rmi", "other").returncode == 0
    program("image", "gc")
    after = table(program)
    for kind in ("Images", "Layers", "Archives"):
        assert after[kind]["size"] == before[kind]["size"] - before[kind]["reclaimable"]
        assert after[kind]["reclaimable"] == 0


def test_a_container_that_goes_meanwhile(tmp_path: Path) -> None:
    """`system df` looks at every container of the machine: one is always being deleted."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/state.json").write_text("{}")
    counted = usage.containers({str(tmp_path / "a"): True, str(tmp_path / "gone"): True})
    assert (counted.total, counted.active) == (1, 1)
    assert usage.on_disk(str(tmp_path / "a/state.json.next")) == 0


@pytest.mark.parametrize("calls", range(12))
def test_a_folder_that_goes_while_it_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """After so many calls of its counting, whichever comes next."""
    top = tmp_path / "top"
    (top / "below/deep").mkdir(parents=True)
    (top / "file").write_text("x")
    left = calls

    def late(call: Callable[..., object], *args: object, **options: object) -> object:
        nonlocal left
        left -= 1
        if left == -1:
            shutil.rmtree(top)
        return call(*args, **options)

    for place, name in ((os, "lstat"), (os, "open"), (os, "stat"), (files, "openat2")):
        monkeypatch.setattr(place, name, partial(late, getattr(place, name)))
    assert usage.on_disk(str(top)) >= 0
