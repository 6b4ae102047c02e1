"""The reader of archives: the same members as tarfile's, and an end with everything else."""

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minirun.core.errors import ImageError
from night import examples
from rootfs_tools.tar.fields import HEADER_LIMIT
from rootfs_tools.tar.stream import members


def header(**fields: bytes) -> bytes:
    """One ustar header with a right checksum; `fields` replace bytes of it by name."""
    offsets = {
        "name": 0, "mode": 100, "uid": 108, "gid": 116, "size": 124, "mtime": 136, "kind": 156,
        "link": 157, "magic": 257, "prefix": 345,
    }  # fmt: skip
    block = bytearray(512)
    values = {"name": b"a", "kind": b"0", "magic": b"ustar\x0000"} | fields
    for name, value in values.items():
        block[offsets[name] : offsets[name] + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)


def read(data: bytes) -> list[tuple[str, str, bytes]]:
    found = []
    for member, body in members(io.BytesIO(data)):
        content = b""
        while chunk := body.read(100):
            content += chunk
        found.append((member.name, member.kind, content))
    return found


def test_reads_content_and_skips_what_is_not_read() -> None:
    block = header(size=b"%011o" % 600) + b"x" * 600 + bytes(424)
    data = block + header(name=b"b") + END
    assert read(data) == [("a", "file", b"x" * 600), ("b", "file", b"")]
    assert [member.name for member, _ in members(io.BytesIO(data))] == ["a", "b"]


def test_prefix_only_in_ustar() -> None:
    assert read(header(prefix=b"dir") + END)[0][0] == "dir/a"
    assert read(header(prefix=b"dir", magic=b"ustar  \0") + END)[0][0] == "a"


def test_an_old_directory_ends_with_a_slash() -> None:
    assert read(header(name=b"d/", kind=b"\0", magic=bytes(8)) + END)[0][1] == "dir"


def test_pax_header_of_all_members_and_of_one() -> None:
    def pax(kind: bytes, text: bytes) -> bytes:
        return header(kind=kind, size=b"%011o" % len(text)) + text + bytes(-len(text) % 512)

    data = (
        pax(b"g", b"9 uid=77\n") + header() + pax(b"x", b"9 uid=88\n") + header() + header() + END
    )
    assert [member.uid for member, _ in members(io.BytesIO(data))] == [77, 88, 77]
    (member, _) = next(members(io.BytesIO(pax(b"x", b"18 mtime=-1.00025\n") + header() + END)))
    assert member.mtime == -1_000_250_000


@pytest.mark.parametrize("end", [b"", bytes(1), bytes(424), bytes(424 + 512), bytes(424) + END])
def test_the_end_may_be_missing(end: bytes) -> None:
    """As Go's archive/tar reads it: in old layers of docker's even the last padding is missing."""
    data = header(size=b"%011o" % 600) + b"x" * 600
    assert read(data + end) == [("a", "file", b"x" * 600)]
    assert read(b"") == []


def test_pax_headers_for_all_members_have_an_end() -> None:
    """Each may be 1 MiB large, and there may be any number of them: they add up to no more."""

    def pax(number: int) -> bytes:
        text = b"".join(b"24 %06d-%06d=%06d\n" % (number, key, key) for key in range(20_000))
        return header(kind=b"g", size=b"%011o" % len(text)) + text + bytes(-len(text) % 512)

    with pytest.raises(ImageError, match="pax headers of more than"):
        read(b"".join(map(pax, range(10))) + header() + END)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header()[:100], "ends in the middle"),
        (header(kind=b"x", size=b"%011o" % 9) + b"9 uid=77\n".ljust(512), "ends in the middle"),
        (header(size=b"%011o" % 600) + b"x" * 500, "ends in the middle"),
        (b"\x00" * 511 + b"\x01", "wrong checksum"),
        (b"not a tar archive at all".ljust(512), "wrong checksum"),
        (header(size=b"\xff" * 12) + END, "negative or too large"),
        (header(size=b"\x80" + b"\xff" * 11) + END, "negative or too large"),
        (header(size=b"-0000000001") + END, "is not a number"),
        (header(size=b"0000000009") + END, "is not a number"),
        (header(uid=b"0x10") + END, "is not a number"),
        (header(kind=b"L", size=b"%011o" % (HEADER_LIMIT + 1)) + END, "a header of 1048577 bytes"),
        (header(kind=b"x", size=b"77777777777") + END, "a header of 8589934591 bytes"),
        (header(kind=b"S", size=b"%011o" % 5) + b"x" * 512 + END, "not what is stored"),
        (header(kind=b"V") + END, "is of type"),
        *[
            (header(kind=b"x", size=b"%011o" % len(text)) + text.ljust(512, b"\0") + header(), why)
            for text, why in [
                (b"5 a=1\n", "damaged pax header"),
                (b"99 a=1\n", "damaged pax header"),
                (b"0 a=1\n", "damaged pax header"),
                (b"-6 a=1\n", "is not a number"),
                (b"6 a_1\n", "damaged pax header"),
                (b"9" * 30, "is not a number"),
                (b"18 size=123456789\n", "ends in the middle"),
                (b"11 size=-5\n", "is not a number"),
                (b"13 mtime=nan\n", "is not a number"),
                (
                    b"22 mtime=999999999999\n",
                    "999999999999 seconds since 1970 is not a time",
                ),
            ]
        ],
    ],
)
def test_a_bad_archive_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        read(data)
    assert "\n" not in caught.value.line()


def test_a_stream_that_gives_little_at_a_time() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 7))

    data = header(size=b"%011o" % 600) + b"x" * 600 + bytes(424) + END
    assert [(m.name, len(b.read(10))) for m, b in members(Slow(data))] == [("a", 7)]


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=2048), st.integers(0, 511), st.binary(max_size=40))
def test_no_bytes_lead_to_anything_but_an_error(noise: bytes, at: int, patch: bytes) -> None:
    sample = bytearray(header(size=b"%011o" % 10) + b"y" * 512 + header(kind=b"5") + END)
    sample[at : at + len(patch)] = patch
    for data in (noise, bytes(sample), header(kind=b"x", size=b"%011o" % 512) + noise):
        try:
            for member, body in members(io.BytesIO(data)):
                assert member.size >= 0
                body.read(10)
        except ImageError:
            pass


LETTERS = st.characters(blacklist_characters="\0/", blacklist_categories=["Cs"])


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(LETTERS, min_size=1),
            st.binary(max_size=2000), st.integers(0, 2**32 - 2), st.integers(0, 0o7777),
        ),
        max_size=5,
    ),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
)  # fmt: skip
def test_reads_what_tarfile_writes(entries: list[tuple[str, bytes, int, int]], form: int) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, encoding="utf-8") as tar:
        for name, content, uid, mode in entries:
            info = tarfile.TarInfo(name)
            info.size, info.uid, info.mode = len(content), uid, mode
            tar.addfile(info, io.BytesIO(content))
    stream.seek(0)
    found = []
    for member, body in members(stream):
        content = b""
        while chunk := body.read(1000):
            content += chunk
        found.append((member.name, content, member.uid, member.mode))
    assert found == entries
