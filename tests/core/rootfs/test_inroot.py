"""The one way below a container's root, against the trees that have broken others."""

import ctypes
import errno
import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root

RENAME_EXCHANGE = 2
"""renameat2(2): two names change places in one step."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What a hostile image wants to reach."""
    path = tmp_path / "host"
    path.mkdir()
    (path / "secret").write_text("secret of the host")
    return path


def snapshot(path: Path) -> list[tuple[str, str, int]]:
    """Names, contents and kinds of all that lies in a directory."""
    return sorted(
        (str(p), p.read_text() if p.is_file() else "", p.lstat().st_mode) for p in path.rglob("*")
    )


LINKS: dict[str, Callable[[Path], str]] = {
    "absolute": lambda host: str(host),
    "with dots": lambda host: "../host",
    "with many dots": lambda host: "../" * 50 + str(host).lstrip("/"),
    "through the root of init": lambda host: f"/proc/1/root{host}",
    "through our own cwd": lambda host: f"/proc/self/cwd{host}",
}


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_leads_nowhere_but_into_the_root(
    root: Root, tree: Path, outside: Path, kind: str
) -> None:
    (tree / "etc").symlink_to(LINKS[kind](outside))
    before = snapshot(outside)
    with pytest.raises(FileNotFoundError):
        root.read("/etc/secret", 100)
    with pytest.raises(OSError):
        os.close(root.open("/etc/new", os.O_WRONLY | os.O_CREAT, 0o600))
    for fd in (root.make_dir("/etc/made"), root.make_file("/etc/file"), root.make_dir("/etc")):
        assert os.readlink(f"/proc/self/fd/{fd}").startswith(f"{tree}/")
        os.close(fd)
    assert snapshot(outside) == before


def test_a_link_within_the_root_is_followed_as_in_the_container(root: Root, tree: Path) -> None:
    (tree / "usr/lib").mkdir(parents=True)
    (tree / "usr/lib/file").write_text("here")
    (tree / "lib").symlink_to("/usr/lib")
    (tree / "up").symlink_to("../../../../usr/lib")
    assert root.read("/lib/file", 100) == b"here"
    assert root.read("up/file", 100) == b"here"
    assert root.read("/lib/../lib/./file", 100) == b"here"
    assert root.read("../../../usr/lib/file", 100) == b"here"
    os.close(root.make_dir("/lib/x/y"))
    assert (tree / "usr/lib/x/y").is_dir()
    os.close(root.make_file("/up/new"))
    assert (tree / "usr/lib/new").read_text() == ""


def test_links_in_a_circle(root: Root, tree: Path) -> None:
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    for act in (root.open, root.make_dir, root.make_file):
        with pytest.raises(OSError) as caught:
            act("/a/x")
        assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize("link", ["cwd", "root", "exe", "fd/{fd}"])
def test_magic_links_of_proc_are_not_followed(outside: Path, link: str) -> None:
    """Even where the root has a real procfs, /proc/PID/root and the like lead nowhere."""
    fd = os.open(outside, os.O_RDONLY)
    root = Root.at("/")
    try:
        path = f"/proc/{os.getpid()}/{link.format(fd=fd)}"
        with pytest.raises(OSError) as caught:
            os.close(root.open(path))
        assert caught.value.errno == errno.ELOOP
        with pytest.raises(OSError) as caught:
            os.close(root.make_dir(f"{path}/made"))
        assert caught.value.errno == errno.ELOOP
    finally:
        root.close()
        os.close(fd)
    assert [p.name for p in outside.iterdir()] == ["secret"]


def test_the_link_itself_can_be_opened(root: Root, tree: Path, outside: Path) -> None:
    (tree / "link").symlink_to(outside)
    fd = root.open("/link", os.O_PATH | os.O_NOFOLLOW)
    assert stat.S_ISLNK(os.fstat(fd).st_mode)
    os.close(fd)


def test_descriptors_are_not_inherited(root: Root, tree: Path) -> None:
    fds = [root.fd, root.open("/"), root.make_dir("/a/b"), root.make_file("/a/c")]
    fds.append(root.make_parent("/a/d")[0])
    assert not any(os.get_inheritable(fd) for fd in fds)
    for fd in fds[1:]:
        os.close(fd)


def test_make_dir_keeps_what_is_there(root: Root, tree: Path) -> None:
    (tree / "a").mkdir(mode=0o700)
    (tree / "a/file").write_text("stays")
    old = os.umask(0)
    try:
        os.close(root.make_dir("/a/b/c", 0o711))
        os.close(root.make_dir("/a"))
    finally:
        os.umask(old)
    modes = [stat.S_IMODE((tree / name).stat().st_mode) for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o711, 0o711]
    assert (tree / "a/file").read_text() == "stays"


def test_make_dir_of_the_root_and_with_dots(root: Root, tree: Path) -> None:
    for path in ("/", "", ".", "/..", "//", "/./"):
        fd = root.make_dir(path)
        assert os.path.samestat(os.fstat(fd), os.stat(tree))
        os.close(fd)
    os.close(root.make_dir("/x/../y/./z"))
    assert (tree / "y/z").is_dir()


def test_make_dir_over_a_file(root: Root, tree: Path) -> None:
    (tree / "file").write_text("")
    for path in ("/file", "/file/below"):
        with pytest.raises(NotADirectoryError) as caught:
            root.make_dir(path)
        assert caught.value.filename.startswith("/file")


def test_make_dir_through_a_link_to_nothing(root: Root, tree: Path, tmp_path: Path) -> None:
    """An image with /var/run → /run, and without /run; runc makes it as well."""
    (tree / "link").symlink_to("/nosuch")
    os.close(root.make_dir("/link/x"))
    assert (tree / "nosuch/x").is_dir()
    assert not (tmp_path / "nosuch").exists()


def test_no_descriptor_leaks_where_it_fails(root: Root, tree: Path) -> None:
    (tree / "file").write_text("")
    (tree / "link").symlink_to("/file")
    before = os.listdir("/proc/self/fd")
    for act in (root.make_dir, root.make_file, lambda p: root.read(p, 1), root.make_parent):
        for path in ("/a/../file/x/y", "/link/x/y", "/b/c/../../file/z/y"):
            with pytest.raises(OSError):
                act(path)
    assert os.listdir("/proc/self/fd") == before


def test_make_file_keeps_what_is_there(root: Root, tree: Path) -> None:
    (tree / "etc").mkdir()
    (tree / "etc/hosts").write_text("stays")
    fd = root.make_file("/etc/hosts")
    assert os.path.samestat(os.fstat(fd), os.stat(tree / "etc/hosts"))
    os.close(fd)
    assert (tree / "etc/hosts").read_text() == "stays"
    old = os.umask(0)
    try:
        os.close(root.make_file("/new/dir/file", 0o640))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tree / "new/dir/file").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("/run/systemd/resolv.conf", "run/systemd/resolv.conf"),
        ("../run/systemd/resolv.conf", "run/systemd/resolv.conf"),
        ("other", "etc/other"),
        ("../../../../../made", "made"),
        ("/../../../made", "made"),
        ("first", "etc/last"),
    ],
)
@pytest.mark.parametrize("make", [Root.make_file, Root.make_dir])
def test_what_a_link_to_nothing_leads_to_is_made(
    root: Root, tree: Path, tmp_path: Path, link: str, target: str, make: Callable[..., int]
) -> None:
    """What a mount onto /etc/resolv.conf meets in many an image; runc makes the target as well."""
    (tree / "real").mkdir()
    (tree / "etc").symlink_to("real")
    (tree / "etc/resolv.conf").symlink_to(link)
    (tree / "etc/first").symlink_to("second")
    (tree / "etc/second").symlink_to("last")
    before = snapshot(tmp_path)
    fd = make(root, "/etc/resolv.conf")
    assert os.path.samestat(os.fstat(fd), os.lstat(tree / target))
    os.close(fd)
    made = {row[0] for row in snapshot(tmp_path)} - {row[0] for row in before}
    assert all(path.startswith(f"{tree}/") for path in made)


@pytest.mark.parametrize("make", [Root.make_file, Root.make_dir])
def test_links_without_end(root: Root, tree: Path, make: Callable[..., int]) -> None:
    for number in range(60):
        (tree / f"link{number}").symlink_to(f"link{number + 1}")
    with pytest.raises(OSError) as caught:
        make(root, "/link0")
    assert caught.value.errno == errno.ELOOP
    assert not (tree / "link60").exists()


@pytest.mark.parametrize("path", ["/", "", ".", "/a/..", "/a/.", "a/../.."])
def test_a_file_needs_a_name(root: Root, path: str) -> None:
    with pytest.raises(OSError) as caught:
        root.make_parent(path)
    assert caught.value.errno == errno.EINVAL


def test_parent(root: Root, tree: Path) -> None:
    fd, name = root.make_parent("/a/b/c/")
    assert name == "c"
    assert os.path.samestat(os.fstat(fd), os.stat(tree / "a/b"))
    os.close(fd)


def test_read_reads_at_most_the_limit(root: Root, tree: Path) -> None:
    (tree / "passwd").write_bytes(b"x" * 200_000)
    assert root.read("/passwd", 10) == b"x" * 10
    assert len(root.read("passwd", 1 << 20)) == 200_000
    assert root.read("/passwd", 0) == b""


def test_read_takes_regular_files_only_and_never_waits(root: Root, tree: Path) -> None:
    """A FIFO, an endless device or a directory as /etc/passwd once stopped engines."""
    os.mkfifo(tree / "fifo")
    os.mknod(tree / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    os.mknod(tree / "tty", stat.S_IFCHR | 0o666, os.makedev(5, 0))
    (tree / "dir").mkdir()
    for name in ("fifo", "zero", "dir"):
        with pytest.raises(OSError, match="not a regular file") as caught:
            root.read(f"/{name}", 10)
        assert caught.value.filename == f"/{name}"
    with pytest.raises(OSError):
        root.read("/tty", 10)


def test_read_does_not_even_open_a_device(root: Root, tree: Path) -> None:
    """To open the watchdog's starts it, and then the host reboots: 4095 is no device's number."""
    os.mknod(tree / "watchdog", stat.S_IFCHR | 0o666, os.makedev(4095, 130))
    with pytest.raises(OSError, match=r"No such device|Permission denied"):
        os.open(tree / "watchdog", os.O_RDONLY)
    with pytest.raises(OSError, match="not a regular file"):
        root.read("/watchdog", 10)


def test_read_takes_no_file_of_the_kernel(tree: Path, isolated: Any) -> None:
    """A container's /etc/passwd -> /proc/kmsg blocked, and read the host's messages."""
    for name in ("proc", "sys"):
        (tree / name).mkdir()
    (tree / "passwd").symlink_to("/proc/kmsg")

    def body() -> None:
        mounts.mount("proc", str(tree / "proc"), "proc")
        mounts.mount("sysfs", str(tree / "sys"), "sysfs")
        inner = Root.at(str(tree))
        for path in ("/passwd", "/proc/version", "/sys/kernel/notes"):
            with pytest.raises(OSError, match="not a regular file"):
                inner.read(path, 10)
        assert inner.read("/proc/version", 5, pseudo=True) == b"Linux"

    isolated(body)


def test_an_error_names_the_path_and_the_call(root: Root) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        root.open("/no/such")
    assert caught.value.filename == "/no/such"
    assert vars(caught.value)["call"] == "openat2"


def test_names_that_are_not_text(root: Root, tree: Path) -> None:
    name = os.fsdecode(b"\xff\xfe")
    os.close(root.make_file(f"/{name}/x"))
    assert os.listdir(os.fsencode(tree)) == [b"\xff\xfe"]


def swapping(tree: Path, outside: Path) -> int:
    """Fork a process that exchanges tree/a (a directory) for a link to the host, for ever.

    It rests after each 101 exchanges, so that a busy processor meets both states.
    """
    (tree / "a").mkdir()
    (tree / "link").symlink_to(outside)
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(tree)
            rename = ctypes.CDLL(None).renameat2
            done = 0
            while rename(-100, b"a", -100, b"link", RENAME_EXCHANGE) == 0:
                done += 1
                if done % 101 == 0:
                    time.sleep(0.0005)
        finally:
            os._exit(1)
    return pid


def test_a_directory_that_becomes_a_link_while_we_work(
    root: Root, tree: Path, outside: Path
) -> None:
    """CVE-2021-30465, CVE-2024-45310: nothing appears on the host, whatever is exchanged when."""
    before = snapshot(outside)
    pid = swapping(tree, outside)
    done = failed = 0
    try:
        start = time.monotonic()
        while (spent := time.monotonic() - start) < 1.5 or (min(done, failed) < 51 and spent < 60):
            for act, path in ((root.make_dir, f"/a/d{done}/e"), (root.make_file, f"/a/f{done}")):
                try:
                    os.close(act(path))
                    done += 1
                except OSError:
                    failed += 1
            with pytest.raises(OSError):
                root.read("/a/secret", 100)
    finally:
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert snapshot(outside) == before
    assert done > 50  # it was a race, and not only failures
    assert failed > 50
