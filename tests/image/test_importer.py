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
from minirun.image import catalogue
from minirun.image.importer import import_tar


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
    recipe = catalogue.details(str(tmp_path), "team/app:1")["recipe"]
    assert recipe["archive"] == "sha256:" + hashlib.sha256(data).hexdigest()
    assert sorted(os.listdir(image.layers[0])) == ["bin", "etc"]
    assert catalogue.verify(str(tmp_path), "team/app:1") == ""


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("cut", [0, 3, 600, -2000])
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
        (bytes(10240), "app.tar is an empty archive"),
        (b"\x28\xb5\x2f\xfd" + bytes(600), r"app\.tar is damaged: Compressed file ended"),
        (gzip.compress(archive("a"))[:-6] + b"111111", r"app\.tar is damaged: CRC check failed"),
    ):
        with pytest.raises(ImageError, match=message):
            import_tar(str(tmp_path), "app", io.BytesIO(data), "app.tar")
    assert left(tmp_path) == []


def test_a_taken_name_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    first = import_tar(str(tmp_path), "app", io.BytesIO(archive("a")), "one.tar")
    stream = io.BytesIO(archive("b"))
    with pytest.raises(ImageError, match="already there"):
        import_tar(str(tmp_path), "app", stream, "two.tar")
    assert stream.tell() == 0
    assert catalogue.resolve(str(tmp_path), "app") == first
