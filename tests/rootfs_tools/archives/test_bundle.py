"""`image unpack`: umoci's tree and its answers, a bundle that runs; of a wrong image nothing."""

import gzip
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minirun import cli
from program import forget_root
from required import installed
from rootfs_tools.image_spec import INDEXES, MANIFESTS
from rootfs_tools.take import take
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, listing, member, tar, umoci

Unpack = Callable[..., tuple[int, str]]
LAYERS = (
    tar(member("etc/", tarfile.DIRTYPE), member("etc/passwd", content=b"me:x:7:8::/home:/bin/sh\n"),
        member("etc/old"), member("etc/link", tarfile.LNKTYPE, linkname="etc/passwd")),
    tar(member("etc/.wh.old"), member("new", content=b"new", uid=5, gid=6, mode=0o4755)),
)  # fmt: skip


@pytest.fixture
def unpack(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Unpack:
    """Unpack an image to `bundle`; return status and stderr."""

    def call(image: str, *flags: str) -> tuple[int, str]:
        status = cli.main(["image", "unpack", *flags, image, str(tmp_path / "bundle")])
        out, err = capfd.readouterr()
        assert out == ""
        return status, err

    return call


def config(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "bundle/config.json").read_text())
    return found


def test_the_tree_is_umocis(tmp_path: Path, unpack: Unpack) -> None:
    installed("umoci")
    folder = LayoutFolder(tmp_path / "app", *LAYERS)
    assert unpack(f"{folder.path}:test") == (0, "")
    assert listing(tmp_path / "bundle/rootfs") == listing(umoci(folder, tmp_path / "theirs"))


def test_config_json_says_what_the_image_says(tmp_path: Path, unpack: Unpack) -> None:
    folder = LayoutFolder(
        tmp_path / "app", *LAYERS, Env=["PATH=/opt", "A=1"], Entrypoint=["/new"], Cmd=["x"],
        WorkingDir="srv", User="me", Volumes={"/data": {}, "/": {}}, StopSignal="SIGINT",
        Labels={"a": "b"}, ExposedPorts={"80/tcp": {}},
    )  # fmt: skip
    assert unpack(str(folder.path)) == (0, "")
    made = config(tmp_path)
    process = made["process"]
    assert process["args"] == ["/new", "x"]
    assert process["cwd"] == "/srv"
    assert process["user"] == {"uid": 7, "gid": 8, "additionalGids": [8]}
    assert {"PATH=/opt", "A=1"} < set(process["env"])
    assert [text for text in process["env"] if text.startswith("PATH=")] == ["PATH=/opt"]
    assert [row["destination"] for row in made["mounts"]][-1] == "/data"
    assert made["annotations"] == {
        "org.opencontainers.image.os": "linux", "org.opencontainers.image.architecture": "amd64",
        "org.opencontainers.image.stopSignal": "SIGINT",
        "org.opencontainers.image.exposedPorts": "80/tcp", "a": "b",
    }  # fmt: skip


def test_runc_and_minirun_run_it(tmp_path: Path, unpack: Unpack) -> None:
    shell = Path(installed("busybox")).read_bytes()
    layer = tar(member("bin/busybox", content=shell, mode=0o755))
    command = ["/bin/busybox", "sh", "-c", "echo $A from $PWD"]
    folder = LayoutFolder(tmp_path / "app", layer, Cmd=command, Env=["A=hello"], WorkingDir="/w")
    assert unpack(f"{folder.path}:test") == (0, "")
    bundle = str(tmp_path / "bundle")
    minirun = ["minirun", "--root", str(tmp_path / "root"), "run"]
    for program in (["runc", "--root", str(tmp_path / "runc"), "run"], minirun):
        path = installed(program[0], f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
        argv = [path, *program[1:], "--bundle", bundle, f"t{os.getpid()}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "hello from /w\n", "")
    forget_root(tmp_path / "root")


def test_an_index_in_an_index(tmp_path: Path, unpack: Unpack) -> None:
    folder = LayoutFolder(tmp_path / "app", *LAYERS)
    row: dict[str, Any] = folder.top
    for _ in range(3):
        document = {"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": [row]}
        row = {"mediaType": INDEXES[0]} | folder.blob(json.dumps(document).encode())
    row["annotations"] = {"org.opencontainers.image.ref.name": "deep"}
    text = json.dumps({"schemaVersion": 2, "manifests": [row]})
    (folder.path / "index.json").write_text(text)
    assert unpack(f"{folder.path}:deep") == (0, "")


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _changed(change: Callable[[dict[str, Any]], object]) -> Callable[[LayoutFolder], None]:
    """Write the manifest anew, changed, with right digests."""

    def act(folder: LayoutFolder) -> None:
        change(folder.manifest)
        row = {"mediaType": MANIFESTS[0]} | folder.blob(json.dumps(folder.manifest).encode())
        index = {"schemaVersion": 2, "manifests": [row]}
        (folder.path / "index.json").write_text(json.dumps(index))

    return act


def _blob(folder: LayoutFolder, what: str) -> Path:
    row = {"manifest": folder.top, "config": folder.manifest["config"]}.get(what)
    row = row or folder.manifest["layers"][1]
    return folder.path / "blobs" / str(row["digest"]).replace(":", "/")


WRONG: dict[str, tuple[Callable[[LayoutFolder], object], str]] = {
    "manifest": (lambda f: _flip(_blob(f, "manifest")), "wrong content"),
    "config": (lambda f: _flip(_blob(f, "config")), "wrong content"),
    "layer": (lambda f: _flip(_blob(f, "layer")), "layer"),
    "no layer": (lambda f: _blob(f, "layer").unlink(), "No such file"),
    "cut layer": (lambda f: os.truncate(_blob(f, "layer"), 60), "not as large"),
    "size": (_changed(lambda m: m["layers"][1].update(size=7)), "not as large"),
    "larger size": (_changed(lambda m: m["layers"][1].update(size=7000)), "not as large"),
    "diff_id": (_changed(lambda m: m["layers"].reverse()), "unpacked, it is"),
    "count": (_changed(lambda m: m["layers"].pop()), "1 layers, and 2 diff_ids"),
    "config type": (_changed(lambda m: m["config"].update(mediaType="a/b")), "of type 'a/b'"),
    "layer type": (_changed(lambda m: m["layers"][0].update(mediaType="a/b")), "layer of type"),
}


@pytest.mark.parametrize("name", WRONG)
def test_of_a_wrong_image_nothing_is_left(tmp_path: Path, unpack: Unpack, name: str) -> None:
    folder = LayoutFolder(tmp_path / "app", *LAYERS)
    act, text = WRONG[name]
    act(folder)
    status, error = unpack(str(folder.path))
    assert (status, error.count("\n")) == (1, 1)
    assert text in error
    assert os.listdir(tmp_path) == ["app"]


def test_an_unknown_user_leaves_nothing(tmp_path: Path, unpack: Unpack) -> None:
    folder = LayoutFolder(tmp_path / "app", *LAYERS, User="no-such-user")
    (tmp_path / "bundle").mkdir()
    status, error = unpack(str(folder.path))
    assert status == 1
    assert "unable to find user no-such-user" in error
    assert os.listdir(tmp_path / "bundle") == []


def test_a_bundle_is_not_written_over(tmp_path: Path, unpack: Unpack) -> None:
    folder = LayoutFolder(tmp_path / "app", *LAYERS)
    assert unpack(str(folder.path))[0] == 0
    before = listing(tmp_path / "bundle")
    status, error = unpack(str(folder.path))
    assert (status, "already there" in error) == (1, True)
    assert listing(tmp_path / "bundle") == before


@pytest.mark.parametrize("compress", [gzip.compress, bytes], ids=["compressed", "plain"])
def test_an_oci_archive_is_unpacked_too(
    tmp_path: Path, unpack: Unpack, compress: Callable[[bytes], bytes]
) -> None:
    folder = LayoutFolder(tmp_path / "app", *LAYERS)
    subprocess.run(["tar", "-C", folder.path, "-cf", tmp_path / "app.tar", "."], check=True)
    data = (tmp_path / "app.tar").read_bytes()
    (tmp_path / "app.tar").write_bytes(compress(data))
    assert unpack(f"{tmp_path}/app.tar:test") == (0, "")
    assert (tmp_path / "bundle/rootfs/new").read_bytes() == b"new"


def test_what_docker_saves_is_unpacked_too(
    tmp_path: Path, unpack: Unpack, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = LayoutFolder(tmp_path / "app", *LAYERS)
    for name in ("one", "two"):
        take(str(tmp_path / "store"), name, FolderSource(folder))
    for names in (["one"], ["one", "two"]):
        archive = str(tmp_path / f"{len(names)}.tar")
        assert cli.main(["--store", str(tmp_path / "store"), "save", "-o", archive, *names]) == 0
    capfd.readouterr()
    assert "holds 2 images" in unpack(str(tmp_path / "2.tar"))[1]
    assert unpack(str(tmp_path / "1.tar")) == (0, "")
    assert (tmp_path / "bundle/rootfs/new").read_bytes() == b"new"
