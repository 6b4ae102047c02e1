"""`minirun export`: what the archive holds is what the container sees."""

import io
import os
import pty
import subprocess
import tarfile
from pathlib import Path

import pytest

from conftest import Program
from layers import layer_of
from minirun.core.kernel import mountinfo
from tests.rootfs_tools.layouts import listing

CHANGES = """rm -r /etc; mkdir /etc; echo new > /etc/new; echo x > /outside; ln -s /outside /link
ln /etc/new /etc/hard; chown 7:8 /etc/new; chmod 4711 /etc/new; mkfifo /fifo; mkdir /host
ln -s / /host/root; touch /READY; sleep 60"""


def container(minirun: Program, *flags: str) -> None:
    assert minirun("run", "-d", "--name", "c", *flags, "busybox", "sh", "-c", CHANGES).stderr == ""
    while minirun("exec", "c", "test", "-e", "/READY").returncode:
        pass


def mount_points(path: Path) -> list[str]:
    """Mounts below `path`: those elsewhere may be another test's."""
    points = [mount.mount_point for mount in mountinfo.read()]
    return sorted(point for point in points if point.startswith(str(path)))


def members(minirun: Program, path: Path) -> dict[str, tarfile.TarInfo]:
    done = minirun("export", "-o", str(path), "c")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with tarfile.open(path) as archive:
        return {row.name: row for row in archive}


@pytest.mark.parametrize("flags", [(), ("--uidmap", "0:100000:65536")])
def test_running_and_ended_it_is_the_same(
    minirun: Program, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    for place in (tmp_path, *tmp_path.parents[:3]):
        place.chmod(0o755)
    container(minirun, *flags)
    running = members(minirun, tmp_path / "running.tar")
    before = mount_points(tmp_path)
    assert minirun("kill", "c", "KILL").returncode == 0
    while '"stopped"' not in minirun("state", "c").stdout:
        pass
    ended = members(minirun, tmp_path / "ended.tar")
    assert mount_points(tmp_path) == before
    for found in (running, ended):
        names = {n for n in found if n.startswith("etc/")} - {
            "etc/hosts", "etc/hostname", "etc/resolv.conf",
        }  # fmt: skip
        assert names == {"etc/new", "etc/hard"}
        kinds = {found[name].type for name in names}
        assert kinds == {tarfile.REGTYPE, tarfile.LNKTYPE}
        row = next(found[name] for name in names if found[name].isreg())
        assert (row.uid, row.gid, row.mode) == (7, 8, 0o4711)
        assert (found["bin/busybox"].uid, found["link"].linkname) == (0, "/outside")
        assert found["host/root"].issym() and found["fifo"].isfifo()
        assert not [n for n in found if n.startswith(("proc/", "sys/", "dev/", "host/root/"))]
    here = {n: (r.type, r.mode, r.uid, r.size, r.linkname) for n, r in running.items()}
    there = {n: (r.type, r.mode, r.uid, r.size, r.linkname) for n, r in ended.items()}
    mounted = {n for n in here if here[n] != there.get(n)} | (set(there) - set(here))
    assert all(n.startswith(("dev", "etc/", "proc", "sys")) for n in mounted)


def test_imported_it_is_the_image_again(minirun: Program, tmp_path: Path) -> None:
    base = layer_of("busybox")
    assert minirun("run", "--name", "c", "busybox", "true").returncode == 0
    rows = members(minirun, tmp_path / "c.tar")
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["tar", "-C", str(tree), "-xpf", str(tmp_path / "c.tar")], check=True)
    mine, theirs = listing(tree, times=False), listing(base, times=False)
    assert {n: mine.get(n) for n in theirs if n != "."} == {
        n: theirs[n] for n in theirs if n != "."
    }
    assert len(rows) >= len(theirs) - 1


def test_a_bundle(minirun: Program, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "rootfs/bin").mkdir(parents=True)
    base = layer_of("busybox")
    (bundle / "rootfs/bin/sh").write_bytes((base / "bin/busybox").read_bytes())
    (bundle / "rootfs/bin/sh").chmod(0o755)
    assert minirun("spec", cwd=bundle).returncode == 0
    text = (bundle / "config.json").read_text().replace('"terminal": true', '"terminal": false')
    (bundle / "config.json").write_text(text)
    words = ("create", "--bundle", str(bundle), "c")
    nothing = subprocess.DEVNULL
    subprocess.run(minirun.argv(*words), stdin=nothing, stdout=nothing, stderr=nothing, check=True)
    found = members(minirun, tmp_path / "c.tar")
    assert found["bin/sh"].isreg() and "usr/bin" not in found
    minirun("delete", "--force", "c")


def test_never_to_a_terminal_and_nothing_half_made(minirun: Program, tmp_path: Path) -> None:
    minirun("run", "--name", "c", "busybox", "true")
    main, worker = pty.openpty()
    done = subprocess.run(
        minirun.argv("export", "c"), stdout=worker, stderr=subprocess.PIPE, check=False
    )
    os.close(worker)
    os.close(main)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"refusing to save to a terminal" in done.stderr
    piped = subprocess.run(minirun.argv("export", "c"), capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(piped)) as archive:
        assert "bin/busybox" in archive.getnames()
    for words, status in ((("-o", "x", "none"), 1), (("-o", "none/x", "c"), 1), ((), 1)):
        found = minirun("export", *words, cwd=tmp_path)
        assert (found.stdout, found.stderr.count("\n")) == ("", 1)
        assert found.returncode in (status, 1)
    assert not list(tmp_path.glob(".minirun-draft*")) and not (tmp_path / "x").exists()


def test_a_reader_that_goes_away_is_no_error(minirun: Program) -> None:
    """As with any other command: SIGPIPE's status, and no word."""
    container(minirun)
    argv = " ".join(minirun.argv("export", "c"))
    shell = f"({argv}; echo $? >&2) | true"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr == "141\n"
