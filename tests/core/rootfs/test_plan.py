"""Every operation of a plan: what it says, what it does, and that it stays inside the root."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minirun.core import rootfs
from minirun.core.kernel import mounts
from minirun.core.rootfs import operations
from minirun.core.rootfs.inroot import Root


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A directory of the host that nothing may change."""
    path = tmp_path / "host"
    path.mkdir()
    (path / "file").write_text("of the host")
    return path


OPERATIONS: list[tuple[Any, str]] = [
    (operations.Symlink("/proc/self/fd", "/dev/fd"), "ln -s /proc/self/fd /dev/fd"),
    (operations.MakeNode("/dev/null", "c", 1, 3, 0o666), "mknod -m 666 /dev/null c 1 3"),
    (operations.WriteFile("/etc/hostname", b"c1\n"), "write 3 bytes to /etc/hostname"),
    (operations.MountFs("tmpfs", "shm", "/dev/shm", 0, "size=64k"),
     "mount -t tmpfs shm /dev/shm -o size=64k"),
    (operations.MountFs("proc", "proc", "/proc"), "mount -t proc proc /proc"),
    (operations.Bind("/etc/hosts", "/etc/hosts"), "mount --rbind /etc/hosts /etc/hosts"),
    (operations.Bind("/etc", "/x", 1, False), "mount --bind /etc /x"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "text"), OPERATIONS)
def test_each_operation_says_what_it_will_do(operation: Any, text: str) -> None:
    assert operation.describe() == text


@pytest.mark.parametrize("operation", [row[0] for row in OPERATIONS])
def test_no_operation_follows_a_link_to_the_host(
    operation: Any, tree: Path, host: Path, isolated: Any
) -> None:
    """The parent directory, and where there is none the name itself, is a link to the host.

    It is refused, or what the link leads to is made inside the root.
    """
    first = operation.path.split("/")[1]
    (tree / first).symlink_to(host)

    def body() -> None:
        root = Root.at(str(tree))
        with contextlib.suppress(OSError):
            operation.execute(root)
        assert [p.name for p in host.iterdir()] == ["file"]
        assert (host / "file").read_text() == "of the host"
        assert f" {host}" not in Path("/proc/self/mountinfo").read_text()

    isolated(body)


def test_symlink_leaves_what_is_there(tree: Path, root: Root) -> None:
    operations.Symlink("/target", "/dir/link").execute(root)
    operations.Symlink("/other", "/dir/link").execute(root)
    assert os.readlink(tree / "dir/link") == "/target"


@pytest.mark.parametrize(
    ("kind", "test"), [("c", stat.S_ISCHR), ("b", stat.S_ISBLK), ("p", stat.S_ISFIFO)]
)
def test_make_node(
    tree: Path, root: Root, isolated: Any, kind: str, test: Callable[[int], bool]
) -> None:
    isolated(lambda: operations.MakeNode("/dev/x", kind, 240, 7, 0o640, 5, 6).execute(root))
    info = (tree / "dev/x").stat()
    assert test(info.st_mode)
    assert stat.S_IMODE(info.st_mode) == 0o640
    assert (info.st_uid, info.st_gid) == (5, 6)
    if kind != "p":
        assert (os.major(info.st_rdev), os.minor(info.st_rdev)) == (240, 7)
    with pytest.raises(FileExistsError):
        operations.MakeNode("/dev/x", kind, 1, 3).execute(root)


def test_write_file_writes_and_overwrites(tree: Path, root: Root) -> None:
    operations.WriteFile("/etc/x", b"longer", 0o600).execute(root)
    operations.WriteFile("/etc/x", b"new").execute(root)
    assert (tree / "etc/x").read_bytes() == b"new"
    assert stat.S_IMODE((tree / "etc/x").stat().st_mode) == 0o600


def test_write_file_never_writes_to_anything_but_a_file(tree: Path, root: Root, host: Path) -> None:
    (tree / "link").symlink_to(host / "file")
    (tree / "inside").symlink_to("/real")
    (tree / "real").write_text("stays")
    os.mkfifo(tree / "fifo")
    os.mknod(tree / "full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    full = errno.EACCES if os.statvfs(tree).f_flag & os.ST_NODEV else errno.EINVAL
    expected = {
        "link": errno.ELOOP, "inside": errno.ELOOP, "fifo": errno.ENXIO, "full": full,
    }  # fmt: skip
    for name, code in expected.items():
        with pytest.raises(OSError) as caught:
            operations.WriteFile(f"/{name}", b"x").execute(root)
        assert caught.value.errno == code, name
    assert (host / "file").read_text() == "of the host"
    assert (tree / "real").read_text() == "stays"


def test_mount_a_file_system(tree: Path, isolated: Any, mount_at: Any) -> None:
    flags = mounts.MS_NOSUID | mounts.MS_NODEV

    def body() -> None:
        root = Root.at(str(tree))
        operations.MountFs("tmpfs", "shm", "/dev/shm", flags, "mode=1777,size=64k").execute(root)
        found = mount_at(tree / "dev/shm")
        assert (found["fstype"], found["source"]) == ("tmpfs", "shm")
        assert {"nosuid", "nodev"} <= set(found["options"].split(","))
        assert "size=64k" in found["data"]

    isolated(body)
    assert list((tree / "dev/shm").iterdir()) == []


def test_a_mount_that_fails_names_its_path(tree: Path, isolated: Any) -> None:
    def body() -> None:
        root = Root.at(str(tree))
        with pytest.raises(OSError) as caught:
            operations.MountFs("nosuchfs", "x", "/mnt").execute(root)
        assert (caught.value.errno, caught.value.filename) == (errno.ENODEV, "/mnt")

    isolated(body)


def test_bind_a_file_and_a_directory(tree: Path, host: Path, isolated: Any) -> None:
    def body() -> None:
        root = Root.at(str(tree))
        operations.Bind(str(host), "/mnt/dir").execute(root)
        operations.Bind(str(host / "file"), "/mnt/file").execute(root)
        assert (tree / "mnt/dir/file").read_text() == "of the host"
        assert (tree / "mnt/file").read_text() == "of the host"
        (tree / "mnt/dir/new").write_text("written through")
        assert (host / "new").read_text() == "written through"

    isolated(body)
    assert (tree / "mnt/dir").is_dir()
    assert (tree / "mnt/file").read_text() == ""


def test_a_read_only_bind_leaves_the_source_writable(tree: Path, host: Path, isolated: Any) -> None:
    def body() -> None:
        root = Root.at(str(tree))
        operations.Bind(str(host), "/mnt", mounts.MOUNT_ATTR_RDONLY).execute(root)
        with pytest.raises(OSError) as caught:
            (tree / "mnt/new").write_text("x")
        assert caught.value.errno == errno.EROFS
        (host / "new").write_text("x")

    isolated(body)


@pytest.mark.parametrize("recursive", [True, False])
def test_a_bind_takes_the_mounts_below_along_or_not(
    tree: Path, host: Path, isolated: Any, recursive: bool
) -> None:
    (host / "sub").mkdir()

    def body() -> None:
        root = Root.at(str(tree))
        mounts.mount("tmpfs", str(host / "sub"), "tmpfs")
        (host / "sub/inner").write_text("")
        attributes = mounts.MOUNT_ATTR_RDONLY
        operations.Bind(str(host), "/mnt", attributes, recursive).execute(root)
        assert (tree / "mnt/sub/inner").exists() == recursive
        with pytest.raises(OSError) as caught:
            (tree / "mnt/sub/new").write_text("x")
        assert caught.value.errno == errno.EROFS

    isolated(body)


def test_a_bind_lands_inside_even_where_the_mount_point_is_a_link(
    tree: Path, host: Path, isolated: Any
) -> None:
    (tree / "etc").mkdir()
    (tree / "etc/hosts").symlink_to("/real")
    (tree / "real").write_text("the image's")

    def body() -> None:
        root = Root.at(str(tree))
        operations.Bind(str(host / "file"), "/etc/hosts").execute(root)
        assert (tree / "real").read_text() == "of the host"

    isolated(body)
    assert (tree / "real").read_text() == "the image's"


def test_a_bind_of_something_that_is_not_there(root: Root, tree: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        operations.Bind("/nosuch/source", "/mnt").execute(root)
    assert caught.value.filename == "/nosuch/source"
    assert list(tree.iterdir()) == []


def test_a_plan_is_executed_in_order(tree: Path, root: Root) -> None:
    steps: rootfs.Plan = (
        operations.WriteFile("/etc/a", b"1"),
        operations.Symlink("a", "/etc/b"),
        operations.MountFs("tmpfs", "tmpfs", "/etc/b/below"),
        operations.WriteFile("/etc/never", b""),
    )
    with pytest.raises(NotADirectoryError):
        rootfs.execute(steps, root)
    assert (tree / "etc/b").read_bytes() == b"1"
    assert not (tree / "etc/never").exists()


def test_nothing_leaks(tree: Path, host: Path, isolated: Any) -> None:
    def body() -> None:
        root = Root.at(str(tree))
        before = os.listdir("/proc/self/fd")
        for operation, _ in OPERATIONS:
            operation.execute(root)
        for operation, _ in OPERATIONS:
            try:
                operation.execute(root)
            except OSError:
                pass
        assert os.listdir("/proc/self/fd") == before

    isolated(body)
