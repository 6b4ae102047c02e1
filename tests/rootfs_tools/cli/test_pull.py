"""`minirun pull`, and a run whose image is not here: a real registry stands for docker.io."""

import os
import pty
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from tests.rootfs_tools.registry import real
from tests.rootfs_tools.registry.lying import liar, reply

BUSYBOX = Path("/bin/busybox").read_bytes()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("registry")
    layers = {"bin/sh": BUSYBOX, "bin/cat": BUSYBOX, "bin/ls": BUSYBOX}, {"who": b"pulled\n"}
    layout = real.layout(folder / "layout", *layers, Cmd=["/bin/cat", "/who"])
    with real.registry(folder / "r") as found:
        for name in ("library/ubuntu:latest", "library/ubuntu:24.04", "team/app:1"):
            real.fill(found, name, layout, "--dest-tls-verify=false")
        yield found


@pytest.fixture
def own(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    """The program with a store of its own, and no settings but the test's."""
    real.no_settings(tmp_path, monkeypatch)
    program = Program(command, store=tmp_path / "store")
    yield program
    program.clean()


def test_a_run_pulls_what_is_not_here(own: Program, host: str, tmp_path: Path) -> None:
    real.as_docker_io(host, tmp_path)
    done = own("run", "--rm", "ubuntu")
    assert (done.returncode, done.stdout) == (0, "pulled\n"), done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "minirun: Unable to find image 'ubuntu:latest' locally"
    assert sum(line.endswith(": Pull complete") for line in lines) == 2
    done = own("run", "--rm", "ubuntu")
    assert (done.stdout, done.stderr) == ("pulled\n", "")


def test_gpus_in_the_pulled_image(own: Program, host: str, tmp_path: Path) -> None:
    real.as_docker_io(host, tmp_path)
    words = ("run", "--rm", "--gpu-driver", "simulated", "--gpus", "0,1", "ubuntu:24.04")
    done = own(*words, "ls", "/dev/nvidia0", "/dev/nvidia1")
    assert (done.returncode, done.stdout) == (0, "/dev/nvidia0\n/dev/nvidia1\n"), done.stderr


def test_pull(own: Program, host: str) -> None:
    done = own("pull", f"{host}/team/app:1")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{host}/team/app:1  sha256:")
    assert "Download complete" in done.stderr
    assert own("pull", "-q", f"{host}/team/app:1").stdout == f"{host}/team/app:1\n"
    done = own("pull", "--platform", "linux/s390x", f"{host}/team/app:1")
    assert done.returncode == 1
    assert "no matching manifest for linux/s390x" in done.stderr
    done = own("pull", f"{host}/team/ap:1")
    assert done.returncode == 1
    assert f"(did you mean {host}/team/app:1?)" in done.stderr


def test_bars_on_a_terminal(own: Program, host: str) -> None:
    master, slave = pty.openpty()
    argv = own.argv("pull", f"{host}/team/app:1")
    done = subprocess.run(argv, stderr=slave, stdout=subprocess.PIPE, text=True, check=True,
                          env=os.environ | {"TERM": "xterm", "COLUMNS": "100"})  # fmt: skip
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError:
        pass  # EIO: the terminal's other side is closed
    os.close(master)
    assert shown.count(b"Pull complete") >= 2
    assert b"\x1b[" in shown
    assert done.stdout.startswith(f"{host}/team/app:1  sha256:")


def test_never_and_always(own: Program, host: str, tmp_path: Path) -> None:
    real.as_docker_io(host, tmp_path)
    done = own("run", "--pull", "never", "ubuntu")
    assert done.returncode == 125
    assert "No such image: ubuntu:latest" in done.stderr
    assert own("pull", "-q", "ubuntu").returncode == 0
    assert own("run", "--rm", "--pull", "never", "ubuntu").stdout == "pulled\n"
    new = real.layout(tmp_path / "new", {"bin/cat": BUSYBOX, "who": b"new\n"}, Cmd=["cat", "/who"],
                      Env=["PATH=/bin"])  # fmt: skip
    real.as_docker_io("127.0.0.1:1", tmp_path)
    assert own("run", "--rm", "ubuntu").stdout == "pulled\n"  # no registry is asked
    done = own("run", "--rm", "--pull", "always", "ubuntu")
    assert done.stdout == "pulled\n"
    assert "connection refused): taking ubuntu:latest as it is here" in done.stderr
    real.as_docker_io(host, tmp_path)
    real.fill(host, "library/ubuntu:latest", new, "--dest-tls-verify=false")
    assert own("run", "--rm", "ubuntu").stdout == "pulled\n"
    done = own("run", "--rm", "--pull", "always", "ubuntu")
    assert done.stdout == "new\n", done.stderr
    assert own("run", "--pull", "often", "ubuntu").returncode == 125
    done = own("run", "--rm", "cuda-sim")
    assert done.returncode == 125
    assert done.stderr.endswith(" (minirun images build cuda-sim makes it here, by a recipe)\n")


def test_without_a_registry_it_is_made_here_and_a_line_says_so(
    own: Program, tmp_path: Path
) -> None:
    real.as_docker_io("127.0.0.1:1", tmp_path)
    begin = time.monotonic()
    done = own("run", "--rm", "busybox", "echo", "made")
    assert (done.returncode, done.stdout) == (0, "made\n")
    said = "no registry can be reached (127.0.0.1:1: connection refused): building busybox"
    assert done.stderr.splitlines()[1:] == [f"minirun: {said}"]
    assert time.monotonic() - begin < 10
    done = own("run", "nosuch")
    assert done.returncode == 125
    assert "No such image: nosuch:latest, and no registry can be reached: 127" in done.stderr


def test_denied_and_not_found_are_final(own: Program, host: str, tmp_path: Path) -> None:
    with liar() as one:
        real.as_docker_io(one.host, tmp_path)
        body = b'{"errors":[{"code":"DENIED","message":"requested access is denied"}]}'
        one.routes["/v2/library/busybox/manifests/latest"] = reply(body, 403)
        done = own("run", "--rm", "busybox", "echo", "made")
    assert (done.returncode, done.stdout) == (125, "")
    assert "pull access denied for busybox:latest, repository does not exist" in done.stderr
    real.as_docker_io(host, tmp_path)
    done = own("run", "--rm", "busybox", "echo", "made")
    assert done.returncode == 125
    assert "manifest for busybox:latest not found" in done.stderr
    assert not list((tmp_path / "store").glob("images/[!.]*"))


def cut_short(store: Path) -> Path:
    """Leave a file of a layer half as long, as a loss of power may."""
    path = next(each for each in store.glob("layers/*/fs/who"))
    os.truncate(path, 3)
    return path


@pytest.mark.parametrize("removed", [False, True])
def test_a_layer_that_was_cut_short_is_unpacked_again(
    own: Program, host: str, tmp_path: Path, removed: bool
) -> None:
    name = f"{host}/team/app:1"
    assert own("pull", name).returncode == 0
    who = cut_short(tmp_path / "store")
    done = own("images", "--verify")
    assert done.returncode == 1
    assert done.stdout.rstrip().endswith(f"(minirun pull {name}, or load it again)")
    if removed:
        assert own("rmi", name).returncode == 0
    done = own("pull", name)
    assert done.returncode == 0, done.stderr
    assert who.read_bytes() == b"pulled\n"
    assert own("images", "--verify").stdout == f"{name}: intact\n"
    assert own("run", "--rm", name).stdout == "pulled\n"


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]"])
@pytest.mark.parametrize("again", ["pull", "run"])
def test_a_layer_without_its_record_is_unpacked_again(
    own: Program, host: str, tmp_path: Path, content: bytes | None, again: str
) -> None:
    """pull said ".draft-…: Directory not empty"."""
    name = f"{host}/team/app:1"
    assert own("pull", name).returncode == 0
    for record in (tmp_path / "store").glob("layers/*/layer.json"):
        record.unlink()
        if content is not None:
            record.write_bytes(content)
    words = ("pull",) if again == "pull" else ("run", "--rm", "--pull", "always")
    done = own(*words, name)
    assert done.returncode == 0, done.stderr
    assert own("images", "--verify").stdout == f"{name}: intact\n"
    assert own("image", "gc").returncode == 0
    assert not list((tmp_path / "store/layers").glob(".draft-*"))


def test_verify_goes_on_after_a_layer_that_is_missing(
    own: Program, host: str, tmp_path: Path
) -> None:
    name = f"{host}/team/app:1"
    for each in (name, f"{host}/library/ubuntu:24.04"):
        assert own("pull", each).returncode == 0
    shutil.rmtree(next((tmp_path / "store/layers").glob("[!.]*")))
    done = own("images", "--verify")
    assert (done.returncode, done.stdout.count(" is missing ("), done.stderr) == (1, 2, "")
    assert own("pull", name).returncode == 0
    assert own("images", "--verify").returncode == 0
