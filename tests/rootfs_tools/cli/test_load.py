"""`minirun load`: what real tools saved, and what a hostile archive says."""

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from minirun import cli
from minirun.core.kernel.architecture import NATIVE
from required import installed
from rootfs_tools import catalogue
from tests.rootfs_tools.layouts import LayoutFolder, listing, member, tar

Run = Callable[..., tuple[int, str, str]]
LAYERS = (
    tar(member("etc/", tarfile.DIRTYPE), member("etc/a", content=b"a"), member("etc/b")),
    tar(member("etc/.wh.b"), member("c", content=b"c", uid=7)),
)


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run minirun with a store of its own; return (exit status, stdout, stderr)."""

    def call(*args: str) -> tuple[int, str, str]:
        folders = ["--store", str(tmp_path / "store"), "--root", str(tmp_path / "root")]
        capfd.readouterr()
        status = cli.main([*folders, *args])
        return status, *capfd.readouterr()

    return call


@pytest.fixture
def folder(tmp_path: Path) -> LayoutFolder:
    return LayoutFolder(tmp_path / "layout", *LAYERS, Cmd=["/c"], Env=["A=1"])


def skopeo(*words: str) -> None:
    argv = [installed("skopeo"), "--insecure-policy", "copy", "-q", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def shown(tmp_path: Path, name: str) -> list[object]:
    """What the store holds of an image: its configuration, and the listing of each layer."""
    image = catalogue.resolve(str(tmp_path / "store"), name)
    return [image.cmd, image.env, *(listing(Path(layer)) for layer in image.layers)]


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive", "oci"])
def test_what_skopeo_writes_is_read(
    run: Run, tmp_path: Path, folder: LayoutFolder, form: str
) -> None:
    path = tmp_path / "saved"
    skopeo(f"oci:{folder.path}:test", f"{form}:{path}:team/app:1")
    assert run("load", "-i", str(path)) == (0, "Loaded image: team/app:1\n", "")
    assert run("load", "-i", f"{folder.path}:test", "plain") == (
        0, "Loaded image: plain:latest\n", "",
    )  # fmt: skip
    assert shown(tmp_path, "team/app:1") == shown(tmp_path, "plain")
    assert run("images", "--verify")[0] == 0


def test_an_image_without_a_name_needs_one(run: Run, folder: LayoutFolder) -> None:
    status, _, error = run("load", "-i", str(folder.path))
    assert (status, error.count("\n")) == (1, 1)
    assert f"minirun load -i {folder.path} NAME" in error


def write(path: Path, *files: tuple[str, bytes], links: tuple[tuple[str, str], ...] = ()) -> str:
    with tarfile.open(path, "w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return str(path)


def test_dockers_oldest_form_is_read(run: Run, tmp_path: Path) -> None:
    low, top = "a" * 64, "b" * 64
    rows = {
        low: {"id": low, "container_config": {"Cmd": ["make", "base"]}},
        top: {"id": top, "parent": low, "config": {"Cmd": ["/c"], "Env": ["A=1"]}},
    }
    files = [(f"{key}/json", json.dumps(row).encode()) for key, row in rows.items()]
    files += [(f"{key}/layer.tar", layer) for key, layer in zip(rows, LAYERS, strict=True)]
    names = ("repositories", json.dumps({"old/app": {"2": top}}).encode())
    path = write(tmp_path / "old.tar", *files, names)
    assert run("load", "-q", "-i", path) == (0, "old/app:2\n", "")
    cmd, env, *layers = shown(tmp_path, "old/app:2")
    assert (cmd, env, len(layers)) == (("/c",), ("A=1",), 2)


def docker(path: Path, layer: str = "x/layer.tar", **changes: object) -> list[tuple[str, bytes]]:
    """Return the files of a docker-archive of one layer."""
    import hashlib

    digest = f"sha256:{hashlib.sha256(LAYERS[0]).hexdigest()}"
    machine = NATIVE.go
    config = {"os": "linux", "architecture": machine, "rootfs": {"diff_ids": [digest]}}
    row = {"Config": "c.json", "RepoTags": ["app:1"], "Layers": [layer]} | changes
    return [
        ("manifest.json", json.dumps([row]).encode()), ("c.json", json.dumps(config).encode()),
        ("y/layer.tar", LAYERS[0]),
    ]  # fmt: skip


def test_a_layer_that_is_a_link_is_followed_in_the_archive(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", *docker(tmp_path), links=(("x/layer.tar", "../y/layer.tar"),))
    assert run("load", "-i", path) == (0, "Loaded image: app:1\n", "")


HOSTILE = {
    "a link to the host": ({}, (("x/layer.tar", "/etc/passwd"),), "is missing in the archive"),
    "a link upwards": ({}, (("x/layer.tar", "../../../etc/passwd"),), "is missing in the archive"),
    "a circle": ({}, (("x/layer.tar", "../x/layer.tar"),), "is missing in the archive"),
    "a name of the host": ({"Layers": ["/etc/passwd"]}, (), "is missing in the archive"),
    "a configuration of the host": ({"Config": "../../etc/passwd"}, (), "is missing"),
    "a wrong layer": ({"Layers": ["c.json"]}, (), "wrong content"),
    "no list": ({"Layers": "all"}, (), "Layers is no list of texts"),
    "two layers": ({"Layers": ["y/layer.tar"] * 2}, (), "names 2 layers"),
    "an odd name": ({"RepoTags": ["../../x"], "Layers": ["y/layer.tar"]}, (), "invalid reference"),
    "twice": ({}, (("c.json", "x"),), "is there twice"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_one_line_and_nothing_is_left(
    run: Run, tmp_path: Path, name: str
) -> None:
    changes, links, text = HOSTILE[name]
    path = write(tmp_path / "a.tar", *docker(tmp_path, **changes), links=links)
    status, out, error = run("load", "-i", path)
    assert (status, out, error.count("\n")) == (1, "", 1)
    assert text in error
    assert run("images", "-q") == (0, "", "")
    layers = tmp_path / "store/layers"
    assert not layers.exists() or not [x for x in os.listdir(layers) if not x.startswith(".lock-")]


@pytest.mark.parametrize("data", [b"", b"hello", bytes(4096), b"\x1f\x8b\x08\0" + bytes(30)])
def test_what_is_no_archive_is_one_line(run: Run, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    status, _, error = run("load", "-i", str(tmp_path / "a.tar"))
    assert (status, error.count("\n")) == (1, 1)
