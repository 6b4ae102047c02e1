"""`minirun image inspect`, `image diff`, `diff CONTAINER`: beside skopeo, podman and the kernel."""

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from conftest import Program
from layers import layer_of
from required import installed
from rootfs_tools.compare import compared
from tests.rootfs_tools.cli.test_load import Run, run
from tests.rootfs_tools.layouts import LayoutFolder, member, tar

__all__ = ["run"]
D = tarfile.DIRTYPE
LAYERS = (
    tar(member("etc/", D), member("etc/a", content=b"a"), member("etc/b"), member("old/", D),
        member("old/x"), member("same", content=b"s")),
    tar(member("etc/a", content=b"b"), member("etc/.wh.b"), member(".wh.old"), member("new/", D),
        member("new/\x1b[1m"), member("same", content=b"s", mtime=5)),
    tar(member("etc/a", content=b"b", mode=0o600), member("new", content=b"file")),
)  # fmt: skip


@pytest.fixture
def app(run: Run, tmp_path: Path) -> LayoutFolder:
    folder = LayoutFolder(tmp_path / "layout", *LAYERS, Cmd=["/c"], Env=["A=1"], Labels={"l": "v"})
    assert run("load", "-i", f"{folder.path}:test", "team/app:1")[0] == 0
    return folder


def test_inspect_is_what_skopeo_says(run: Run, app: LayoutFolder) -> None:
    argv = [installed("skopeo"), "inspect", f"oci:{app.path}:test"]
    theirs = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert run("tag", "team/app:1", "second")[0] == 0
    status, out, error = run("image", "inspect", "team/app:1", "second")
    assert (status, error) == (0, "")
    found, second = json.loads(out)
    assert found == second
    assert found["Id"] == app.manifest["config"]["digest"]
    assert found["RepoTags"] == ["second:latest", "team/app:1"]
    assert found["RepoDigests"] == [f"{n}@{theirs['Digest']}" for n in ("second", "team/app")]
    assert found["Config"] == {"Cmd": ["/c"], "Env": ["A=1"], "Labels": {"l": "v"}}
    assert (found["Os"], found["Architecture"]) == (theirs["Os"], theirs["Architecture"])
    assert len(found["RootFS"]["Layers"]) == len(found["Directories"]) == 3
    assert found["Size"] == 1 + 1 + 1 + 1 + 1 + 4


def test_of_an_image_that_was_made_here(minirun: Program) -> None:
    done = minirun("image", "inspect", "busybox")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads(done.stdout)
    assert found["RepoTags"] == ["busybox:latest"]
    assert all(name.startswith("busybox@sha256:") for name in found["RepoDigests"])
    assert found["Annotations"]["org.opencontainers.image.title"] == "busybox"
    assert found["Id"].startswith("sha256:") and found["Os"] == "linux" and found["Size"] > 0


def test_diff_of_layers_and_images(run: Run, app: LayoutFolder) -> None:
    first = ["C /etc/a", "D /etc/b", "A /new", "A /new/\\x1b[1m", "D /old"]
    assert run("image", "diff", "team/app:1#0", "team/app:1#1")[1].splitlines() == first
    assert run("image", "diff", "team/app:1#1", "team/app:1#2")[1].splitlines() == [
        "C /etc/a", "C /new",
    ]  # fmt: skip
    whole = run("image", "diff", "team/app:1#0", "team/app:1")[1].splitlines()
    assert whole == ["C /etc/a", "D /etc/b", "A /new", "D /old"]
    assert run("image", "diff", "team/app:1", "team/app:1") == (0, "", "")
    rows = json.loads(run("image", "diff", "--json", "team/app:1#2", "team/app:1#0")[1])
    assert [(row["kind"], row["path"]) for row in rows] == [
        ("C", "/etc/a"), ("A", "/etc/b"), ("D", "/new"), ("A", "/old"), ("A", "/old/x"),
    ]  # fmt: skip


def test_wrong_words_are_one_line(run: Run, app: LayoutFolder) -> None:
    for words, status in (
        (("image", "inspect"), 1),
        (("image", "diff", "team/app:1"), 1), (("image", "diff", "team/app:1#3", "x"), 1),
        (("image", "diff", "team/app:1#x", "team/app:1"), 1), (("diff", "none"), 1),
    ):  # fmt: skip
        found, out, error = run(*words)
        assert (found, out, error.count("\n")) == (status, "", 1), words


def test_of_several_images_those_that_are_there_are_printed(run: Run, app: LayoutFolder) -> None:
    status, out, error = run("image", "inspect", "team/app:1", "none", "--format", "{{.Os}}")
    assert (status, out, error.count("\n")) == (1, "linux\n", 1)


CHANGES = """rm /etc/group; rm -r /home; mkdir /home; echo x > /home/new; echo y >> /etc/passwd
mkdir -p /deep/er; ln -s /etc /link; rm -r /deep/er; touch /gone; rm /gone"""


def test_what_a_container_changed(minirun: Program, tmp_path: Path) -> None:
    base = layer_of("busybox")
    homes = {f"D /home/{path.name}" for path in (base / "home").glob("*")}
    done = minirun("run", "--name", "c", "busybox", "sh", "-c", CHANGES)
    assert done.returncode == 0, done.stderr
    found = minirun("diff", "c")
    assert (found.returncode, found.stderr) == (0, "")
    lines = set(found.stdout.splitlines())
    expected = {"C /etc", "D /etc/group", "C /etc/passwd", "A /deep", "A /link", "A /home/new"}
    assert expected | homes <= lines
    assert not [line for line in lines if "gone" in line or "/er" in line]
    assert ("C /home" in lines) == (base / "home").is_dir()
    kinds = {row["path"]: row["kind"] for row in json.loads(minirun("diff", "--json", "c").stdout)}
    assert kinds["/link"] == "A"


def test_inspect_shows_each_layer(run: Run, app: LayoutFolder, tmp_path: Path) -> None:
    from rootfs_tools.catalogue import resolve
    from rootfs_tools.history import origins

    store = f"{tmp_path}/store"
    layers = resolve(store, "team/app:1").layers
    rows = origins(store, "team/app:1", layers)
    assert [row.size for row in rows] == [2, 2, 5]
    assert {row.created_by for row in rows} == {"layout"} or all(row.created_by for row in rows)
    assert run("rmi", "team/app:1")[0] == 0
    assert [row[1:] for row in origins(store, "team/app:1", layers)] == [(2, ""), (2, ""), (5, "")]
    assert list(compared(layers[:1], layers[:1])) == []
