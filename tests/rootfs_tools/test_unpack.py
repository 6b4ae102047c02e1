"""Unpacking: what a good archive holds arrives, what a hostile one wants does not happen.

Everything is unpacked by a child process in a jail: a chroot with a `host` beside the `tree`. An
archive that got out would get into the jail, where it is seen, and not into this machine
(security: images; CVE numbers name what the test would have caught).
"""

import io
import os
import resource
import signal
import stat
import tarfile
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from minirun.core.kernel import mounts, namespaces
from minirun.faces.doctor.attempts import in_child
from rootfs_tools import tree
from rootfs_tools.unpack import unpack

Entry = tuple[str, bytes, dict[str, object]]


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> Entry:
    return name, kind, fields


def archive(*entries: Entry, form: int = tarfile.PAX_FORMAT) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name, kind, fields in entries:
            member = tarfile.TarInfo(name)
            member.type = kind
            member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            content = fields.pop("content", b"")
            assert isinstance(content, bytes)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(content))
    stream.seek(0)
    return stream


class Jail:
    """A directory with `tree`, `host` and `proc`: the root directory of the process that
    unpacks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = path / "tree"
        for name in ("tree", "host", "proc"):
            (path / name).mkdir(parents=True)
        (path / "host" / "file").write_text("host")

    def unpack(self, stream: io.BytesIO, limit: int = 0) -> int:
        """Unpack below `tree`; files may be `limit` bytes large. Raises ImageError."""

        def attempt() -> str:
            namespaces.unshare(namespaces.FLAGS["mount"])
            mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
            mounts.mount("proc", str(self.path / "proc"), "proc")
            os.chroot(self.path)
            os.chdir("/")
            if limit:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                return str(unpack(stream, "/tree"))
            except ImageError as error:  # in_child tells no kind
                return f"ImageError: {error}"

        works, text = in_child(attempt)
        assert works, text
        kind, _, message = text.partition(": ")
        if kind == "ImageError":
            raise ImageError(message)
        return int(text)

    def outside(self) -> list[object]:
        """All that lies beside the tree, and when the jail itself was changed last."""
        listing = [entry for entry in tree.listing(str(self.path)) if "/tree/" not in entry[0]]
        times = [os.lstat(path).st_mtime_ns for path in (self.path, self.path / "host")]
        return [*listing, times]


@pytest.fixture
def jail(tmp_path: Path) -> Jail:
    return Jail(tmp_path / "jail")


def test_everything_that_a_tree_can_hold_arrives(jail: Jail) -> None:
    source = jail.path / "source"
    (source / "dir").mkdir(parents=True)
    (source / "dir" / "file").write_bytes(os.urandom(700_000))
    (source / "empty").touch()
    os.chmod(source / "dir" / "file", 0o6755)
    os.chmod(source / "dir", 0o1777)
    os.chown(source / "empty", 1234, 4_000_000_000)
    os.link(source / "dir" / "file", source / "same")
    os.symlink("/etc/passwd", source / "link")
    os.link(source / "link", source / "same-link", follow_symlinks=False)
    os.mkfifo(source / "fifo", 0o640)
    os.mknod(source / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(source / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 300))
    (source / ("n" * 255)).write_text("long")
    (source / "\udcff\nname").write_text("odd")
    (source / ("d" * 200) / ("e" * 200)).mkdir(parents=True)
    os.utime(source / "link", ns=(1, 1_600_000_000_123_456_789), follow_symlinks=False)
    os.utime(source / "dir", ns=(1, 1_500_000_000_000_000_001))
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
            tar.add(source, ".")
        stream.seek(0)
        jail.unpack(stream)
        assert list(tree.listing(str(jail.tree))) == list(tree.listing(str(source)))
        assert os.stat(jail.tree / "same").st_nlink == 2
        assert os.lstat(jail.tree / "dir").st_mtime_ns // 10**9 == 1_500_000_000
        assert os.lstat(jail.tree / "link").st_mtime_ns // 10**9 == 1_600_000_000
    fraction = os.lstat(jail.tree / "link").st_mtime_ns % 10**9
    assert abs(fraction - 123_456_789) < 1000, "pax has it all, but for tarfile's own rounding"


def test_extended_attributes(jail: Jail) -> None:
    capability = b"\1\0\0\2\0\4\0\0" + bytes(12)  # cap_net_bind_service+ep, version 2
    headers = {
        "SCHILY.xattr.security.capability": capability.decode("utf-8"),
        "SCHILY.xattr.user.note": "line\nline",
        "SCHILY.xattr.security.selinux": "system_u",
    }
    jail.unpack(archive(entry("ping", pax_headers=headers, uid=5)))
    ping = jail.tree / "ping"
    found = {name: os.getxattr(ping, name) for name in os.listxattr(ping)}
    assert found == {"security.capability": capability, "user.note": b"line\nline"}


def test_a_later_member_replaces_an_earlier_one(jail: Jail) -> None:
    entries = [
        entry("a", content=b"old"), entry("a", content=b"new"),
        entry("b", tarfile.DIRTYPE), entry("b/inside"), entry("b", content=b"file"),
        entry("c", tarfile.SYMTYPE, linkname="a"), entry("c", content=b"own"),
        entry("d", tarfile.DIRTYPE), entry("d/kept"), entry("d", tarfile.DIRTYPE, mode=0o700),
        entry("e", tarfile.SYMTYPE, linkname="d"), entry("e", tarfile.DIRTYPE),
        entry("f", tarfile.LNKTYPE, linkname="a"), entry("f", content=b"split"),
    ]  # fmt: skip
    assert jail.unpack(archive(*entries)) == len(entries)
    texts = {name: (jail.tree / name).read_text() for name in "abcf"}
    assert texts == {"a": "new", "b": "file", "c": "own", "f": "split"}
    assert (jail.tree / "d" / "kept").exists()
    assert stat.S_IMODE((jail.tree / "d").stat().st_mode) == 0o700
    assert (jail.tree / "e").is_dir() and not (jail.tree / "e").is_symlink()


def test_links_inside_are_followed_inside(jail: Jail) -> None:
    entries = [
        entry("usr/lib", tarfile.DIRTYPE),
        entry("lib", tarfile.SYMTYPE, linkname="/usr/lib"),
        entry("lib/so", content=b"1"),
        entry("up", tarfile.SYMTYPE, linkname="../../../.."),
        entry("up/top", content=b"2"),
        entry("/absolute", content=b"3"),
    ]
    jail.unpack(archive(*entries))
    assert (jail.tree / "usr/lib/so").read_bytes() == b"1"
    assert (jail.tree / "top").read_bytes() == b"2"
    assert (jail.tree / "absolute").read_bytes() == b"3"


def hostile() -> dict[str, list[Entry]]:
    """Archives that want to read or change `host`, by what they try."""
    outside = "/host"
    link = entry("link", tarfile.SYMTYPE, linkname=outside)
    chain = [entry(("x" * 250 + "/") * n, tarfile.DIRTYPE) for n in (1, 5, 10)]
    steps = "/".join(["x" * 250] * 10)
    return {
        "dot dot": [entry("../host/file", content=b"bad")],
        "dot dot in the middle": [entry("a/../../host/file", content=b"bad")],
        "absolute": [entry(f"{outside}/file", content=b"bad")],
        "through an absolute link": [link, entry("link/file", content=b"bad")],
        "through a relative link": [
            entry("link", tarfile.SYMTYPE, linkname="../host"), entry("link/file", content=b"bad"),
        ],
        "onto a link": [
            entry("l", tarfile.SYMTYPE, linkname=f"{outside}/file"), entry("l", content=b"bad"),
        ],
        "through two links": [
            entry("a", tarfile.SYMTYPE, linkname="."),
            entry("a/b", tarfile.SYMTYPE, linkname=outside), entry("b/file", content=b"bad"),
        ],
        "hard link by absolute name": [
            entry("h", tarfile.LNKTYPE, linkname=f"{outside}/file"), entry("h", content=b"bad"),
        ],
        "hard link by dot dot": [entry("h", tarfile.LNKTYPE, linkname="../host/file")],
        "hard link through a link": [link, entry("h", tarfile.LNKTYPE, linkname="link/file")],
        "hard link to a link, then chmod": [
            entry("l", tarfile.SYMTYPE, linkname=f"{outside}/file"),
            entry("h", tarfile.LNKTYPE, linkname="l"), entry("h", mode=0o777, content=b"bad"),
        ],
        "directory over a link": [link, entry("link", tarfile.DIRTYPE, mode=0o777)],
        "device through a link": [
            link, entry("link/null", tarfile.CHRTYPE, devmajor=1, devminor=3),
        ],
        "directory date through a link": [
            entry("d", tarfile.DIRTYPE, mtime=1), entry("d", tarfile.SYMTYPE, linkname=outside),
        ],
        "PATH_MAX, as CVE-2025-4517": [
            *chain, entry("long", tarfile.SYMTYPE, linkname=steps),
            entry("out", tarfile.SYMTYPE, linkname="long/" + "../" * 30 + outside[1:]),
            entry("out/file", content=b"bad"),
        ],
    }  # fmt: skip


@pytest.mark.parametrize("name", hostile())
def test_nothing_leaves_the_tree(jail: Jail, name: str) -> None:
    before = jail.outside()
    try:
        jail.unpack(archive(*hostile()[name]))
    except ImageError as error:
        assert "\n" not in error.line()
    assert jail.outside() == before
    inside = [os.lstat(os.path.join(d, f)) for d, _, names in os.walk(jail.tree) for f in names]
    assert os.stat(jail.path / "host" / "file").st_ino not in [s.st_ino for s in inside]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry("..")], "leads out of the root filesystem"),
        ([entry("a/../b")], "leads out of the root filesystem"),
        ([entry("h", tarfile.LNKTYPE, linkname="../x")], "leads out of the root filesystem"),
        ([entry("h", tarfile.LNKTYPE, linkname="x")], "No such file"),
        ([entry("d", tarfile.DIRTYPE), entry("h", tarfile.LNKTYPE, linkname="d")], "not permitted"),
        ([entry(".", content=b"x")], "is the root and no directory"),
        ([entry("a/.wh.b")], "is a whiteout"),
        ([entry(".wh..wh..opq")], "is a whiteout"),
        ([entry("a", tarfile.CHRTYPE)], "mark of overlay: the device 0:0"),
        (
            [entry("a", tarfile.DIRTYPE, pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"})],
            r"mark of overlay: trusted\.overlay\.opaque",
        ),
        (
            [entry("a", pax_headers={"SCHILY.xattr.user.overlay.redirect": "/etc"})],
            "mark of overlay",
        ),
        ([entry("/".join("d" * 300))], "lies deeper than 256"),
        ([entry("n" * 256)], "File name too long"),
        ([entry("a", uid=2**32 - 1)], "belongs to no possible user"),
        ([entry("a", gid=2**40)], "belongs to no possible user"),
        ([entry("a", content=b"x"), entry("a/b")], "Not a directory"),
        ([entry("a", pax_headers={"GNU.sparse.major": "1"})], "is not a number"),
        ([entry("a", tarfile.CONTTYPE), entry("b", b"V")], "is of type"),
        ([entry("a", pax_headers={"path": "b\0c"})], "NUL byte"),
        ([entry("a", tarfile.SYMTYPE, linkname="")], "No such file"),
        (
            [entry("x0", pax_headers={"SCHILY.xattr.user.big": "v" * 65537})],
            "'x0': the attribute 'user.big' of 65537 bytes: argument list too long",
        ),
        (
            [entry("x0", tarfile.DIRTYPE, pax_headers={f"SCHILY.xattr.user.{'n' * 300}": "v"})],
            "'x0/': the attribute 'user.nnn.* of 1 bytes: numerical result out of range",
        ),
    ],
)
def test_refused_with_the_members_name(jail: Jail, entries: list[Entry], message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        jail.unpack(archive(*entries))
    assert caught.value.status == 125
    assert len(caught.value.line()) < 600


def test_a_fifo_does_not_hang(jail: Jail) -> None:
    entries = [entry("f", tarfile.FIFOTYPE), entry("f", content=b"x"), entry("f", tarfile.FIFOTYPE)]
    jail.unpack(archive(*entries))
    assert stat.S_ISFIFO(os.lstat(jail.tree / "f").st_mode)


def test_a_full_disk_is_one_line(jail: Jail) -> None:
    """A file larger than the limit of file sizes stands in for a disk with no space left."""
    with pytest.raises(ImageError, match="archive: 'big': File too large"):
        jail.unpack(archive(entry("big", content=bytes(10_000))), limit=4096)
