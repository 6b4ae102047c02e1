"""Archives that minirun writes: what readers find in them, and that they stay the same."""

import hashlib
import io
import subprocess
import tarfile

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.tar.stream import Member, members
from rootfs_tools.tar.writer import TarWriter

PLAIN = Member("etc/motd", "file", 0o644, 0, 0, 5, 10**18, "", (0, 0), {})
ODD = [
    PLAIN,
    PLAIN._replace(name="d", kind="dir", mode=0o1777, size=0),
    PLAIN._replace(name="a/" * 60 + "ustar has a prefix for it"),
    PLAIN._replace(name="n" * 101),
    PLAIN._replace(name="x/" * 200 + "y"),
    PLAIN._replace(name="é/日本"),
    PLAIN._replace(name="latin-\udce9"),
    PLAIN._replace(name="long-\udce9" * 30),
    PLAIN._replace(name="new\nline"),
    PLAIN._replace(name="l", kind="link", target="t" * 300, size=0),
    PLAIN._replace(name="h", kind="hard link", target="etc/motd", size=0),
    PLAIN._replace(name="null", kind="c", device=(1, 3), size=0),
    PLAIN._replace(name="big device", kind="b", device=(4095, 1048575), size=0),
    PLAIN._replace(name="fifo", kind="p", size=0),
    PLAIN._replace(name="ids", uid=2**31, gid=2**32 - 2),
    PLAIN._replace(name="ns", mtime=1_700_000_000_123_456_789),
    PLAIN._replace(name="before 1970", mtime=-1_500_000_000),
    PLAIN._replace(name="long ago", mtime=-(10**18)),
    PLAIN._replace(name="late", mtime=9 * 10**18),
    PLAIN._replace(name="xattr", xattrs={"user.a": b"1\n\0=", "security.capability": bytes(20)}),
]


def written(*rows: Member) -> bytes:
    stream = io.BytesIO()
    writer = TarWriter(stream)
    for row in rows:
        writer.add(row, io.BytesIO(b"hello") if row.kind == "file" else None)
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize("row", ODD, ids=lambda row: repr(row.name[:12]))
def test_what_is_written_is_read(row: Member) -> None:
    found = [(member, body.read(99)) for member, body in members(io.BytesIO(written(row)))]
    name = f"{row.name}/" if row.kind == "dir" else row.name
    assert found == [(row._replace(name=name), b"hello" if row.kind == "file" else b"")]


def test_python_reads_the_same() -> None:
    with tarfile.open(fileobj=io.BytesIO(written(*ODD))) as tar:
        found = [(each.name, each.mode, each.uid, each.gid, each.linkname) for each in tar]
        assert found == [(row.name, row.mode, row.uid, row.gid, row.target) for row in ODD]
        times = [each.mtime for each in tar]
    assert times == pytest.approx([row.mtime / 1e9 for row in ODD])


def test_gnu_tar_reads_the_same() -> None:
    command = ["tar", "-t", "--quoting-style=literal", "--null", "-f", "-"]
    names = subprocess.run(command, input=written(*ODD), capture_output=True, check=True)
    assert names.stderr == b""
    wanted = [row.name.encode(errors="surrogateescape") for row in ODD]
    assert names.stdout.replace(b"/\n", b"\n") == b"\n".join(wanted) + b"\n"


def test_the_same_members_make_the_same_bytes() -> None:
    assert written(*ODD) == written(*ODD)
    digest = hashlib.sha256(written(*ODD)).hexdigest()
    assert digest == "cefad7638836063f213c81cfad4dae6088420ea94a3c097b93adde1e52cc0b64"


def test_a_file_that_has_become_shorter_is_filled_up() -> None:
    stream = io.BytesIO()
    writer = TarWriter(stream)
    writer.add(PLAIN._replace(size=1000), io.BytesIO(b"short"))
    writer.add(PLAIN, io.BytesIO(b"longer"))
    writer.finish()
    stream.seek(0)
    assert [body.read(2000) for _, body in members(stream)] == [b"short" + bytes(995), b"longe"]


@pytest.mark.parametrize(
    "row", [PLAIN._replace(name="a\0b"), PLAIN._replace(xattrs={"user.a=b": b""})]
)
def test_what_no_archive_can_say_is_refused(row: Member) -> None:
    with pytest.raises(ImageError):
        written(row)
