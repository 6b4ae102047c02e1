"""`minirun images`, through the program's own front door."""

import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from layers import layer_of
from minirun import cli
from minirun.core.keeping import state
from records import whole
from rootfs_tools import catalogue

Run = Callable[..., tuple[int, str, str]]
NAMED = ("--format", "{{.Repository}}:{{.Tag}}")


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `minirun --store … images ARGS`; return (exit status, stdout, stderr)."""

    def call(*args: str) -> tuple[int, str, str]:
        folders = ["--store", str(tmp_path / "store"), "--root", str(tmp_path / "root")]
        capfd.readouterr()
        status = cli.main([*folders, "images", *args])
        return status, *capfd.readouterr()

    return call


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "app.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("bin/sh")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    return str(path)


def test_an_empty_store_is_no_error(run: Run) -> None:
    assert run() == (0, "REPOSITORY   TAG   IMAGE ID   CREATED   SIZE   ORIGIN\n", "")
    assert run("-q") == (0, "", "")
    assert run("--json") == (0, "[]\n", "")
    assert run("--verify") == (0, "", "")


def test_build_list_verify_remove(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("build", "busybox")
    assert status == 0
    assert out.startswith("busybox:latest  sha256:")
    _, out, _ = run()
    header, row = out.splitlines()
    assert re.split("  +", header) == [
        "REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE", "ORIGIN"
    ]  # fmt: skip
    assert row.split()[:2] == ["busybox", "latest"]
    assert "busybox-static 1:" in row
    digest = catalogue.resolve(str(tmp_path / "store"), "busybox").digest
    (details,) = json.loads(run("--json")[1])
    assert row.split()[2] == details["id"].split(":")[1][:12]
    assert row.index("busybox-static") == header.index("ORIGIN")
    assert run("-q", "busybox")[1] == row.split()[2] + "\n"
    assert run("-q", "--no-trunc")[1] == f"{details['id']}\n"
    assert re.split("  +", run("--digests")[1].splitlines()[1])[2] == digest
    assert details["digest"] == digest
    assert run("--verify") == (0, "busybox:latest: intact\n", "")
    (layer_of("busybox", tmp_path / "store") / "new").touch()
    status, out, _ = run("--verify")
    assert status == 1
    assert out.startswith("busybox:latest: layer sha256:")
    assert run("rm", "busybox") == (0, "removed busybox:latest\n", "")
    assert run("-q")[1] == ""


def test_import_a_file(run: Run, archive: str, tmp_path: Path) -> None:
    status, out, _ = run("import", "team/app:1", archive)
    assert status == 0
    assert "imported from app.tar" in out
    image = catalogue.resolve(str(tmp_path / "store"), "team/app:1")
    assert Path(image.layers[0], "bin/sh").read_text() == "hello"


def test_an_image_in_use_stays(run: Run, archive: str, tmp_path: Path) -> None:
    run("import", "app", archive)
    container = tmp_path / "root" / "c1"
    container.mkdir(parents=True)
    record = whole(str(container), status=state.STOPPED, image="app:latest", init=None, pid=0)
    state.save(str(container), record)
    assert run("rm", "app")[0] == 1
    assert run(*NAMED)[1] == "app:latest\n"
    (container / "state.json").unlink()
    assert run("rm", "docker.io/library/app")[0] == 0


def test_all_that_can_be_removed_is_removed(run: Run, archive: str) -> None:
    for name in ("one", "two"):
        run("import", name, archive)
    status, out, error = run("rm", "none", "one", "None", "two", "nothing")
    assert (status, out) == (1, "removed one:latest\nremoved two:latest\n")
    assert [line.split()[-1] for line in error.splitlines()] == ["them)", "lowercase", "them)"]


def test_a_repository_is_all_of_its_tags(run: Run, archive: str) -> None:
    for name in ("app:1", "team/app:2", "app", "apps"):
        run("import", name, archive)
    assert run(*NAMED, "app")[1] == "app:1\napp:latest\n"
    assert run(*NAMED, "docker.io/team/app")[1] == "team/app:2\n"
    assert run(*NAMED, "team/*")[1] == "team/app:2\n" and run(*NAMED, "a*:1")[1] == "app:1\n"


def test_the_newest_is_the_first(run: Run, archive: str, tmp_path: Path) -> None:
    times = {"old": "2024-05-01T00:00:00Z", "new": "2026-05-01T00:00:00+02:00", "none": ""}
    for name, created in times.items():
        run("import", name, archive)
        (file,) = tmp_path.rglob(f"images/{name}/image.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"created": created}))
    assert run(*NAMED)[1] == "new:latest\nold:latest\nnone:latest\n"


def test_an_image_is_removed_by_its_id(run: Run, archive: str) -> None:
    run("import", "one", archive)
    digest = json.loads(run("--json")[1])[0]["digest"]
    run("import", "two", archive)
    status, _, error = run("rm", digest[7:19])
    assert status == 1 and "one:latest, two:latest" in error
    run("rm", "two")
    assert run("rm", digest) == (0, "removed one:latest\n", "")


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["--nosuch"], 125), (["build"], 1), (["build", "alpine"], 1),
        (["import", "app"], 1), (["import", "app", "/nosuch"], 125), (["rm"], 1),
        (["rm", "nosuch"], 1), (["rm", "../../etc"], 1),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(run: Run, args: list[str], status: int) -> None:
    found, _, error = run(*args)
    assert found == status
    assert error.startswith("minirun: ")
    assert error.count("\n") == 1


def test_dockers_filters_and_templates(run: Run, archive: str) -> None:
    for name in ("app:1", "app:2", "other/app:1"):
        assert run("import", name, archive)[0] == 0
    assert run(*NAMED, "--filter", "reference=app")[1] == "app:1\napp:2\n"
    assert run(*NAMED, "--filter", "reference=*/app:1")[1] == "other/app:1\n"
    assert run("-q", "--filter", "reference=nosuch*")[1] == ""
    assert run("-q", "-f", "dangling=true")[1] == ""
    assert run("-q", "-f", "label=nosuch")[1] == ""
    assert run("-q", "-f", "before=app:1")[0] == 0
    assert run("--filter", "colour=red")[0] == 1
    form = "{{.Repository}}:{{.Tag}} {{.Size}}"
    assert run("--format", form, "app:2") == (0, "app:2 5B\n", "")
    (row,) = run("--format", "table {{.ID}}\t{{.Digest}}", "--no-trunc", "app:1")[1].splitlines()[
        1:
    ]
    assert all(word.startswith("sha256:") and len(word) == 71 for word in row.split())
    assert json.loads(run("--format", "json", "other/app")[1])["Repository"] == "other/app"
    assert run("--digests", "app:1")[1].splitlines()[1].split()[2].startswith("sha256:")


def test_rmi_force(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = ["--store", str(tmp_path / "store")]
    assert cli.main([*folder, "rmi", "nosuch"]) == 1
    assert cli.main([*folder, "rmi", "--force", "nosuch"]) == 0
    assert capfd.readouterr().err.count("No such image: nosuch:latest") == 2


def test_image_prune(run: Run, archive: str, tmp_path: Path) -> None:
    whole = ["--store", str(tmp_path / "store"), "--root", str(tmp_path / "root"), "image", "prune"]
    assert run("import", "app:1", archive)[0] == 0
    assert cli.main([*whole, "--force"]) == 0
    assert run(*NAMED)[1] == "app:1\n"
    assert cli.main([*whole, "--force", "--all"]) == 0
    assert run("-q")[1] == ""
