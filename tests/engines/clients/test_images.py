"""Images from and for the real engines: what docker, podman and buildah write is read, and they run
what minirun saved. What an archive holds is told by umoci, after skopeo has made a layout of it."""

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.clients.engine import Docker, Dockerlike, Podman, program
from required import installed
from rootfs_tools import catalogue
from tests.rootfs_tools.cli.test_load import Run, run, skopeo
from tests.rootfs_tools.layouts import LayoutFolder, listing, member, tar, umoci
from tests.rootfs_tools.test_unpack_layer import shown, without_times

__all__ = ["run"]
D, H = tarfile.DIRTYPE, tarfile.LNKTYPE
FILE = """FROM base:1
RUN rm /etc/gone && rm -r /deep && mkdir /deep && echo new > /deep/new && ln /deep/new /hard \\
 && ln -s /etc/kept /link && chmod 4755 /deep/new && echo changed > /etc/kept && chown 7:8 /etc
COPY file /copied/by/builder
ENV A=b
LABEL one=1
VOLUME /vol
STOPSIGNAL SIGINT
HEALTHCHECK --interval=7s CMD true
CMD ["cat", "/deep/new"]
"""


def layers() -> tuple[bytes, bytes]:
    shell = Path(installed("busybox")).read_bytes()
    names = ("sh", "rm", "mkdir", "ln", "chmod", "chown", "cat", "ls")
    return (
        tar(member("bin/", D), member("bin/busybox", content=shell, mode=0o755),
            *(member(f"bin/{name}", H, linkname="bin/busybox", mode=0o755) for name in names),
            member("etc/", D), member("etc/gone"), member("etc/kept", content=b"k", uid=3),
            member("deep/", D), member("deep/old"), member("tmp/", D, mode=0o1777)),
        tar(member("deep/.wh.old"), member("hello", content=b"hello from minirun\n")),
    )  # fmt: skip


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> Path:
    """The image base:1 as minirun saves it for docker and podman."""
    folder = LayoutFolder(
        tmp_path / "base",
        *layers(),
        history=True,
        Cmd=["cat", "/hello"],
        Env=["PATH=/bin"],
        User="7:8",
    )
    assert run("load", "-i", f"{folder.path}:test", "base:1")[0] == 0
    assert run("save", "-o", str(tmp_path / "base.tar"), "base:1") == (0, "", "")
    return tmp_path / "base.tar"


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, command: str) -> Iterator[Dockerlike]:
    found: Dockerlike = (Docker if request.param == "docker" else Podman)("runc", command)
    yield found
    found.clean()
    found.close()


def parent(engine: Dockerlike) -> tuple[str, ...]:
    return (f"--cgroup-parent={engine.cell.parent}",) if isinstance(engine, Podman) else ()


def is_umocis(run: Run, command: str, tmp_path: Path, form: str, path: Path, name: str) -> None:
    """Load an archive or layout; its tree is the one that skopeo and umoci make of it."""
    words = ["load", "-q", "-i", f"{path}:{name}" if form == "oci" else str(path)]
    assert run(*words, "taken:1") == (0, "taken:1\n", "")
    layout = tmp_path / f"theirs-{form}"
    skopeo(f"{form}:{path}{f':{name}' if form == 'oci' else ''}", f"oci:{layout}:test")
    argv = ["umoci", "unpack", "--image", f"{layout}:test", str(tmp_path / f"tree-{form}")]
    subprocess.run(argv, check=True, capture_output=True)
    image = catalogue.resolve(str(tmp_path / "store"), "taken:1")
    found = without_times(shown(image.layers, tmp_path / f"own-{form}"), (".",))
    assert found == without_times(listing(tmp_path / f"tree-{form}/rootfs"), (".",))
    assert "etc/gone" not in found and "deep/old" not in found
    assert found["hard"][0] == "-rwsr-xr-x" and found["etc/kept"][1] == 3
    assert (image.cmd, "A=b" in image.env) == (("cat", "/deep/new"), True)
    declared = {key: value for key, value in image.declared.items() if key != "healthcheck"}
    labels = declared["labels"]
    assert declared == {"volumes": ["/vol"], "stop_signal": "SIGINT", "labels": labels}
    assert labels["one"] == "1"
    if "healthcheck" in image.declared:  # OCI's form has none
        assert image.declared["healthcheck"]["Interval"] == 7 * 10**9
    assert ("healthcheck" in image.declared) == (form == "docker-archive")
    folders = ("--store", str(tmp_path / "store"), "--root", str(tmp_path / "root"))
    argv = [command, *folders, "run", "--rm", "taken:1"]  # a process of its own: it takes signals
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_minirun_saved_runs_and_what_is_built_on_it_is_read(
    run: Run, command: str, tmp_path: Path, saved: Path, engine: Dockerlike
) -> None:
    installed("umoci")
    assert "base:1" in engine("load", "--input", str(saved))
    words = ("run", "--rm", "--network=none", *parent(engine))
    assert engine(*words, "base:1") == "hello from minirun"
    assert engine(*words, "base:1", "ls", "/deep", "/etc/gone") == "/etc/gone\n\n/deep:"
    folder = engine.home / "context"
    folder.mkdir()
    (folder / "file").write_text("copied")
    (folder / "Dockerfile").write_text(FILE.replace("FROM base:1", "FROM base:1\nUSER 0"))
    name, out = "test.local/built:1", engine.home
    if isinstance(engine, Docker):
        engine("build", "--network=none", f"--tag={name}", str(folder))
        engine("save", "--output", f"{out}/built.tar", name)
        is_umocis(run, command, tmp_path, "docker-archive", out / "built.tar", name)
        return
    flags = ("--network=none", "--isolation=oci", f"--runtime={program('runc')}")
    engine("build", *flags, "--format=docker", f"--tag={name}", str(folder))
    engine("save", "--format=docker-archive", "--output", f"{out}/built.tar", name)
    is_umocis(run, command, tmp_path, "docker-archive", out / "built.tar", name)
    engine("save", "--format=oci-archive", "--output", f"{out}/built.oci", name)
    is_umocis(run, command, tmp_path, "oci-archive", out / "built.oci", name)
    storage = engine.client[1:5]
    assert storage[0] == "--root" and storage[2] == "--runroot"
    buildah = (program("buildah"), *storage, "--storage-driver", "overlay")
    done = engine.cell.run(*buildah, "push", "--quiet", name, f"oci:{out}/pushed:built")
    assert done.returncode == 0, done.stderr
    is_umocis(run, command, tmp_path, "oci", out / "pushed", "built")


def test_what_umoci_writes_is_read(run: Run, tmp_path: Path) -> None:
    """umoci changes an image in place: a layer of what differs, with its whiteouts."""
    folder = LayoutFolder(tmp_path / "layout", *layers(), Cmd=["cat", "/hello"])
    tree = umoci(folder, tmp_path / "bundle")
    (tree / "hello").write_text("by umoci\n")
    (tree / "etc/gone").unlink()
    (tree / "new").mkdir(mode=0o750)
    argv = ["umoci", "repack", "--image", f"{folder.path}:more", str(tmp_path / "bundle")]
    subprocess.run(argv, check=True, capture_output=True)
    wanted = listing(tree, times=False)  # a repacked layer has whole seconds
    assert run("load", "-q", "-i", f"{folder.path}:more", "app:1")[0] == 0
    image = catalogue.resolve(str(tmp_path / "store"), "app:1")
    assert len(image.layers) == 3
    found = shown(image.layers, tmp_path / "own")
    assert {name: (*row[:-1], 0) for name, row in found.items()} == wanted
