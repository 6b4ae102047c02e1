"""Copies of layers with other owners, held against what the kernel's id-mapped mounts show."""

import os
import socket
import stat
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, wait_until
from gpu import images
from layers import layer_of
from minirun.core.errors import MinirunError
from minirun.core.kernel import mounts
from minirun.oci.namespaces.shifted import Owners, copy_layer
from required import installed
from tests.rootfs_tools.layouts import listing

MAP = [
    {"containerID": 0, "hostID": 100000, "size": 1000},
    {"containerID": 1000, "hostID": 300000, "size": 70},
]
OWNERS = Owners(MAP, MAP)


def id_mapped(layer: Path) -> Iterator[Path]:
    """An id-mapped mount of `layer` that is attached nowhere, as a path."""
    holder = subprocess.Popen(["unshare", "-U", "sleep", "60"])
    try:
        namespace = Path(f"/proc/{holder.pid}/ns/user")
        wait_until(lambda: namespace.stat().st_ino != Path("/proc/self/ns/user").stat().st_ino)
        rows = "".join(f"{row['containerID']} {row['hostID']} {row['size']}\n" for row in MAP)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{holder.pid}/{name}").write_text(rows)
        user = os.open(namespace, os.O_RDONLY)
        tree = mounts.open_tree(mounts.AT_FDCWD, str(layer.parent), mounts.OPEN_TREE_CLONE)
        mounts.mount_setattr(tree, mounts.MOUNT_ATTR_IDMAP, userns=user, shown=str(layer))
        os.close(user)
        yield Path(f"/proc/self/fd/{tree}/{layer.name}")
        os.close(tree)
    finally:
        holder.kill()
        holder.wait()


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer with one file of each kind, and ids in and out of the map."""
    top = tmp_path / "layer"
    top.mkdir(mode=0o751)
    (top / "deep/er").mkdir(parents=True)
    (top / "deep/er/file").write_bytes(b"content")
    os.link(top / "deep/er/file", top / "again")
    os.symlink("/etc/passwd", top / "link")
    os.lchown(top / "link", 7, 8)
    os.mkfifo(top / "fifo")
    os.mknod(top / "whiteout", stat.S_IFCHR, 0)
    os.mknod(top / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(top / "socket"))
    (top / "odd\nname \udcff").write_bytes(b"")
    with open(top / "sparse", "wb") as file:
        file.truncate(1 << 30)
        file.seek(5 << 20)
        file.write(b"x")
    (top / "set").write_bytes(b"")
    os.chown(top / "set", 1069, 1001)
    os.chmod(top / "set", 0o6755)
    (top / "stranger").write_bytes(b"")
    os.chown(top / "stranger", 70000, 70001)
    capability = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
    os.setxattr(top / "set", "user.word", b"said")
    os.setxattr(top / "stranger", "security.capability", capability)
    everyone = 0xFFFFFFFF
    rights = acl(
        (1, 7, everyone), (2, 5, 33), (4, 5, everyone), (8, 4, 1003), (16, 7, everyone),
        (32, 0, everyone),
    )  # fmt: skip
    os.setxattr(top / "deep", "system.posix_acl_access", rights)
    os.setxattr(top / "deep", "system.posix_acl_default", rights)
    for place in (top / "deep/er/file", top / "deep/er", top / "deep", top):
        os.utime(place, ns=(10**18, 10**18 + 1))
    return top


def test_a_copy_is_what_an_id_mapped_mount_shows(layer: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_layer(str(layer), str(copy), OWNERS)
    for mounted in id_mapped(layer):
        expected = listing(mounted)
    found = listing(copy)
    assert found == expected
    assert found["deep"][1:3] == (100000, 100000)
    assert found["set"][:3] == ("-rwsr-sr-x", 300069, 300001)
    assert found["stranger"][1:3] == (65534, 65534)
    assert os.stat(copy / "sparse").st_blocks * 512 < 1 << 20


def test_a_full_disk_is_one_line(layer: Path, tmp_path: Path) -> None:
    (layer / "big").write_bytes(bytes(4096) + b"b" * (1 << 20))
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], check=True)
    try:
        with pytest.raises(MinirunError, match="no space left"):
            copy_layer(str(layer), str(small), OWNERS)
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Path]:
    """A store on an overlay, of which no id-mapped mount can be made."""
    for name in ("lower", "upper", "work", "store"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    store = tmp_path / "store"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, store], check=True)
    yield store
    subprocess.run(["umount", store], check=True)


SCRIPT = (
    "cat /proc/self/uid_map; ls -ln /bin/busybox /etc/mine; echo new > /etc/mine; cat /etc/mine"
)


def test_a_run_whose_layers_are_copied(overlay: Path, reachable: Program) -> None:
    layer = images.make(overlay, "app")
    (layer / "etc/mine").write_text("old\n")
    os.chown(layer / "etc/mine", 12, 34)
    flags = ("--uidmap", "0:100000:65536", "--name", "c")
    program = Program(reachable.path, reachable.root, store=overlay)  # a root that is reachable
    done = program("run", *flags, "app", "sh", "-c", SCRIPT)
    assert (done.returncode, done.stderr) == (0, "")
    ids, busybox, mine, content = done.stdout.splitlines()
    assert ids.split() == ["0", "100000", "65536"]
    assert busybox.split()[2:4] == ["0", "0"]
    assert mine.split()[2:4] == ["12", "34"]
    assert content == "new"
    assert (layer / "etc/mine").read_text() == "old\n"
    copies = [event for event in reachable.events() if event["name"] == "shifted_copy"]
    assert [event["args"]["layer"] for event in copies] == [str(layer)]
    assert reachable("delete", "c").returncode == 0
    assert reachable.left() == []


def test_where_an_id_mapped_mount_can_be_made_nothing_is_copied(reachable: Program) -> None:
    assert layer_of("busybox").is_dir()
    done = reachable("run", "--uidmap", "0:100000:65536", "busybox", "true")
    assert done.returncode == 0, done.stderr
    assert not [event for event in reachable.events() if event["name"] == "shifted_copy"]


def test_a_file_system_without_attributes(tmp_path: Path) -> None:
    """squashfs refuses to list those of a symbolic link; an image's layers may lie on one."""
    packed, mounted = tmp_path / "packed", tmp_path / "mounted"
    for folder in (tmp_path / "layer", mounted, tmp_path / "copy"):
        folder.mkdir()
    (tmp_path / "layer/file").write_text("content")
    (tmp_path / "layer/link").symlink_to("file")
    quiet = ["-quiet", "-no-progress", "-no-xattrs"]
    subprocess.run([installed("mksquashfs"), tmp_path / "layer", packed, *quiet], check=True)
    subprocess.run(["mount", "-o", "loop,ro", packed, mounted], check=True)
    try:
        with pytest.raises(OSError, match="not supported"):
            os.listxattr(mounted / "link", follow_symlinks=False)
        copy_layer(str(mounted), str(tmp_path / "copy"), OWNERS)
    finally:
        subprocess.run(["umount", mounted], check=True)
    assert (tmp_path / "copy/link").read_text() == "content"
    assert (tmp_path / "copy/link").lstat().st_uid == 100000
