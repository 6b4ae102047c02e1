"""Unpacking: what a good archive holds arrives, what a hostile one wants does not happen.

Every hostile archive lies in a directory with a `host` beside the tree; after each attempt the
host is compared with what it was (security: images; CVE numbers name what the test would have
caught).
"""

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from minirun.errors import ImageError
from minirun.image import tree
from minirun.image.unpack import unpack

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


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("host")
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def host(target: Path) -> list[list[object]]:
    return list(tree.listing(str(target.parent / "host")))


def test_everything_that_a_tree_can_hold_arrives(target: Path) -> None:
    source = target.parent / "source"
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
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
            tar.add(source, ".")
        stream.seek(0)
        tree_path = target / str(form)
        tree_path.mkdir()
        unpack(stream, str(tree_path))
        assert list(tree.listing(str(tree_path))) == list(tree.listing(str(source)))
        assert os.stat(tree_path / "same").st_nlink == 2
        assert os.lstat(tree_path / "dir").st_mtime_ns // 10**9 == 1_500_000_000
    exact = target / str(tarfile.PAX_FORMAT) / "link"
    assert abs(os.lstat(exact).st_mtime_ns - 1_600_000_000_123_456_789) < 10**6


def test_extended_attributes(target: Path) -> None:
    capability = b"\1\0\0\2\0\4\0\0" + bytes(12)  # cap_net_bind_service+ep, version 2
    headers = {
        "SCHILY.xattr.security.capability": capability.decode("utf-8"),
        "SCHILY.xattr.user.note": "line\nline",
        "SCHILY.xattr.security.selinux": "system_u",
    }
    unpack(archive(entry("ping", pax_headers=headers, uid=5)), str(target))
    found = {name: os.getxattr(target / "ping", name) for name in os.listxattr(target / "ping")}
    assert found == {"security.capability": capability, "user.note": b"line\nline"}


def test_a_later_member_replaces_an_earlier_one(target: Path) -> None:
    entries = [
        entry("a", content=b"old"), entry("a", content=b"new"),
        entry("b", tarfile.DIRTYPE), entry("b/inside"), entry("b", content=b"file"),
        entry("c", tarfile.SYMTYPE, linkname="a"), entry("c", content=b"own"),
        entry("d", tarfile.DIRTYPE), entry("d/kept"), entry("d", tarfile.DIRTYPE, mode=0o700),
        entry("e", tarfile.SYMTYPE, linkname="d"), entry("e", tarfile.DIRTYPE),
        entry("f", tarfile.LNKTYPE, linkname="a"), entry("f", content=b"split"),
    ]  # fmt: skip
    assert unpack(archive(*entries), str(target)) == len(entries)
    texts = {name: (target / name).read_text() for name in "abcf"}
    assert texts == {"a": "new", "b": "file", "c": "own", "f": "split"}
    assert (target / "d" / "kept").exists()
    assert stat.S_IMODE((target / "d").stat().st_mode) == 0o700
    assert (target / "e").is_dir() and not (target / "e").is_symlink()


def test_links_inside_are_followed_inside(target: Path) -> None:
    entries = [
        entry("usr/lib", tarfile.DIRTYPE),
        entry("lib", tarfile.SYMTYPE, linkname="/usr/lib"),
        entry("lib/so", content=b"1"),
        entry("up", tarfile.SYMTYPE, linkname="../../../.."),
        entry("up/top", content=b"2"),
        entry("/absolute", content=b"3"),
    ]
    unpack(archive(*entries), str(target))
    assert (target / "usr/lib/so").read_bytes() == b"1"
    assert (target / "top").read_bytes() == b"2"
    assert (target / "absolute").read_bytes() == b"3"


def hostile(target: Path) -> dict[str, list[Entry]]:
    """Archives that want to read or change `host`; `{}`-free names, so each is one list."""
    outside = str(target.parent / "host")
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


@pytest.mark.parametrize("name", hostile(Path("/p/tree")))
def test_nothing_leaves_the_tree(target: Path, name: str) -> None:
    before = host(target)
    times = [os.lstat(path).st_mtime_ns for path in (target.parent / "host", target.parent)]
    try:
        unpack(archive(*hostile(target)[name]), str(target))
    except ImageError as error:
        assert "\n" not in error.line()
    assert host(target) == before
    assert times == [os.lstat(p).st_mtime_ns for p in (target.parent / "host", target.parent)]
    host_file = os.stat(target.parent / "host" / "file")
    inside = [os.lstat(os.path.join(d, f)) for d, _, names in os.walk(target) for f in names]
    assert host_file.st_ino not in [status.st_ino for status in inside]


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
        ([entry("a", pax_headers={"GNU.sparse.major": "1"})], "is a sparse file"),
        ([entry("a", tarfile.CONTTYPE), entry("b", b"S")], "is of type"),
        ([entry("a", pax_headers={"path": "b\0c"})], "NUL byte"),
        ([entry("a", tarfile.SYMTYPE, linkname="")], "No such file"),
    ],
)
def test_refused_with_the_members_name(target: Path, entries: list[Entry], message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        unpack(archive(*entries), str(target))
    assert caught.value.status == 125
    assert len(caught.value.line()) < 600


def test_a_fifo_does_not_hang(target: Path) -> None:
    entries = [entry("f", tarfile.FIFOTYPE), entry("f", content=b"x"), entry("f", tarfile.FIFOTYPE)]
    unpack(archive(*entries), str(target))
    assert stat.S_ISFIFO(os.lstat(target / "f").st_mode)


def test_a_full_disk_is_one_line(target: Path) -> None:
    """A file larger than the limit of file sizes stands in for a disk with no space left."""
    import resource
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(ImageError, match="archive: 'big': File too large"):
            unpack(archive(entry("big", content=bytes(10_000))), str(target))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
