"""`minirun commit`: an image of what a container has written."""

from __future__ import annotations

import json
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import STORE, Program
from minirun.core.keeping import state

SHELL = ("busybox", "sh", "-c")


@pytest.fixture(scope="module")
def archive(command: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commit") / "busybox.tar"
    subprocess.run([command, "--store", STORE, "save", "-o", str(path), "busybox"], check=True)
    return path


@pytest.fixture
def program(minirun: Program, archive: Path, tmp_path: Path) -> Iterator[Program]:
    found = minirun.at(tmp_path / "store")
    assert found("load", "-i", str(archive)).returncode == 0
    yield found
    found.clean()


def ok(program: Program, *words: str) -> str:
    done = program(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


WRITE = "echo new > /new; rm /etc/group; mkdir /x; echo v > /vol/v; chown 5:6 /new"


def config(program: Program, name: str) -> dict[str, object]:
    (row,) = json.loads(ok(program, "image", "inspect", name))
    found: dict[str, object] = row["Config"]
    return found


@pytest.mark.parametrize("ended", [True, False])
def test_what_was_written(program: Program, ended: bool) -> None:
    script = WRITE if ended else f"{WRITE}; sleep 600"
    words = ("run", "--name", "one", "-v", "/vol", *(() if ended else ("-d",)))
    ok(program, *words, *SHELL, script)
    if not ended:
        while "new" not in ok(program, "exec", "one", "cat", "/vol/../new"):
            time.sleep(0.05)
    digest = ok(program, "commit", "-m", "a message", "-a", "me", "one", "mine:1").strip()
    assert digest.startswith("sha256:") and len(digest) == 71
    look = "cat /new; stat -c %u:%g /new; ls -d /x; ls /etc/group /vol"
    done = program("run", "--rm", "mine:1", "sh", "-c", look)
    assert done.stdout == "new\n5:6\n/x\n" and done.stderr.count("No such file") == 2
    shown = ok(program, "history", "mine:1").splitlines()
    assert "a message" in shown[1] and "sh -c" in shown[1] and len(shown) == 3
    if not ended:
        assert '"status": "running"' in ok(program, "state", "one")


def test_how_the_container_was_started(program: Program) -> None:
    flags = ("-e", "A=b", "-w", "/tmp", "--user", "7:8")
    ok(program, "run", "--name", "one", *flags, "busybox", "sh", "-c", "echo $A; pwd; id -u")
    ok(program, "commit", "one", "mine")
    assert ok(program, "run", "--rm", "mine") == "b\n/tmp\n7\n"
    found = config(program, "mine")
    assert found["Cmd"] == ["sh", "-c", "echo $A; pwd; id -u"] and found["User"] == "7:8"
    assert [text.partition("=")[0] for text in found["Env"]] == ["PATH", "A"]


def test_changes(program: Program) -> None:
    ok(program, "run", "--name", "one", "busybox", "true")
    words = (
        "ENV X=y Z='a b'", "LABEL a=b", "CMD echo $X", "EXPOSE 80 90/udp", "VOLUME /data",
        "WORKDIR /tmp", "USER 5", "STOPSIGNAL SIGINT", 'ENTRYPOINT ["sh", "-c"]',
        'cmd ["env; id -u; pwd"]',
    )  # fmt: skip
    ok(program, "commit", *(word for text in words for word in ("-c", text)), "one", "mine")
    found = config(program, "mine")
    assert found["Entrypoint"] == ["sh", "-c"] and found["Cmd"] == ["env; id -u; pwd"]
    assert found["Labels"] == {"a": "b"} and found["StopSignal"] == "SIGINT"
    assert set(found["ExposedPorts"]) == {"80/tcp", "90/udp"} and set(found["Volumes"]) == {"/data"}
    lines = ok(program, "run", "--rm", "mine").split("\n")
    assert {"X=y", "Z=a b", "5", "/tmp"} <= set(lines)


def test_a_commit_of_a_commit(program: Program) -> None:
    for number in range(3):
        image = "busybox" if not number else f"mine:{number}"
        ok(program, "run", "--name", f"c{number}", image, "sh", "-c", f"echo > /f{number}")
        ok(program, "commit", f"c{number}", f"mine:{number + 1}")
    assert ok(program, "run", "--rm", "mine:3", "sh", "-c", "ls /f*") == "/f0\n/f1\n/f2\n"
    assert len(ok(program, "history", "mine:3").splitlines()) == 5


def test_the_archive_of_it(program: Program, tmp_path: Path) -> None:
    """docker loads it, and finds the layer: whiteouts as image-spec has them."""
    ok(program, "run", "--name", "one", *SHELL, "rm /etc/group; echo > /new")
    ok(program, "commit", "one", "mine")
    ok(program, "save", "-o", str(tmp_path / "mine.tar"), "mine")
    with tarfile.open(tmp_path / "mine.tar") as archive:
        (row,) = json.load(archive.extractfile("manifest.json"))
        assert row["RepoTags"] == ["mine:latest"] and len(row["Layers"]) == 2
        with tarfile.open(fileobj=archive.extractfile(row["Layers"][-1])) as layer:
            assert layer.getnames() == ["etc", "etc/.wh.group", "new"]


def test_without_a_name(program: Program) -> None:
    ok(program, "run", "--name", "one", *SHELL, "echo > /new")
    ok(program, "commit", "one")
    assert "localhost/commit" in ok(program, "images")


def test_a_user_namespace(reachable: Program, archive: Path) -> None:
    found = reachable.at(f"{reachable.root.parent}/store")
    ok(found, "load", "-i", str(archive))
    maps = ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")
    ok(found, "run", "--name", "one", *maps, *SHELL, "echo > /new; chown 3 /new")
    ok(found, "commit", "one", "mine")
    assert ok(found, "run", "--rm", "mine", "stat", "-c", "%u", "/new") == "3\n"
    found("delete", "--force", "one")


def test_a_killed_commit_lets_the_container_go_on(program: Program) -> None:
    write = "dd if=/dev/urandom of=/big bs=1M count=100 2>/dev/null; echo ready; sleep 600"
    ok(program, "run", "-d", "--name", "one", *SHELL, write)
    while "ready" not in ok(program, "logs", "one"):
        time.sleep(0.05)
    running = program.start("commit", "one", "mine")
    end = time.monotonic() + 20
    record = json.loads((program.directory("one") / "state.json").read_text())
    while not state.is_frozen(record["cgroup"]):
        assert running.poll() is None and time.monotonic() < end
    running.kill()
    running.communicate(timeout=60)
    end = time.monotonic() + 10
    while "running" not in program("state", "one").stdout:
        assert time.monotonic() < end
    assert program("image", "inspect", "mine").returncode != 0
    ok(program, "commit", "--pause=false", "one", "mine")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), '"minirun commit" requires at least 1 and at most 2 arguments'),
        (("nosuch1",), "container 'nosuch1' does not exist"),
        (("one", "UPPER"), "must be lowercase"),
        (("-c", "RUN true", "one"), "RUN is not a valid change command (CMD, ENTRYPOINT"),
        (("-c", "FOO bar", "one"), "invalid --change 'FOO bar': unknown instruction: FOO"),
        (("-c", "ENV", "one"), "invalid --change 'ENV': ENV requires at least one argument"),
        (("-c", "EXPOSE 99999", "one"), "invalid containerPort: 99999"),
        (("-c", "STOPSIGNAL NO", "one"), "Invalid signal: NO"),
    ],
)
def test_a_wrong_word_is_one_line(program: Program, words: tuple[str, ...], text: str) -> None:
    ok(program, "run", "--name", "one", "busybox", "true")
    done = program("commit", *words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert text in done.stderr


def test_an_image_that_is_gone(program: Program) -> None:
    ok(program, "run", "--name", "one", "busybox", "true")
    for path in Path(program.store).glob("images/busybox*"):
        path.rename(path.with_name("other"))
    done = program("commit", "one", "mine")
    assert done.returncode == 1 and "is gone, or another now" in done.stderr
