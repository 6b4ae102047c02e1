"""`minirun save`, `tag`, `rmi`: read by skopeo and podman, always the same, nothing half-made."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from engines.clients.cell import remove_cgroups
from engines.clients.test_podman import LIMITS
from minirun.core.rootfs.tree import remove_tree
from required import installed
from rootfs_tools import catalogue
from tests.rootfs_tools.cli.test_load import LAYERS, Run, run, shown, skopeo
from tests.rootfs_tools.layouts import LayoutFolder, listing, member, tar

__all__ = ["run"]
FORMS = {"docker-archive": "docker-archive", "oci-archive": "oci-archive", "oci-dir": "oci"}


@pytest.fixture
def images(run: Run, tmp_path: Path) -> tuple[str, ...]:
    """Two images: one that came from elsewhere, one that was made here."""
    folder = LayoutFolder(tmp_path / "layout", *LAYERS, Cmd=["/c"], Env=["A=1"])
    assert run("load", "-i", f"{folder.path}:test", "team/loaded:1")[0] == 0
    (tmp_path / "made.tar").write_bytes(tar(member("a", content=b"x", uid=9), member("b")))
    assert run("images", "import", "made", str(tmp_path / "made.tar"))[0] == 0
    return "team/loaded:1", "made:latest"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [0, 1], ids=["loaded", "made"])
def test_skopeo_reads_it(
    run: Run, tmp_path: Path, images: tuple[str, ...], form: str, number: int
) -> None:
    name = images[number]
    assert run("save", "-o", f"{tmp_path}/out", "--format", form, name) == (0, "", "")
    skopeo(f"{FORMS[form]}:{tmp_path}/out", f"oci:{tmp_path}/theirs:x")
    assert run("load", "-i", f"{tmp_path}/theirs:x", "again")[0] == 0
    assert shown(tmp_path, "again") == shown(tmp_path, name)


def test_saved_twice_it_is_the_same(run: Run, tmp_path: Path, images: tuple[str, ...]) -> None:
    for form in ("docker-archive", "oci-archive"):
        for name in ("one", "two"):
            assert run("save", "-o", f"{tmp_path}/{name}", "--format", form, *images)[0] == 0
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert run("load", "-q", "-i", f"{tmp_path}/one")[1].split() == list(images)


@pytest.fixture
def short() -> Iterator[str]:
    """A folder with a short name: podman takes no longer runroot."""
    path = tempfile.mkdtemp(prefix="minirun-podman-")
    yield path
    remove_cgroups(f"/{os.path.basename(path)}")
    remove_tree(path)


def test_podman_runs_it(run: Run, tmp_path: Path, short: str) -> None:
    podman = [installed("podman"), "--root", f"{short}/p", "--runroot", f"{short}/r"]
    podman += ["--storage-driver=vfs", "--tmpdir", f"{short}/t", "--events-backend=none"]
    podman += ["--cgroup-manager=cgroupfs", "--runtime", installed("runc")]
    parent = f"/{os.path.basename(short)}"
    shell = Path(installed("busybox")).read_bytes()
    layer = tar(member("bin/busybox", content=shell, mode=0o755))
    top = tar(member("bin/hello", content=b"hello\n"))
    folder = LayoutFolder(tmp_path / "two", layer, top, Cmd=["/bin/busybox", "cat", "/bin/hello"])
    assert run("load", "-i", f"{folder.path}:test", "app:1")[0] == 0
    assert run("save", "-o", f"{tmp_path}/app.tar", "app:1")[0] == 0
    for words, out in (
        (["load", "-q", "-i", f"{tmp_path}/app.tar"], "app:1"),
        (["run", "--rm", "--net=none", f"--cgroup-parent={parent}", *LIMITS, "app:1"],
         "hello\n"),
    ):  # fmt: skip
        done = subprocess.run([*podman, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert out in done.stdout


def test_a_tag_is_a_second_name(run: Run, tmp_path: Path, images: tuple[str, ...]) -> None:
    for name in images:
        assert run("tag", name, "other") == (0, "", "")
        assert shown(tmp_path, "other") == shown(tmp_path, name)
        assert run("rmi", "other") == (0, "Untagged: other:latest\n", "")
        assert [listing(Path(x)) for x in catalogue.resolve(f"{tmp_path}/store", name).layers]
    status, _, error = run("rmi", "other")
    assert (status, error.count("No such image")) == (1, 1)


@pytest.mark.parametrize(
    ("words", "status"),
    [(("save", "-o", "{}/x", "none"), 1), (("save", "-o", "{}/x", "--format", "rar", "a"), 125),
     (("save", "-o", "{}/none/x", "team/loaded:1"), 1), (("save",), 1), (("tag", "a"), 1),
     (("tag", "none", "b"), 1), (("save", "-o", "{}/layout", "--format", "oci-dir",
     "made"), 1)],
)  # fmt: skip
def test_what_cannot_be_saved_leaves_nothing(
    run: Run, tmp_path: Path, images: tuple[str, ...], words: tuple[str, ...], status: int
) -> None:
    before = sorted(os.listdir(tmp_path))
    found, out, error = run(*(word.format(tmp_path) for word in words))
    assert (found, out, error.count("\n")) == (status, "", 1)
    assert sorted({*os.listdir(tmp_path)} - {"root"}) == [x for x in before if x != "root"]


def test_a_reader_that_goes_away_is_no_error(
    minirun: Program, tmp_path: Path, images: tuple[str, ...]
) -> None:
    """As with any other command: SIGPIPE's status, and no word."""
    ours, theirs = os.pipe()
    os.close(ours)
    words = [minirun.path, "--store", f"{tmp_path}/store", "save", *images]
    done = subprocess.run(words, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")
