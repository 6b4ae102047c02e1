"""Importing an archive: from a file, compressed or not; nothing is left of one that fails."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools import catalogue
from rootfs_tools.history import steps
from rootfs_tools.importer import import_tar


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 100_000
            tar.addfile(info, io.BytesIO(os.urandom(50_000) + bytes(50_000)))
    return stream.getvalue()


def left(path: Path) -> list[str]:
    return [name for name in os.listdir(path / "images") if not name.startswith(".lock-")]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_import_records_where_it_came_from(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    data = compress(archive("etc/hostname", "bin/sh"))
    image = import_tar(str(tmp_path), "team/app:1", io.BytesIO(data), "app.tar")
    assert image.name == "team/app:1"
    assert image.origin == "imported from app.tar"
    (step,) = steps(str(tmp_path), "team/app:1")
    digest = hashlib.sha256(data).hexdigest()
    assert step.created_by == f"imported from app.tar: sha256:{digest}"
    assert sorted(os.listdir(image.layers[0])) == ["bin", "etc"]
    assert catalogue.verify(str(tmp_path), "team/app:1") == ""


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("cut", [3, 600, -40000])
def test_a_cut_archive_leaves_nothing(
    tmp_path: Path, compress: Callable[[bytes], bytes], cut: int
) -> None:
    data = compress(archive("a"))[:cut]
    with pytest.raises(ImageError) as caught:
        import_tar(str(tmp_path), "app", io.BytesIO(data), "app.tar")
    assert caught.value.status == 125
    assert left(tmp_path) == []


def test_what_is_no_root_filesystem_is_named(tmp_path: Path) -> None:
    for data, message in (
        (archive("oci-layout", "blobs/x"), "app.tar holds an image"),
        (b"\x28\xb5\x2f\xfd" + bytes(600), r"app\.tar is damaged: Compressed file ended"),
        (gzip.compress(archive("a"))[:-6] + b"111111", r"app\.tar is damaged: CRC check failed"),
    ):
        with pytest.raises(ImageError, match=message):
            import_tar(str(tmp_path), "app", io.BytesIO(data), "app.tar")
    assert left(tmp_path) == []


def test_a_name_that_is_there_gets_the_new_image(tmp_path: Path) -> None:
    first = import_tar(str(tmp_path), "app", io.BytesIO(archive("a")), "one.tar")
    with pytest.raises(ImageError, match="ends in the middle"):
        import_tar(str(tmp_path), "app", io.BytesIO(archive("b")[:100]), "cut.tar")
    assert catalogue.resolve(str(tmp_path), "app") == first
    import_tar(str(tmp_path), "app", io.BytesIO(archive("b")), "two.tar")
    assert os.listdir(catalogue.resolve(str(tmp_path), "app").layers[0]) == ["b"]


@pytest.mark.parametrize("data", [b"", bytes(10240), gzip.compress(b"", mtime=0)])
def test_an_empty_archive_is_an_image_without_files(tmp_path: Path, data: bytes) -> None:
    """As docker takes it: tar c --files-from /dev/null | docker import - scratch."""
    image = import_tar(str(tmp_path), "scratch", io.BytesIO(data), "-")
    assert [os.listdir(path) for path in image.layers] == [[]]
    assert catalogue.verify(str(tmp_path), "scratch") == ""


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_an_archive_without_its_end_is_whole(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    """Go's archive/tar writes one if it is not closed, and reads it: so do docker and umoci."""
    whole = archive("a", "b")
    size = 2 * (512 + 100_352)
    assert not any(whole[size:])
    for data in (whole[:size], whole[: size - 352]):  # without the last file's padding too
        image = import_tar(str(tmp_path), "app", io.BytesIO(compress(data)), "app.tar")
        assert sorted(os.listdir(image.layers[0])) == ["a", "b"]


def test_one_archive_is_one_image(tmp_path: Path) -> None:
    """However it is compressed it is one layer; its date is that of its newest file."""
    with tarfile.open(tmp_path / "app.tar", "w") as tar:
        for name, date in (("a", 1_000_000_000), ("b", 900_000_000)):
            info = tarfile.TarInfo(name)
            info.mtime = date
            tar.addfile(info)
    data = (tmp_path / "app.tar").read_bytes()
    one = import_tar(str(tmp_path), "one", io.BytesIO(data), "app.tar")
    assert import_tar(str(tmp_path / "2"), "two", io.BytesIO(data), "app.tar").digest == one.digest
    packed = import_tar(str(tmp_path), "packed", io.BytesIO(gzip.compress(data)), "app.tar")
    assert packed.layers == one.layers
    assert catalogue.details(str(tmp_path), "one")["created"] == "2001-09-09T01:46:40Z"
