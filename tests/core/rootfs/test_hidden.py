"""Masked and read-only paths and sysctls, in a root of their own with a real /proc."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.kernel import mounts, namespaces
from minirun.core.rootfs import execute, hidden
from minirun.core.rootfs.inroot import Root
from minirun.oci.tuning.sysctl import Sysctl
from records import whole

ALL = ("mount", "pid", "uts", "ipc", "network", "cgroup")
Inside = Callable[[Callable[[], object]], None]
RECORD = whole("/b/c1")


def config(kinds: tuple[str, ...] = ALL, readonly: bool = False, **linux: Any) -> Config:
    root = {"path": "rootfs", "readonly": readonly}
    linux["namespaces"] = [{"type": kind} for kind in kinds]
    return Config({"ociVersion": "1.2.0", "root": root, "linux": linux}, "/bundle")


def container(config: Config) -> Any:
    return SimpleNamespace(config=config, record=RECORD)


@pytest.fixture
def inside(tree: Path, isolated: Any) -> Inside:
    """Runs a function as init after pivot_root: / is `tree`, with /proc and /dev/null in it."""
    for name in ("proc", "dev", "etc/dir"):
        (tree / name).mkdir(parents=True)
    (tree / "etc/file").write_text("content")
    (tree / "etc/dir/inner").write_text("content")
    os.mknod(tree / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def run(body: Callable[[], object]) -> None:
        def init() -> None:
            flags = namespaces.CLONE_NEWUTS | namespaces.CLONE_NEWIPC | namespaces.CLONE_NEWNET
            namespaces.unshare(flags)
            mounts.mount(str(tree), str(tree), None, mounts.MS_BIND)
            remount = mounts.MS_BIND | mounts.MS_REMOUNT
            mounts.mount(None, str(tree), None, remount)  # /tmp may have nodev, which this has not
            mounts.mount("proc", str(tree / "proc"), "proc")
            os.chdir(tree)
            mounts.chroot(".")
            body()

        isolated(init)

    return run


def hide_paths(config: Config) -> None:
    root = Root.at("/")
    execute(hidden.plan(config), root)
    root.close()


def refused(act: Callable[[], object]) -> int:
    with pytest.raises(OSError) as caught:
        act()
    return caught.value.errno or 0


def test_masked_paths(inside: Inside) -> None:
    def body() -> None:
        hide_paths(config(maskedPaths=["/etc/file", "/etc/dir", "/proc/version", "/proc/nosuch"]))
        assert Path("/etc/file").read_bytes() == b""
        assert os.stat("/etc/file").st_rdev == os.makedev(1, 3)
        assert os.listdir("/etc/dir") == []
        assert refused(lambda: Path("/etc/dir/new").mkdir()) == errno.EROFS
        assert Path("/proc/version").read_bytes() == b""

    inside(body)


def test_read_only_paths(inside: Inside) -> None:
    def body() -> None:
        hide_paths(config(readonlyPaths=["/proc/sys", "/etc/dir", "/etc/file"]))
        assert refused(lambda: Path("/proc/sys/kernel/hostname").write_text("x")) == errno.EROFS
        assert refused(lambda: Path("/etc/dir/new").write_text("x")) == errno.EROFS
        assert refused(lambda: Path("/etc/file").write_text("x")) == errno.EROFS
        assert Path("/etc/file").read_text() == "content"
        Path("/etc/new").write_text("the rest stays writable")

    inside(body)


def test_read_only_holds_for_the_mounts_below(inside: Inside) -> None:
    def body() -> None:
        os.mkdir("/etc/dir/sub")
        mounts.mount("tmpfs", "/etc/dir/sub", "tmpfs")
        hide_paths(config(readonlyPaths=["/etc/dir"]))
        assert refused(lambda: Path("/etc/dir/sub/new").write_text("x")) == errno.EROFS

    inside(body)


def test_paths_that_are_not_there_are_passed_over(inside: Inside) -> None:
    def body() -> None:
        before = Path("/proc/self/mountinfo").read_text()
        paths = ["/nosuch", "/etc/nosuch/x"]
        hide_paths(config(maskedPaths=[*paths, "/etc/file/below"], readonlyPaths=paths))
        assert Path("/proc/self/mountinfo").read_text() == before

    inside(body)


def test_a_masked_link_hides_what_it_points_to_inside(inside: Inside, tree: Path) -> None:
    (tree / "link").symlink_to("../../../../etc/file")

    def body() -> None:
        hide_paths(config(maskedPaths=["/link"]))
        assert Path("/etc/file").read_bytes() == b""

    inside(body)


@pytest.mark.parametrize("what", ["a file", "a link to a file", "another device", "a FIFO"])
def test_a_false_dev_null_is_found_out(inside: Inside, tree: Path, what: str) -> None:
    """CVE-2025-31133: the image chose what /dev/null is, and it was bound over masked paths."""
    null = tree / "dev/null"
    null.unlink()
    if what == "a file":
        null.write_text("")
    elif what == "a link to a file":
        null.symlink_to("/etc/file")
    elif what == "another device":
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    else:
        os.mkfifo(null)

    def body() -> None:
        with pytest.raises(MinirunError, match="/dev/null in the container is not the device 1:3"):
            hide_paths(config(maskedPaths=["/proc/version"]))

    inside(body)


@pytest.mark.parametrize("readonly", [True, False])
def test_a_read_only_root(inside: Inside, readonly: bool) -> None:
    def body() -> None:
        mounts.mount("tmpfs", "/etc/dir", "tmpfs")
        hide_paths(config(readonly=readonly))
        if readonly:
            assert refused(lambda: Path("/new").write_text("x")) == errno.EROFS
        else:
            Path("/new").write_text("x")
        Path("/etc/dir/new").write_text("a mount of its own stays writable")

    inside(body)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kernel.domainname", "example"),
        ("net.ipv4.ip_forward", "1"),
        ("net/ipv4/ip_forward", "1"),
        ("kernel.msgmax", "9000"),
        ("kernel.shmmni", "4000"),
        ("fs.mqueue.msg_max", "11"),
    ],
)
def test_a_sysctl_of_a_namespace_is_written(inside: Inside, key: str, value: str) -> None:
    def body() -> None:
        Sysctl(container(config(sysctl={key: value}))).after_pivot()
        path = Path("/proc/sys", key.replace(".", "/"))
        assert path.read_text().strip() == value

    inside(body)


@pytest.mark.parametrize(
    ("key", "kinds", "text"),
    [
        ("kernel.core_pattern", ALL, "is not separate per container"),
        ("vm.swappiness", ALL, "is not separate per container"),
        ("fs.file-max", ALL, "is not separate per container"),
        ("kernel.domainname", ("mount",), "needs a uts namespace"),
        ("kernel.hostname", ALL, "set `hostname` in config.json instead"),
        ("kernel.shmmax", ("mount", "uts"), "needs a ipc namespace"),
        ("net.ipv4.ip_forward", ("mount", "ipc"), "needs a network namespace"),
        ("net.ipv4/../../kernel/core_pattern", ALL, "is not the name of a sysctl"),
        ("net./../kernel/core_pattern", ALL, "is not the name of a sysctl"),
        ("net.", ALL, "is not the name of a sysctl"),
        ("net..ipv4", ALL, "is not the name of a sysctl"),
        ("net.no.such", ALL, "cannot be set to 'x': no such file or directory"),
        ("net.ipv4", ALL, "cannot be set to 'x': is a directory"),
        ("net.ipv4.ip_forward", ALL, "cannot be set to 'x': invalid argument"),
    ],
)
def test_a_sysctl_that_is_refused(
    inside: Inside, key: str, kinds: tuple[str, ...], text: str
) -> None:
    """CVE-2022-0811, CVE-2024-3154: what is not the container's own would change the host."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()

    def body() -> None:
        with pytest.raises(ConfigError) as caught:
            Sysctl(container(config(kinds, sysctl={key: "x"}))).after_pivot()
        assert str(caught.value) == f"config.json: linux.sysctl.{key}: {text}" or (
            text.startswith("needs") and text in str(caught.value)
        )

    inside(body)
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern


def test_sysctls_need_a_real_procfs(inside: Inside) -> None:
    """CVE-2019-16884: an image with a directory, or a volume, in place of /proc."""

    def body() -> None:
        mounts.mount("tmpfs", "/proc", "tmpfs")
        path = Path("/proc/sys/kernel/domainname")
        path.parent.mkdir(parents=True)
        path.write_text("")
        with pytest.raises(MinirunError, match="/proc in the container is not procfs"):
            Sysctl(container(config(sysctl={"kernel.domainname": "x"}))).after_pivot()
        assert path.read_text() == ""

    inside(body)


def test_sysctls_do_not_cross_a_mount_inside_of_proc(inside: Inside) -> None:
    """CVE-2025-52881: another file, mounted over the one that is to be written."""

    def body() -> None:
        mounts.mount("/etc/file", "/proc/sys/kernel/domainname", None, mounts.MS_BIND)
        with pytest.raises(ConfigError, match="invalid cross-device link"):
            Sysctl(container(config(sysctl={"kernel.domainname": "x"}))).after_pivot()
        assert Path("/etc/file").read_text() == "content"

    inside(body)


def test_nothing_leaks(inside: Inside) -> None:
    def body() -> None:
        before = os.listdir("/proc/self/fd")
        masked, readonly = ["/etc/file", "/etc/dir", "/dev", "/nosuch"], ["/etc/dir", "/nosuch"]
        sysctl = {"kernel.domainname": "x"}
        made = config(ALL, True, sysctl=sysctl, maskedPaths=masked, readonlyPaths=readonly)
        Sysctl(container(made)).after_pivot()
        hide_paths(made)
        assert os.listdir("/proc/self/fd") == before

    inside(body)
