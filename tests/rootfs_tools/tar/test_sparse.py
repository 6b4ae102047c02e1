"""Sparse files in archives: GNU tar writes them in four ways, and umoci's tree is the same."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minirun.core.errors import ImageError
from night import examples
from required import installed
from rootfs_tools.tar.stream import members
from rootfs_tools.unpack_layer import apply_flat
from tests.rootfs_tools.layouts import LayoutFolder, listing, umoci

FORMS = {
    "old": ("--format=gnu",), "0.0": ("--format=posix", "--sparse-version=0.0"),
    "0.1": ("--format=posix", "--sparse-version=0.1"),
    "1.0": ("--format=posix", "--sparse-version=1.0"),
}  # fmt: skip


def make(folder: Path, hole: int = 20 << 20) -> Path:
    """Files with holes: at both ends, nothing else, very many, none."""
    folder.mkdir()
    with open(folder / "ends", "wb") as file:
        file.seek(3 << 20)
        file.write(b"data" * 3000)
        file.truncate(9 << 20)
    with open(folder / "many", "wb") as file:
        for number in range(60):
            file.seek(number * 40960 + 4096)
            file.write(b"%d" % number)
    with open(folder / "hole", "wb") as file:
        file.truncate(hole)
    (folder / "plain").write_bytes(b"plain")
    (folder / ("long" * 40)).write_bytes(b"x")
    os.truncate(folder / ("long" * 40), 1 << 20)
    for path in sorted(folder.iterdir()):
        os.utime(path, (10**9, 10**9))
    os.utime(folder, (10**9, 10**9))
    return folder


def archive(folder: Path, form: str) -> bytes:
    argv = ["tar", "--sparse", *FORMS[form], "--sort=name", "-C", str(folder), "-c", "."]
    return subprocess.run(argv, capture_output=True, check=True).stdout


@pytest.mark.parametrize("form", FORMS)
def test_the_tree_is_umocis(tmp_path: Path, form: str) -> None:
    installed("umoci")
    layer = archive(make(tmp_path / "files"), form)
    assert len(layer) < 600_000
    folder = LayoutFolder(tmp_path / "layout", layer)
    (tmp_path / "flat").mkdir()
    apply_flat(io.BytesIO(layer), str(tmp_path / "flat"))
    found = listing(tmp_path / "flat")
    assert found == listing(tmp_path / "files")
    if form != "old":  # umoci 0.4: unknown typeflag 'S'
        assert found == listing(umoci(folder, tmp_path / "umoci"))


@pytest.mark.parametrize("form", FORMS)
def test_a_hole_takes_no_disk(tmp_path: Path, form: str) -> None:
    layer = archive(make(tmp_path / "files", 5 << 30), form)
    (tmp_path / "flat").mkdir()
    apply_flat(io.BytesIO(layer), str(tmp_path / "flat"))
    info = os.stat(tmp_path / "flat/hole")
    assert (info.st_size, info.st_blocks) == (5 << 30, 0)
    many = os.stat(tmp_path / "flat/many")
    assert many.st_blocks * 512 <= 60 * 4096 + 4096


@pytest.mark.parametrize("form", FORMS)
def test_who_only_reads_gets_zeros(tmp_path: Path, form: str) -> None:
    folder = make(tmp_path / "files", 1 << 20)
    data = archive(folder, form)
    found = {}
    for member, body in members(io.BytesIO(data)):
        if member.kind == "file":
            content = b"".join(iter(lambda body=body: body.read(5000), b""))  # type: ignore[misc]
            assert len(content) == member.size
            found[member.name.removeprefix("./")] = content
    assert found == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_not_read_is_skipped(tmp_path: Path) -> None:
    for form in FORMS:
        data = archive(make(tmp_path / form), form)
        names = [member.name for member, _ in members(io.BytesIO(data))]
        assert len(names) == 6


def pax(*records: tuple[str, str], content: bytes = b"", size: int | None = None) -> io.BytesIO:
    """An archive of one member with these pax records, whose keys may come again."""
    text = b""
    for key, value in records:
        body = f" {key}={value}\n".encode()
        length = len(body) + len(str(len(body) + 3))
        text += f"{length}".encode() + body
    info = tarfile.TarInfo("head")
    info.type, info.size = b"x", len(text)
    file = tarfile.TarInfo("file")
    file.size = len(content) if size is None else size
    pads = [bytes(-len(part) % 512) for part in (text, content)]
    data = info.tobuf() + text + pads[0] + file.tobuf() + content + pads[1] + bytes(1024)
    return io.BytesIO(data)


SIZE = ("GNU.sparse.size", "100")
ONE = (("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "100"))


@pytest.mark.parametrize(
    ("records", "content", "words"),
    [
        ((SIZE, ("GNU.sparse.map", "0,5,3,5")), b"x" * 10, "overlap"),
        ((SIZE, ("GNU.sparse.map", "99,2")), b"xx", "outside"),
        ((SIZE, ("GNU.sparse.map", "0,5")), b"x" * 6, "not what is stored"),
        ((SIZE, ("GNU.sparse.map", "0,5")), b"x" * 4, "not what is stored"),
        ((SIZE, ("GNU.sparse.map", "0,-5")), b"", "is not a number"),
        ((SIZE, ("GNU.sparse.map", "9" * 19)), b"", "is not a number"),
        ((("GNU.sparse.map", "0,5"),), b"x" * 5, "is not a number"),
        ((SIZE, ("GNU.sparse.numbytes", "5")), b"x" * 5, "take turns"),
        ((SIZE, ("GNU.sparse.offset", "5"), ("GNU.sparse.offset", "6")), b"", "take turns"),
        ((SIZE, ("GNU.sparse.major", "2")), b"", "does not know"),
        (ONE, b"", "its map has no end"),
        (ONE, b"999999999\n" + bytes(502), "is not a number|no end"),
        (ONE, b"1\n0\n" + b"1" * 508, "no end|is not a number"),
        (ONE, b"1\n-1\n5\n" + bytes(505), "is not a number"),
        ((("GNU.sparse.size", str(65 << 30)), ("GNU.sparse.map", "0,0")), b"", "64 GiB"),
    ],
)
def test_a_map_that_lies(records: tuple[tuple[str, str], ...], content: bytes, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        for _, body in members(pax(*records, content=content)):
            body.read(1 << 20)


def test_holes_add_up() -> None:
    """Each is below the limit, together they are not."""
    one = pax(("GNU.sparse.size", str(40 << 30)), ("GNU.sparse.map", "0,0")).getvalue()[:-1024]
    with pytest.raises(ImageError, match="64 GiB"):
        for _ in members(io.BytesIO(one + one + bytes(1024))):
            pass


def test_endless_pieces_of_the_old_form(tmp_path: Path) -> None:
    data = bytearray(archive(make(tmp_path / "files"), "old"))
    at = next(n for n in range(0, len(data), 512) if data[n + 156 : n + 157] == b"S"
              and data[n + 482])  # fmt: skip
    endless = bytes(data[at : at + 512]) + (bytes(504) + b"\1" + bytes(7)) * 4000
    with pytest.raises(ImageError, match="too many pieces"):
        list(members(io.BytesIO(endless)))


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = make(tmp_path_factory.mktemp("seeds") / "files")
    (folder / "hole").unlink()
    return [archive(folder, form) for form in FORMS]


@given(data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_nothing_else_than_an_error(seeds: list[bytes], data: st.DataObject) -> None:
    """Bytes of headers and maps are changed: the end is an ImageError, or a whole archive."""
    archive = bytearray(data.draw(st.sampled_from(seeds)))
    for _ in range(data.draw(st.integers(1, 4))):
        block = data.draw(st.integers(0, min(len(archive) // 512 - 1, 40)))
        at = block * 512 + data.draw(st.integers(0, 511))
        archive[at] = data.draw(st.sampled_from(b"0123456789S\n\0,\xff"))
        header = archive[block * 512 : block * 512 + 512]
        header[148:156] = b" " * 8
        archive[block * 512 + 148 : block * 512 + 156] = b"%06o\0 " % sum(header)
    try:
        for member, body in members(io.BytesIO(bytes(archive))):
            total = 0
            while True:
                total += body.hole()
                chunk = body.read(1 << 16)
                total += len(chunk)
                if not chunk:
                    break
            assert total == member.size
    except ImageError:
        pass
