"""What an image declares: volumes, the signal of `stop`, labels, a health check."""

import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from layers import layer_of
from rootfs_tools.take import take
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, member, tar

D = tarfile.DIRTYPE
NOTE = {"SCHILY.xattr.user.note": "text"}
HEALTH = {"Test": ["CMD-SHELL", "true"], "Interval": 10**9, "Retries": 3}


@pytest.fixture
def program(minirun: Program, tmp_path: Path) -> Program:
    """minirun with a store of its own, which other users of this machine may enter."""
    tmp_path.chmod(0o711)
    for place in tmp_path.parents[:3]:
        place.chmod(0o755)
    return minirun.at(tmp_path / "store")


def image(tmp_path: Path, **config: Any) -> None:
    """Take an image `app`: busybox, and two layers that share the folder data."""
    base = layer_of("busybox")
    argv = ["tar", "-C", str(base), "-c", "."]
    first = subprocess.run(argv, capture_output=True, check=True).stdout
    layers = (
        tar(member("data/", D, mode=0o1750, uid=7, gid=8), member("data/gone"),
            member("data/file", content=b"image\n", uid=5, mode=0o640, pax_headers=NOTE)),
        tar(member("data/.wh.gone"), member("data/in/", D), member("data/in/link", tarfile.SYMTYPE,
            linkname="/etc/passwd"), member("plain"), member("var/", D),
            member("var/lib", tarfile.SYMTYPE, linkname="/data")),
    )  # fmt: skip
    folder = LayoutFolder(tmp_path / "layout", first, *layers, compress=bytes, **config)
    take(str(tmp_path / "store"), "app", FolderSource(folder))


LOOK = (
    "stat -c '%u:%g %a %n' /data /data/file; cat /data/file; ls /data; readlink /data/in/link;"
    " grep -c ' /data ' /proc/mounts; echo mine > /data/file && echo written"
)


@pytest.mark.parametrize("flags", [(), ("--read-only",), ("--uidmap", "0:100000:65536")])
def test_a_volume_begins_with_what_the_image_has(
    program: Program, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    image(tmp_path, Env=["PATH=/bin"], Volumes={"/data": {}, "new/one": {}})
    before = subprocess.check_output(["ls", "-lRn", str(tmp_path / "store/layers")])
    done = program("run", "--name", "a", *flags, "app", "sh", "-c", LOOK)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "7:8 1750 /data", "5:0 640 /data/file", "image",
        "file", "in", "/etc/passwd", "1", "written",
    ]  # fmt: skip
    assert subprocess.check_output(["ls", "-lRn", str(tmp_path / "store/layers")]) == before
    directory = program.directory("a")
    assert (directory / "volumes/0/file").read_text() == "mine\n"
    assert os.getxattr(directory / "volumes/0/file", "user.note") == b"text"
    assert not (directory / "upper/data/file").exists()
    assert program("delete", "a").returncode == 0
    assert not directory.exists()
    assert program("run", "--rm", "app", "cat", "/data/file").stdout == "image\n"


def test_a_volume_at_the_same_place_is_the_callers(program: Program, tmp_path: Path) -> None:
    image(tmp_path, Env=["PATH=/bin"], Volumes={"/data/": {}, "/data/in/": {}})
    (tmp_path / "host").mkdir()
    script = "ls -a /data /data/in; grep -c ' /data' /proc/mounts"
    done = program("run", "--rm", "-v", f"{tmp_path}/host:/data", "app", "sh", "-c", script)
    shown = ["/data:", ".", "..", "in", "", "/data/in:", ".", "..", "2"]
    assert (done.stderr, done.stdout.splitlines()) == ("", shown)


def test_a_volume_through_a_link_of_the_image(program: Program, tmp_path: Path) -> None:
    image(tmp_path, Env=["PATH=/bin"], Volumes={"/var/lib": {}})
    done = program("run", "--rm", "app", "sh", "-c", "grep -c ' /data ' /proc/mounts; ls /data")
    assert (done.stderr, done.stdout.split()) == ("", ["1", "file", "in"])


@pytest.mark.parametrize(
    ("volumes", "words"),
    [
        (["/"], "invalid volume '/'"),
        (["../../"], "invalid volume '/'"),
        (["/plain"], "mounted at /plain, and the image has a file there"),
        (["/proc/sys"], "lies over /proc/sys"),
        ([f"/v{n}" for n in range(101)], "the image declares 101 volumes (100 at most)"),
    ],
)
def test_a_wrong_volume(program: Program, tmp_path: Path, volumes: list[str], words: str) -> None:
    image(tmp_path, Volumes={path: {} for path in volumes})
    done = program("run", "--name", "a", "app", "true")
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert not program.directory("a").exists()


def test_a_spec_has_file_systems_in_memory(program: Program, tmp_path: Path) -> None:
    image(tmp_path, Volumes={"/data": {}}, Cmd=["sh"])
    mounts = json.loads(program("spec", "app").stdout)["mounts"]
    assert mounts[-1] == {
        "destination": "/data", "type": "tmpfs", "source": "tmpfs",
        "options": ["rw", "nosuid", "nodev", "tmpcopyup"],
    }  # fmt: skip


TRAP = "trap 'echo got {0}; exit 3' {0}; echo ready; while :; do sleep 0.02; done"


@pytest.mark.parametrize(
    ("declared", "flags", "words", "sent"),
    [
        ("", (), (), "TERM"),
        ("SIGINT", (), (), "INT"),
        ("SIGRTMIN+3", (), (), "37"),
        ("SIGINT", ("--stop-signal", "QUIT"), (), "QUIT"),
        ("SIGINT", (), ("-s", "USR1"), "USR1"),
    ],
)
def test_the_signal_of_stop(
    program: Program, tmp_path: Path, declared: str, flags: tuple[str, ...],
    words: tuple[str, ...], sent: str,
) -> None:  # fmt: skip
    image(tmp_path, Env=["PATH=/bin"], StopSignal=declared)
    program("run", "-d", "--name", "a", *flags, "app", "sh", "-c", TRAP.format(sent))
    wait_until(lambda: "ready" in program("logs", "a").stdout)
    done = program("stop", *words, "a")
    assert (done.stdout, done.stderr) == ("a\n", "")
    assert program("logs", "a").stdout == f"ready\ngot {sent}\n"
    state = json.loads((program.directory("a") / "state.json").read_text())
    assert (state["status"], state["exit_status"]) == ("stopped", 3)
    assert program("stop", "a").stdout == "a\n"


def test_what_does_not_stop_is_killed(program: Program, tmp_path: Path) -> None:
    image(tmp_path, Env=["PATH=/bin"])
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    for name in ("a", "b"):
        program("run", "-d", "--name", name, "app", "sh", "-c", script)
        wait_until(lambda name=name: "ready" in program("logs", name).stdout)  # type: ignore[misc]
    assert program("pause", "b").returncode == 0
    begin = time.monotonic()
    assert program("stop", "-t", "0.2", "a", "b").stdout == "a\nb\n"
    assert 0.4 < time.monotonic() - begin < 5
    for name in ("a", "b"):
        state = json.loads((program.directory(name) / "state.json").read_text())
        assert state["exit_status"] == 128 + signal.SIGKILL
    assert "does not exist" in program("stop", "nosuch").stderr


def test_a_wrong_stop_signal(program: Program, tmp_path: Path) -> None:
    image(tmp_path, Cmd=["true"], StopSignal="SIGNOTHING", Env=["PATH=/bin"])
    done = program("run", "--rm", "app")
    assert done.returncode == 125
    assert done.stderr.startswith("minirun: invalid stop signal 'SIGNOTHING' (the image's own")
    assert program("run", "--rm", "--stop-signal", "TERM", "app").returncode == 0
    assert "invalid --timeout" in program("stop", "-t", "x", "a").stderr
    assert "unknown signal 'X'" in program("stop", "-s", "X", "a").stderr


def test_inspect_shows_what_is_declared(program: Program, tmp_path: Path) -> None:
    image(
        tmp_path, Env=["PATH=/bin"], Cmd=["true"], Labels={"a.b": "c\x1b[1m"}, StopSignal="SIGINT",
        Healthcheck=HEALTH, Volumes={"/data": {}},
    )  # fmt: skip
    assert program("run", "--name", "a", "app").returncode == 0
    assert json.loads(program("inspect", "--json", "a").stdout)["declared"] == {
        "volumes": ["/data"], "stop_signal": "SIGINT", "labels": {"a.b": "c\x1b[1m"},
        "healthcheck": HEALTH,
    }  # fmt: skip
    page = program("inspect", "--text", "a").stdout
    assert "health check  CMD-SHELL true (minirun does not run it)" in page
    assert "volume        /data\n" in page
    assert "stop signal   SIGINT\n" in page
    assert "label         a.b=c" in page and "\x1b" not in page
