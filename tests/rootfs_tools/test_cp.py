"""`minirun cp`: docker's rules for paths, owners and links. Hostile trees: tests/security."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from apart import apart, mounts
from conftest import STORE, Program, wait_until
from core.lifecycle.leftovers import call
from engines.clients.engine import IMAGE, Docker

SLEEP = ("sleep", "600")


@pytest.fixture
def program(minirun: Program, tmp_path: Path) -> Iterator[Program]:
    """minirun with volumes of its own, and a container `box` that runs."""
    store = tmp_path / "store"
    store.mkdir()
    for name in ("images", "layers"):
        (store / name).symlink_to(f"{STORE}/{name}")
    found = minirun.at(store)
    words = ("-v", "data:/vol", "-v", "data:/ro:ro", "--tmpfs", "/mem", "--user", "7:8", "busybox")
    done = found("run", "-d", "--name", "box", *words, *SLEEP)
    assert done.returncode == 0, done.stderr
    assert found("exec", "-u", "0", "box", "mkdir", "/d").returncode == 0
    yield found
    found.clean()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder of the host with some files."""
    place = tmp_path / "work"
    fill(place)
    return place


def fill(place: Path) -> None:
    (place / "dir/sub").mkdir(parents=True)
    (place / "dir/sub/f").write_text("two\n")
    (place / "file").write_text("one\n")
    os.chown(place / "file", 500, 600)
    (place / "file").chmod(0o4750)
    (place / "link").symlink_to("file")
    (place / "ldir").symlink_to("dir")
    os.mkfifo(place / "fifo")


def cp(program: Program, work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return program("cp", *words, cwd=work)


def inside(program: Program, script: str) -> str:
    done = program("exec", "-u", "0", "box", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


STEPS: tuple[tuple[str, ...], ...] = (
    ("file", "C:/d/"), ("file", "C:/d/named"), ("dir", "C:/d/new"), ("dir", "C:/d/new"),
    ("dir/.", "C:/d/dots"), ("dir/.", "C:/d/dots"), ("dir/", "C:/d/slash"), ("dir/", "C:/d/slash"),
    ("file", "C:/nodir/"), ("file", "C:/nodir/x"), ("dir", "C:/d/file"), ("file/", "C:/d"),
    ("nosuch", "C:/d"), ("link", "C:/d"), ("-L", "link", "C:/d/followed"), ("ldir", "C:/d/l"),
    ("ldir/", "C:/d/l2"), ("fifo", "C:/d"), ("file", "C:d/relative"), ("dir", "C:/d/new/dir/sub/f"),
    ("C:/nosuch", "out"), ("C:/d/file", "out"), ("C:/d/file", "named"), ("C:/d/new", "named2"),
    ("C:/d/new", "named2"), ("C:/d/new/.", "out/dots"), ("C:/d/new/.", "out"), ("C:/d/file/", "x"),
    ("C:/d", "file"), ("C:/d/file", "no/"), ("C:/d/file", "no/x"), ("C:/d/link", "out/l"),
    ("-L", "C:/d/link", "out/l2"), ("C:/d/l", "out/l3"), ("C:/d/fifo", "out"), ("file", "file2"),
    ("file", "nosuch1:/x"), ("C:/proc/version", "out"), ("C:/mem", "out"), ("C:/dev/null", "out"),
    ("C:/vol", "out"), ("file", "C:/vol"), ("C:/vol/file", "out/v"), ("file", "C:/ro/x"),
    ("C:/d/new/dir/sub/f", "link"), ("dir", "C:/d/link"), ("file", "C:/d/link"), ("C:", "out"),
    ("file", "C:/d/dots/sub"), ("dir/sub", "C:/d"), ("C:/d/dots/sub/f", "out/dots"),
)  # fmt: skip
"""Arguments of cp, C for the container, one after the other."""


def walked(top: Path) -> list[str]:
    """What lies below a folder, without times."""
    rows = []
    for path, folders, names in os.walk(top):
        for name in sorted(folders + names):
            full = Path(path, name)
            info = full.lstat()
            text = os.readlink(full) if full.is_symlink() else ""
            if full.is_file() and not full.is_symlink():
                text = full.read_text()
            rows.append(f"{full.relative_to(top)} {info.st_mode:o} {info.st_uid} {text}")
    return sorted(rows)


@pytest.fixture(scope="module")
def beside(command: str) -> Iterator[tuple[list[int], list[str], str]]:
    """What docker's cp does with STEPS: statuses, the host's folder, the container's."""
    docker = Docker("runc", command)
    try:
        work = docker.home / "work"
        fill(work)
        (work / "out").mkdir()
        words = ("-v", "data:/vol", "-v", "data:/ro:ro", "--tmpfs", "/mem", "--user", "7:8")
        docker("run", "-d", "--network=none", "--name", "box", *words, IMAGE, *SLEEP)
        docker("exec", "-u", "0", "box", "mkdir", "/d")
        found = []
        for step in STEPS:
            call = [word.replace("C:", "box:") for word in step]
            shell = 'cd "$0" && exec "$@"'
            done = docker.cell.run(
                "sh", "-c", shell, str(work), *docker.client, "cp", *call,
                env=docker.env, timeout=60,
            )  # fmt: skip
            found.append(done.returncode)
        listed = docker("exec", "-u", "0", "box", "sh", "-c", LIST)
        yield found, walked(work), listed
    finally:
        docker.close()


LIST = (
    "cd /d; find . /vol | sort | while read -r n; do stat -c '%n %A %u:%g' \"$n\";"
    ' [ -f "$n" ] && cat "$n"; done; true'
)


def test_docker_s_rules(
    program: Program, work: Path, beside: tuple[list[int], list[str], str]
) -> None:
    """The same steps beside docker: the same statuses, the same files on both sides."""
    (work / "out").mkdir()
    statuses = []
    for step in STEPS:
        done = cp(program, work, *(word.replace("C:", "box:") for word in step))
        assert done.stderr.count("\n") == (done.returncode != 0), (step, done.stderr)
        statuses.append(done.returncode)
    both = zip(statuses, beside[0], strict=True)
    differ = [step for step, (ours, theirs) in zip(STEPS, both, strict=True) if ours != theirs]
    assert differ == []
    assert walked(work) == beside[1]
    assert inside(program, LIST).split("\n") == [*beside[2].split("\n"), ""]


def test_a_container_that_has_ended(program: Program, work: Path) -> None:
    program("run", "--name", "ended", "-v", "data:/vol", "busybox", "sh", "-c",
            "echo a > /a; rm /etc/group; echo v > /vol/v")  # fmt: skip
    assert cp(program, work, "ended:/etc", "etc").returncode == 0
    assert "passwd" in os.listdir(work / "etc") and "group" not in os.listdir(work / "etc")
    assert cp(program, work, "ended:/vol/v", ".").returncode == 0
    for words in (("file", "ended:/etc/new"), ("dir", "ended:/"), ("file", "ended:/vol")):
        done = cp(program, work, *words)
        assert done.returncode == 0, done.stderr
    upper = program.directory("ended") / "upper"
    assert (upper / "etc/new").read_text() == "one\n" and (upper / "dir/sub/f").exists()
    assert cp(program, work, "ended:/etc/new", "back").returncode == 0
    assert (work / "back").read_text() == "one\n"
    assert inside(program, "cat /vol/file") == "one\n"
    assert "ended" not in Path("/proc/self/mountinfo").read_text()


def test_between_containers(program: Program, work: Path) -> None:
    done = cp(program, work, "box:/d", "other:/copy")
    assert (done.returncode, done.stdout) == (1, "")
    assert "copying between containers is not supported" in done.stderr
    assert "minirun cp box:/d - | minirun cp - other:/copy" in done.stderr


def test_owners(program: Program, work: Path) -> None:
    assert cp(program, work, "-a", "file", "box:/d/a").returncode == 0
    assert inside(program, "stat -c '%u:%g %a' /d/a") == "7:8 4750\n", "the container's user"
    assert cp(program, work, "-a", "box:/d/a", "a").returncode == 0
    info = (work / "a").stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o7777) == (7, 8, 0o4750)
    assert cp(program, work, "box:/d/a", "b").returncode == 0
    assert (work / "b").stat().st_uid == 0


def test_a_user_namespace(reachable: Program, tmp_path: Path) -> None:
    fill(tmp_path / "work")
    maps = ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")
    reachable("run", "-d", "--name", "box", *maps, "busybox", *SLEEP)
    for words in (("file", "box:/a"), ("-a", "file", "box:/b"), ("dir", "box:/new")):
        done = cp(reachable, tmp_path / "work", *words)
        assert done.returncode == 0, done.stderr
    shown = reachable("exec", "box", "stat", "-c", "%u %n", "/a", "/b", "/new/sub/f").stdout
    assert shown == "500 /a\n0 /b\n0 /new/sub/f\n"
    assert cp(reachable, tmp_path / "work", "-a", "box:/a", "a").returncode == 0
    assert (tmp_path / "work/a").stat().st_uid == 500
    reachable("delete", "--force", "box")


def test_archives(program: Program, work: Path) -> None:
    assert cp(program, work, "dir", "box:/d").returncode == 0
    for path, names in (
        ("/d/dir", ["dir", "dir/sub", "dir/sub/f"]), ("/d/dir/.", [".", "./sub", "./sub/f"]),
        ("/d/dir/sub/f", ["f"]),
    ):  # fmt: skip
        done = subprocess.run(program.argv("cp", f"box:{path}", "-"), capture_output=True,
                              check=True)  # fmt: skip
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            assert archive.getnames() == names
    data = subprocess.check_output(["tar", "-C", str(work), "-c", "dir", "file"])
    argv = program.argv("cp", "-", "box:/d/dots")
    done = subprocess.run(argv, input=data, capture_output=True, check=False)
    assert done.returncode == 1 and b'destination "box:/d/dots" must be a directory' in done.stderr
    argv = program.argv("cp", "-", "box:/d")
    subprocess.run(argv, input=data, check=True)
    assert inside(program, "cat /d/file; stat -c %u /d/file") == "one\n500\n"


def test_a_link_that_the_image_has_is_followed_inside(program: Program, work: Path) -> None:
    """An archive with a file below a folder that is a link in the container."""
    inside(program, "mkdir /real; ln -s /real /d/via")
    (work / "via").mkdir()
    (work / "via/x").write_text("x")
    data = subprocess.check_output(["tar", "-C", str(work), "-c", "via/x"])
    subprocess.run(program.argv("cp", "-", "box:/d"), input=data, check=True)
    assert inside(program, "cat /real/x") == "x"


def test_a_hole_stays_a_hole(program: Program, work: Path) -> None:
    inside(program, "dd if=/dev/zero of=/d/big bs=1 count=1 seek=64G 2>/dev/null")
    assert cp(program, work, "box:/d/big", "big").returncode == 0
    info = (work / "big").stat()
    assert info.st_size == (64 << 30) + 1 and info.st_blocks < 1000


def test_a_paused_container_is_copied_from(program: Program, work: Path) -> None:
    program("pause", "box")
    assert cp(program, work, "box:/etc/passwd", "p").returncode == 0
    program("resume", "box")


def test_a_killed_copy_leaves_no_mount(program: Program, work: Path) -> None:
    inside(program, "dd if=/dev/urandom of=/d/big bs=1M count=50 2>/dev/null")
    with apart("mount"):
        before = mounts()
        running = program.start("cp", "box:/d", str(work / "copy"))
        wait_until(lambda: (work / "copy").exists())
        running.kill()
        running.communicate(timeout=60)
        assert mounts() == before
    assert program("rm", "-f", "box").returncode == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("file", "file2"), "must specify at least one container source"),
        (("-", "-"), "must specify at least one container source"),
        (("file",), '"minirun cp" requires exactly 2 arguments'),
        (("file", "nosuch1:/"), "container 'nosuch1' does not exist"),
        (("nosuch", "box:/"), "nosuch: no such file or directory"),
        (("box:/nosuch", "."), "Could not find the file /nosuch in container box"),
        (("box:", "."), "the path in the container is empty"),
        (("file", "box:/etc/passwd/x"), "Could not find the file /etc/passwd/x in container box"),
        (("file", "box:/nodir/"), "no such directory: box:/nodir/"),
        (("dir", "box:/etc/passwd"), "cannot copy directory"),
        (("box:/etc", "file"), "cannot copy directory"),
        (("box:/etc/passwd", "no/x"), "invalid output path: directory"),
        (("dir/sub", "box:/etc/sub/x/y"), "Could not find the file /etc/sub/x in container box"),
    ],
)
def test_a_wrong_word_is_one_line(
    program: Program, work: Path, words: tuple[str, ...], text: str
) -> None:
    done = cp(program, work, *words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert text in done.stderr


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
@pytest.mark.parametrize(
    ("flag", "writes"),
    [
        ("-v={}:/x:ro", [False, False]), ("-v={}:/x", [True, True]),
        ("--mount=type=bind,src={},dst=/x,ro", [False, False]),
        ("--mount=type=bind,src={},dst=/x,ro,bind-recursive=writable", [False, True]),
        ("--mount=type=bind,src={},dst=/x,bind-nonrecursive", [True, None]),
    ],
)  # fmt: skip
def test_what_is_read_only_is_so_below_too(
    minirun: Program, shared: Path, flag: str, writes: list[bool | None], ended: bool
) -> None:
    """A mount below a volume has the properties for `cp` that it has in the container."""
    words = ("busybox", "true") if ended else ("-d", "busybox", *SLEEP)
    assert minirun("run", "--name", "c", flag.format(shared), *words).returncode == 0
    source = shared.parent / "new"
    source.write_text("of cp")
    for place, written in zip(("/x", "/x/below"), writes, strict=True):
        done = minirun("cp", str(source), f"c:{place}/new")
        there = shared / place.removeprefix("/x").lstrip("/") / "new"
        assert there.exists() == bool(written), done.stderr
        if written is False:
            assert done.returncode == 1 and "ead-only" in done.stderr


def test_a_read_only_root_of_a_bundle_is_not_written_to(
    minirun: Program, layer: Path, tmp_path: Path
) -> None:
    config = minirun.spec("true")
    config["root"] = {"path": str(layer), "readonly": True}
    options = ["rbind", "rro"]
    config["mounts"].append({"destination": "/mnt", "source": str(layer), "options": options})
    (tmp_path / "config.json").write_text(json.dumps(config))
    call(minirun, "create", "--bundle", str(tmp_path), "c")
    assert minirun("start", "c").returncode == 0
    wait_until(lambda: '"stopped"' in minirun("state", "c").stdout)
    (tmp_path / "new").write_text("of cp")
    for place in ("/new", "/mnt/new"):
        done = minirun("cp", str(tmp_path / "new"), f"c:{place}")
        assert done.returncode == 1 and "ead-only" in done.stderr, done.stderr
    assert minirun("cp", "c:/mnt/bin/busybox", str(tmp_path / "out")).returncode == 0
    assert not (layer / "new").exists()


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
def test_a_read_only_root_is_not_written_to(minirun: Program, work: Path, ended: bool) -> None:
    words = ("busybox", "true") if ended else ("-d", "busybox", *SLEEP)
    assert minirun("run", "--read-only", "--name", "c", *words).returncode == 0
    done = cp(minirun, work, "file", "c:/f")
    assert not minirun("cp", "c:/f", "-").stdout
    assert done.returncode == 1 and "ead-only" in done.stderr, done.stderr
