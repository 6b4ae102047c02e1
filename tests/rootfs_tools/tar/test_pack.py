"""Trees and OverlayFS layers as archives."""

import io
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from minirun.core.kernel import mounts
from rootfs_tools import tree
from rootfs_tools.tar.pack import pack_layer, pack_tree
from rootfs_tools.tar.stream import members
from rootfs_tools.unpack_layer import apply_flat, apply_overlay


def packed(path: Path) -> bytes:
    stream = io.BytesIO()
    pack_tree(str(path), stream)
    return stream.getvalue()


def packed_layer(path: Path) -> bytes:
    stream = io.BytesIO()
    pack_layer(str(path), stream)
    return stream.getvalue()


def names(data: bytes) -> list[str]:
    return [member.name for member, _ in members(io.BytesIO(data))]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A tree with all that a tree may have."""
    top = tmp_path / "tree"
    (top / "usr/bin").mkdir(parents=True)
    (top / "usr/bin/tool").write_bytes(b"x" * 3000)
    (top / "usr/bin/tool").chmod(0o4755)
    os.chown(top / "usr/bin/tool", 7, 2**31)
    os.link(top / "usr/bin/tool", top / "also")
    os.symlink("/etc/passwd", top / "link")
    os.mknod(top / "null", 0o20666, os.makedev(1, 3))
    os.mkfifo(top / "fifo")
    os.setxattr(top / "usr", "user.note", b"\xff\0")
    (top / os.fsdecode(b"latin-\xe9")).touch()
    with open(top / "sparse", "wb") as file:
        file.truncate(1 << 20)
    os.utime(top / "usr", ns=(1, 1_000_000_001))
    top.chmod(0o711)
    return top


def test_a_tree_comes_back_as_it_was(odd: Path, tmp_path: Path) -> None:
    data = packed(odd)
    again = tmp_path / "again"
    again.mkdir()
    apply_flat(io.BufferedReader(io.BytesIO(data)), str(again))  # type: ignore[arg-type]
    assert list(tree.listing(str(again))) == list(tree.listing(str(odd)))
    assert (again / "also").samefile(again / "usr/bin/tool")
    assert (again / "usr").stat().st_mtime_ns == 1_000_000_001
    assert packed(again) == data


def test_gnu_tar_unpacks_the_same(odd: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    command = ["tar", "-x", "-p", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-f", "-"]
    done = subprocess.run([*command, "-C", again], input=packed(odd), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(tree.listing(str(again))) == list(tree.listing(str(odd)))


def test_the_order_of_making_does_not_count(tmp_path: Path) -> None:
    archives = []
    for order in ("abc", "cba"):
        top = tmp_path / order
        top.mkdir()
        for name in order:
            (top / name).write_text(name)
            os.utime(top / name, ns=(0, 0))
        os.utime(top, ns=(0, 0))
        archives.append(packed(top))
    assert archives[0] == archives[1]


def test_sockets_are_left_out(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert names(packed(tmp_path)) == ["./"]


def test_a_mount_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    mounts.mount("tmpfs", str(tmp_path / "proc"), "tmpfs", 0, "")
    try:
        (tmp_path / "proc/secret").touch()
        assert names(packed(tmp_path)) == ["./", "proc/"]
    finally:
        mounts.umount2(str(tmp_path / "proc"))


def test_a_tree_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    path = tmp_path
    for _ in range(300):
        path = path / "d"
        path.mkdir()
    with pytest.raises(ImageError, match="deeper than 256"):
        packed(tmp_path)


@pytest.fixture(params=["", ",userxattr"])
def overlay(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An overlay over a small layer: its directories are lower, upper and merged."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower/dir/inner").mkdir(parents=True)
    for name in ("keep", "gone", "dir/a", "dir/inner/b"):
        (tmp_path / "lower" / name).write_text(name)
    data = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    mounts.mount("overlay", f"{tmp_path}/merged", "overlay", 0, data + request.param)
    yield tmp_path
    mounts.umount2(f"{tmp_path}/merged")


def test_a_layer_of_overlayfs_becomes_one_of_the_specification(overlay: Path) -> None:
    merged = overlay / "merged"
    (merged / "gone").unlink()
    subprocess.run(["rm", "-r", merged / "dir"], check=True)
    (merged / "dir").mkdir()
    (merged / "dir/new").write_text("new")
    data = packed_layer(overlay / "upper")
    assert names(data) == ["dir/", "dir/.wh..wh..opq", "dir/new", ".wh.gone"]
    shown = list(tree.listing(str(merged)))
    for apply in (apply_flat, apply_overlay):
        again = overlay / apply.__name__
        again.mkdir()
        stream = io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type]
        if apply is apply_flat:
            subprocess.run(["cp", "-a", f"{overlay}/lower/.", again], check=True)
            apply_flat(stream, str(again))
            assert list(tree.listing(str(again))) == shown
        else:
            apply_overlay(stream, str(again), [f"{overlay}/lower"])
            removed = ["dir/", "dir/.wh.a", "dir/.wh.inner", "dir/new", ".wh.gone"]
            assert names(packed_layer(again)) == removed


@pytest.mark.parametrize("name", [".wh.passwd", ".wh..wh..opq", ".wh.", "d/.wh.x"])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_file_that_would_be_a_whiteout_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    """In the archive of a layer it would remove what lies below: /etc/passwd."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/")
    with pytest.raises(ImageError, match=f"^/{name}: a layer holds no file whose name begins"):
        packed_layer(tmp_path)
    assert f"{name}/" in names(packed(tmp_path)) or name in names(packed(tmp_path))


def test_a_renamed_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    os.setxattr(tmp_path / "d", "trusted.overlay.redirect", b"/other")
    with pytest.raises(ImageError, match="'d' was renamed in the layer"):
        packed_layer(tmp_path)
