"""Layers that want to reach the host: refused or contained, with one line, and nothing is left.

Each is taken into a store, and applied to a flat tree, beside a folder `host` that must not change.
The seconds of the fuzzing are MINIRUN_FUZZ_SECONDS.
"""

import gzip
import io
import os
import random
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import ImageError
from minirun.core.rootfs.tree import remove_tree
from minirun.image import store
from night import CASES
from rootfs_tools import image_spec
from rootfs_tools.gc import collect
from rootfs_tools.take import take
from rootfs_tools.unpack_layer import apply_flat, apply_overlay
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, Members, listing, member, tar

D, L, H, C = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE
SECONDS = float(os.environ.get("MINIRUN_FUZZ_SECONDS") or (20 if CASES else 3))
HOST = "HOST"
"""Stands for the path of the folder that must not change."""

REFUSED: dict[str, tuple[list[Members], str]] = {
    "dots": ([[member("../../host/x")]], "leads out"),
    "dots inside": ([[member("a/../../host/x")]], "leads out"),
    "a hard link outside": ([[member("x", H, linkname=f"{HOST}/file")]], "No such file|no such"),
    "a hard link by dots": ([[member("x", H, linkname="../../host/file")]], "leads out"),
    "a hard link through a link": (
        [[member("l", L, linkname=HOST), member("x", H, linkname="l/file")]], "[Nn]o such file",
    ),
    "deeper than anything": ([[member("d/" * 100_000 + "x")]], "deeper than 256"),
    "a mark of overlay": (
        [[member("x", pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/etc"})]], "mark of",
    ),
    "a mark for users": (
        [[member("x/", D, pax_headers={"SCHILY.xattr.user.overlay.opaque": "y"})]], "mark of",
    ),
    "a device that cannot be": ([[member("x", C, devmajor=1, devminor=2**20)]], "no device has"),
    "a whiteout made by hand": ([[member("x", C, devmajor=0, devminor=0)]], "device 0:0"),
    "a whiteout of dots": ([[member(".wh...")]], "whiteout of no file"),
    "an owner that is none": ([[member("x", uid=2**32 - 1)]], "no possible user"),
    "below a file": ([[member("f"), member("f/x")]], "[Nn]ot a directory|is a file"),
}  # fmt: skip
CONTAINED: dict[str, list[Members]] = {
    "an absolute name": [[member(f"{HOST}/x")]],
    "a link, then through it": [[member("l", L, linkname=HOST), member("l/file", content=b"!")]],
    "a link, then through it, next layer": [
        [member("l", L, linkname=HOST)], [member("l/file", content=b"!"), member("l/new")],
    ],
    "a folder becomes a link": [
        [member("d/", D), member("d/file")], [member("d", L, linkname=HOST)],
        [member("d/file", content=b"!")],
    ],
    "a whiteout through a link": [
        [member("l", L, linkname=HOST)], [member("l/.wh.file")], [member("l/.wh..wh..opq")],
    ],
    "a folder over a link": [[member("l", L, linkname=HOST)], [member("l/", D, mode=0o777)]],
    "a file over a link": [[member("l", L, linkname=f"{HOST}/file")], [member("l", content=b"!")]],
    "an attribute over a link": [
        [member("l", L, linkname=f"{HOST}/file")],
        [member("l", L, linkname=f"{HOST}/file", pax_headers={"SCHILY.xattr.user.x": "y"})],
    ],
    "setuid": [[member("su", mode=0o6755, content=b"!")]],
    "a device": [[member("mem", C, devmajor=1, devminor=1, mode=0o666)]],
    "the same name, often": [[member("x", content=b"%d" % n) for n in range(300)]],
    "a newline": [[member("a\nb"), member("\x1b[2Jc")]],
}  # fmt: skip


class Host:
    """A folder that must not change, and what is beside the trees."""

    def __init__(self, path: Path) -> None:
        self.path = path / "host"
        self.path.mkdir()
        (self.path / "file").write_text("host")
        self._before = listing(self.path)

    def layers(self, rows: list[Members]) -> list[bytes]:
        """Return the archives, with the folder's own path in them."""
        own = str(self.path)
        return [
            tar(*[
                (name.replace(HOST, own), kind, {
                    key: value.replace(HOST, own) if key == "linkname" else value
                    for key, value in fields.items()
                })
                for name, kind, fields in members
            ])
            for members in rows
        ]  # fmt: skip

    def check(self) -> None:
        assert listing(self.path) == self._before


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def flat(layers: list[bytes], tree: Path) -> None:
    tree.mkdir()
    for layer in layers:
        apply_flat(io.BytesIO(layer), str(tree))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, host: Host, tmp_path: Path) -> None:
    rows, words = REFUSED[name]
    layers = host.layers(rows)
    for way in (
        lambda: flat(layers, tmp_path / "flat"),
        lambda: take(str(tmp_path / "store"), "a", source(tmp_path, layers)),
    ):
        with pytest.raises(ImageError, match=words) as caught:
            way()
        assert "\n" not in str(caught.value)
        host.check()
    assert store.list_images(str(tmp_path / "store")) == []
    collect(str(tmp_path / "store"), list)
    left = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert [path.name for path in left] == [".lock"]


def source(tmp_path: Path, layers: list[bytes]) -> FolderSource:
    return FolderSource(LayoutFolder(tmp_path / "layout", *layers))


@pytest.mark.parametrize("name", CONTAINED)
def test_contained(name: str, host: Host, tmp_path: Path) -> None:
    layers = host.layers(CONTAINED[name])
    flat(layers, tmp_path / "flat")
    host.check()
    take(str(tmp_path / "store"), "a", source(tmp_path, layers))
    host.check()


def test_the_trees_that_are_contained(host: Host, tmp_path: Path) -> None:
    """A path through a link lies where a container would see it."""
    flat(host.layers(CONTAINED["a link, then through it"]), tmp_path / "flat")
    inside = tmp_path / "flat" / str(host.path)[1:]
    assert (inside / "file").read_text() == "!"


def test_an_opaque_folder_whose_parent_becomes_a_link(host: Host, tmp_path: Path) -> None:
    """What is hidden is looked for below the layer, and not where a link of it leads."""
    (host.path / "e").mkdir()
    below = tar(member("d/", D), member("d/e/", D), member("d/e/x"))
    rows = [member("d/e/", D), member("d/e/.wh..wh..opq"), member("d", L, linkname=HOST)]
    for path in ("lower", "upper"):
        (tmp_path / path).mkdir()
    apply_overlay(io.BytesIO(below), str(tmp_path / "lower"), [])
    layer = io.BytesIO(host.layers([rows])[0])
    apply_overlay(layer, str(tmp_path / "upper"), [str(tmp_path / "lower")])
    assert os.listdir(tmp_path / "upper") == ["d"]


@pytest.mark.parametrize("cut", [1, 100, 511, 513, 1500])
def test_truncated(cut: int, host: Host, tmp_path: Path) -> None:
    """An archive that ends too early, with a digest that is right."""
    whole = tar(member("a", content=b"x" * 3000), member("b"))
    with pytest.raises(ImageError):
        take(str(tmp_path / "store"), "a", source(tmp_path, [whole[:cut]]))
    assert store.list_images(str(tmp_path / "store")) == []


def test_zeros_take_no_disk(tmp_path: Path) -> None:
    size = 1 << 29
    info = tarfile.TarInfo("zeros")
    info.size = size
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb", compresslevel=1) as out:
        out.write(info.tobuf())
        for _ in range(size >> 24):
            out.write(bytes(1 << 24))
        out.write(bytes(1024))
    tree = tmp_path / "tree"
    tree.mkdir()
    data.seek(0)
    apply_flat(io.BufferedReader(gzip.GzipFile(fileobj=data)), str(tree))  # type: ignore[type-var]
    info_of = os.stat(tree / "zeros")
    assert (info_of.st_size, info_of.st_blocks) == (size, 0)


def _mutations(chance: random.Random, data: bytes) -> bytes:
    spoilt = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(max(len(spoilt), 1))
        spoilt += b"" if spoilt else b"x"
        what = chance.randrange(4)
        if what == 0:
            spoilt[at] = chance.randrange(256)
        elif what == 1:
            del spoilt[at : at + chance.choice((1, 8, 512))]
        elif what == 2:
            spoilt[at:at] = chance.choice((b"\0", b"\xff" * 8, b"../", b".wh.", b"/" * 20))
        else:
            block = at - at % 512
            spoilt[at:at] = spoilt[block : block + 512]
    if chance.random() < 0.7:
        _mend_sums(spoilt)
    return bytes(spoilt)


def _mend_sums(data: bytearray) -> None:
    """Make the headers' checksums right, so that what stands behind them is read."""
    for at in range(0, len(data) - 511, 512):
        if data[at + 257 : at + 262] == b"ustar":
            data[at + 148 : at + 156] = b" " * 8
            data[at + 148 : at + 155] = b"%06o\0" % (sum(data[at : at + 512]) & 0o777777)


def test_fuzz(host: Host, tmp_path: Path) -> None:
    """Spoilt layers and documents: an ImageError or none, and nothing beside the tree changes."""
    seed = int(os.environ.get("MINIRUN_FUZZ_SEED") or time.time_ns())
    chance = random.Random(seed)
    rows: list[Members] = [
        [row for members in [*(rows for rows, _ in REFUSED.values()), *CONTAINED.values()]
         for layer in members for row in layer if len(row[0]) < 1000],
    ]  # fmt: skip
    (layer,) = host.layers(rows)
    documents = [
        (image_spec.MANIFESTS[0],
         b'{"schemaVersion":2,"config":{"mediaType":"a","digest":"sha256:%s",'
         b'"size":3},"layers":[{"digest":"sha256:%s","size":1}]}' % (b"a" * 64, b"b" * 64)),
        (image_spec.INDEXES[0], b'{"schemaVersion":2,"manifests":[{"digest":"sha256:%s","size":3,'
         b'"platform":{"os":"linux","architecture":"amd64"}}]}' % (b"a" * 64)),
    ]  # fmt: skip
    end = time.monotonic() + SECONDS
    count = 0
    while time.monotonic() < end:
        count += 1
        start = 512 * chance.randrange(len(layer) // 512)
        data: Any = _mutations(chance, layer[start : start + 20_000])
        tree = tmp_path / "tree"
        try:
            flat([data], tree)
        except ImageError:
            pass
        remove_tree(str(tree))  # 50,000 of them take minutes to remove
        media_type, document = chance.choice(documents)
        for read in (lambda text: image_spec.parse(media_type, text), image_spec.parse_config):  # noqa: B023
            try:
                read(_mutations(chance, document))
            except ImageError:
                pass
        if count % 50 == 0:
            host.check()
    host.check()
    assert count > 10, seed
