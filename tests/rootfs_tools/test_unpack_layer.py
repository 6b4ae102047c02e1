"""A layer over others: the same trees as umoci makes, flat and as OverlayFS shows them."""

import gzip
import hashlib
import io
import os
import pickle
import struct
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import ImageError
from minirun.core.kernel import mounts, namespaces
from minirun.core.rootfs.build import RootMount
from minirun.faces.doctor.attempts import in_child
from required import installed
from rootfs_tools.archives import loading
from rootfs_tools.archives.files import opened
from rootfs_tools.image_spec import digest_of
from rootfs_tools.layers import Layers
from rootfs_tools.take import take
from rootfs_tools.unpack_layer import apply_flat
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, listing, member, tar, umoci

D, L, H, C = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE
CAPABILITY = b"\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0".decode("latin-1")
ACL, DEFAULT_ACL = (f"SCHILY.xattr.system.posix_acl_{kind}" for kind in ("access", "default"))


def acl(*entries: tuple[int, ...]) -> str:
    """An ACL as the kernel has it: (tag, permissions[, id]); acl(5), linux/posix_acl_xattr.h."""
    rows = [struct.pack("<HHI", *(*entry, 2**32 - 1)[:3]) for entry in entries]
    return (struct.pack("<I", 2) + b"".join(rows)).decode("utf-8", "surrogateescape")


BASE = (
    member("./", D), member("etc/", D, mode=0o700), member("etc/a", content=b"a"),
    member("etc/b", content=b"b", uid=5, gid=6), member("usr/", D), member("usr/lib/", D, uid=3),
    member("usr/lib/x", content=b"x"), member("lib", L, linkname="usr/lib"),
    member("deep/", D), member("deep/in/", D, mode=0o711), member("deep/in/side", content=b"s"),
    member("file", content=b"file"), member("hard", H, linkname="file"),
)  # fmt: skip

CASES: dict[str, list[tuple[Any, ...]]] = {
    "a file is removed": [(member("etc/.wh.a"),)],
    "a folder is removed": [(member(".wh.deep"),)],
    "what is not there is removed": [(member("etc/.wh.none"), member("none/.wh.x"))],
    "opaque": [(member("etc/", D), member("etc/.wh..wh..opq"), member("etc/new", content=b"n"))],
    "opaque, the mark last": [
        (member("etc/new"), member("etc/b", content=b"2"), member("etc/.wh..wh..opq"))
    ],
    "opaque, deep": [(member("deep/.wh..wh..opq"), member("deep/in/", D), member("deep/in/new"))],
    "a whiteout and the same name": [(member(".wh.deep"), member("deep/", D), member("deep/new"))],
    "the same name and a whiteout": [(member("deep/", D), member("deep/new"), member(".wh.deep"))],
    "a folder becomes a file": [(member("deep", content=b"f"),)],
    "a file becomes a folder": [
        (
            member("file/", D),
            member("file/in"),
        )
    ],
    "a folder, a file, a folder": [(member("deep"),), (member("deep/", D), member("deep/new"))],
    "a folder that is not named": [(member("deep/in/new"),), (member("etc/c"),)],
    "nothing of it is named": [(member("one/two/three"),)],
    "through a link": [(member("lib/new", content=b"n"), member("lib/x", content=b"y"))],
    "a whiteout through a link": [(member("lib/.wh.x"),)],
    "a folder becomes a link": [
        (member("deep", L, linkname="etc"),),
        (member("deep/c", content=b"c"),),
    ],
    "a link to the host": [
        (member("out", L, linkname="/etc"),),
        (member("out/new", content=b"n"),),
    ],
    "a link upwards": [(member("out", L, linkname="../../../../etc"),), (member("out/new"),)],
    "a hard link below": [(member("etc/link", H, linkname="etc/b"),)],
    "a hard link's other name changes": [(member("hard", content=b"else"),)],
    "twice in one layer": [
        (member("t", content=b"1"), member("t", content=b"22"), member("t/", D), member("t/x"))
    ],
    "a removed one comes back": [(member("etc/.wh.a"),), (member("etc/a", content=b"new"),)],
    "a removed folder comes back": [(member(".wh.deep"),), (member("deep/", D), member("deep/x"))],
    "owners and modes": [
        (
            member("etc/a", mode=0o6755, uid=70000, gid=80000),
            member("etc/", D, mode=0o1777),
        )
    ],
    "devices": [
        (member("null", C, devmajor=1, devminor=3, mode=0o666), member("p", tarfile.FIFOTYPE))
    ],
    "odd names": [
        (member("a b\n\t'\"\\"), member("\udcff\udcfe"), member("x" * 255), member(".wh")),
    ],
    "attributes": [
        (
            member("cap", mode=0o755, pax_headers={"SCHILY.xattr.security.capability": CAPABILITY}),
            member("user", pax_headers={"SCHILY.xattr.user.note": "text"}),
        )
    ],
    "access control lists": [
        (
            member(
                "file",
                mode=0o640,
                pax_headers={ACL: acl((1, 6), (2, 4, 1000), (4, 0), (16, 4), (32, 0))},
            ),
            member(
                "d/",
                D,
                mode=0o750,
                pax_headers={DEFAULT_ACL: acl((1, 7), (4, 5), (8, 7, 50), (16, 7), (32, 0))},
            ),
        )
    ],
    "an ACL that none inherits": [
        (
            member("d/", D, pax_headers={DEFAULT_ACL: acl((1, 7), (4, 7), (32, 7))}),
            member("d/in", mode=0o600),
            member("d/in2/", D, mode=0o700),
            member("d/p", tarfile.FIFOTYPE),
        ),
        (member("d/below", mode=0o640),),
    ],
    "a folder loses its attributes": [
        (member("etc/", D, mode=0o755, pax_headers={"SCHILY.xattr.user.note": "text"}),),
        (member("etc/", D, mode=0o700),),
    ],
    "sparse": [(member("zeros", content=bytes(3 << 20) + b"end" + bytes(1 << 19)),)],
    "times": [
        (
            member("t", mtime=1_234_567_890.123456),
            member("d/", D, mtime=-5.5),
            member("d/x"),
        )
    ],
    "no member": [()],
}
NEW = {"nothing of it is named": (".", "one", "one/two"), "the same name and a whiteout": ("deep",)}
"""Folders whose times are of the moment, here or with umoci: they are not compared."""


@pytest.fixture
def oracle(tmp_path: Path) -> Callable[..., tuple[LayoutFolder, dict[str, Any]]]:
    installed("umoci")

    def make(*layers: bytes, **more: Any) -> tuple[LayoutFolder, dict[str, Any]]:
        folder = LayoutFolder(tmp_path / "layout", *layers, **more)
        return folder, listing(umoci(folder, tmp_path / "umoci"))

    return make


def shown(layers: tuple[str, ...], scratch: Path) -> dict[str, Any]:
    """Return the listing of layers as a container sees them."""
    for name in ("rootfs", "upper", "work"):
        (scratch / name).mkdir(parents=True)

    def attempt() -> str:
        namespaces.unshare(namespaces.FLAGS["mount"])
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
        RootMount(str(scratch / "rootfs"), layers, str(scratch)).execute().close()
        (scratch / "listing").write_bytes(pickle.dumps(listing(scratch / "rootfs")))
        return ""

    works, text = in_child(attempt)
    assert works, text
    found: dict[str, Any] = pickle.loads((scratch / "listing").read_bytes())
    return found


def without_times(found: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[:-1] if name in names else row for name, row in found.items()}


@pytest.mark.parametrize("case", CASES)
def test_the_trees_are_umocis(case: str, oracle: Any, tmp_path: Path) -> None:
    layers = [tar(*BASE), *(tar(*each) for each in CASES[case])]
    folder, wanted = oracle(*layers)
    flat = tmp_path / "flat"
    flat.mkdir()
    for layer in layers:
        apply_flat(io.BytesIO(layer), str(flat))
    new = NEW.get(case, ())
    assert without_times(listing(flat), new) == without_times(wanted, new)
    store = tmp_path / "store"
    image = take(str(store), "test", FolderSource(folder))
    found = shown(image.layers, tmp_path / "own")
    above = (*new, ".")  # of the root OverlayFS shows the container's own layer
    assert without_times(found, above) == without_times(wanted, above)


AUFS = (
    member(".wh..wh.aufs"), member(".wh..wh.orph/", D), member(".wh..wh.orph/12", content=b"o"),
    member(".wh..wh.plnk/", D), member(".wh..wh.plnk/3.4", content=b"linked", mode=0o600),
)  # fmt: skip
OLD = {
    "of AUFS": (*AUFS, member("new")),
    "links into AUFS's folder": (
        *AUFS, member("1", H, linkname=".wh..wh.plnk/3.4"),
        member("2", H, linkname="/.wh..wh.plnk/3.4"),
    ),
    "in a folder": (member("d/", D), member("d/.wh..wh.aufs"), member("d/x")),
}  # fmt: skip


@pytest.mark.parametrize("case", OLD)
def test_files_of_aufs_are_passed_over(case: str, oracle: Any, tmp_path: Path) -> None:
    """docker's layers before 2014 have them. umoci keeps two of AUFS's folders; docker none."""
    layers = [tar(*BASE), tar(*OLD[case]), tar(member(".wh.hard"), member(".wh..wh.aufs"))]
    folder, wanted = oracle(*layers)
    wanted = {name: row for name, row in wanted.items() if not name.startswith(".wh.")}
    for name in wanted.keys() & {"1", "2"}:
        wanted[name] = (*wanted[name][:5], "1", wanted[name][6])
    flat = tmp_path / "flat"
    flat.mkdir()
    for layer in layers:
        apply_flat(io.BytesIO(layer), str(flat))
    assert without_times(listing(flat), (".",)) == without_times(wanted, (".",))
    image = take(str(tmp_path / "store"), "test", FolderSource(folder))
    found = shown(image.layers, tmp_path / "own")
    assert without_times(found, (".",)) == without_times(wanted, (".",))


def test_old_layers_that_have_no_end(oracle: Any, tmp_path: Path) -> None:
    """A layer of no byte, and archives without their end: docker's old ones, and Go's unclosed."""
    whole = tar(member("a", content=b"1" * 700), member("etc/", D))
    layers = [b"", whole[: 512 * 4], whole[: 512 + 700], tar(member("b"))]
    folder, wanted = oracle(*layers)
    image = take(str(tmp_path / "store"), "test", FolderSource(folder))
    found = shown(image.layers, tmp_path / "own")
    assert without_times(found, (".",)) == without_times(wanted, (".",))
    assert found["a"][3] == hashlib.sha256(b"1" * 700).hexdigest()
    installed("skopeo")
    argv = ["skopeo", "copy", f"oci:{folder.path}:test", f"docker-archive:{tmp_path}/old.tar:a:b"]
    subprocess.run(argv, check=True, capture_output=True)
    with opened(str(tmp_path / "old.tar")) as files:
        again = take(str(tmp_path / "store2"), "test", loading.one(files, ""))
    assert shown(again.layers, tmp_path / "again").keys() == found.keys()


@pytest.mark.parametrize("count", [40, 130])
def test_many_layers(count: int, oracle: Any, tmp_path: Path) -> None:
    layers = [
        tar(member(f"d{n % 7}/", D), member(f"d{n % 7}/f{n}", content=b"%d" % n),
            member("last", content=b"%d" % n), member(f"d{n % 5}/.wh.f{n - 5}"))
        for n in range(count)
    ]  # fmt: skip
    folder, wanted = oracle(*layers)
    image = take(str(tmp_path / "store"), "test", FolderSource(folder))
    assert len(image.layers) == count
    found = shown(image.layers, tmp_path / "own")
    assert without_times(found, (".",)) == without_times(wanted, (".",))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../x", "leads out"),
        ("a/../../x", "leads out"),
        (".wh..", "whiteout of no file"),
        (".wh.", "whiteout of no file"),
        (".wh...", "whiteout of no file"),
        ("a/.wh./b", "in a whiteout"),
        (".wh.x/b", "in a whiteout"),
        (".wh..wh..opq/b", "in a whiteout"),
        (".wh..wh.plnk/../../b", "leads out"),
        ("etc/a/b", "is a file, and others lie below|Not a directory"),
    ],
)
def test_what_leads_out_is_refused(name: str, words: str, tmp_path: Path) -> None:
    folder = LayoutFolder(tmp_path / "layout", tar(*BASE), tar(member(name)))
    store = tmp_path / "store"
    with pytest.raises(ImageError, match=words):
        take(str(store), "test", FolderSource(folder))
    assert not list(store.glob("layers/.draft*")) and not list(store.glob("images/*"))


def test_links_in_a_circle(tmp_path: Path) -> None:
    layers = tar(member("a", L, linkname="b"), member("b", L, linkname="a")), tar(member("a/x"))
    with pytest.raises(ImageError, match="too many levels"):
        take(str(tmp_path / "s"), "test", FolderSource(LayoutFolder(tmp_path / "l", *layers)))


def test_zstd(tmp_path: Path) -> None:
    """umoci 0.4 knows no zstd; the same layers by gzip give the same layers."""

    def zstd(data: bytes) -> bytes:
        return subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout

    installed("zstd")
    made = []
    for name, compress in (("z", zstd), ("g", gzip.compress), ("plain", bytes)):
        folder = LayoutFolder(tmp_path / name, tar(*BASE), compress=compress)
        image = take(str(tmp_path / f"store-{name}"), "test", FolderSource(folder))
        made.append([os.path.relpath(layer, tmp_path / f"store-{name}") for layer in image.layers])
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("text", ["", '{"diff_id": "x"}', "[]", "\xff"])
def test_a_damaged_record_is_a_fault(tmp_path: Path, text: str) -> None:
    """A power cut may leave less than half of layer.json; the layer is unpacked again."""
    found, blob = Layers(str(tmp_path)), tmp_path / "layer.tar"
    blob.write_bytes(tar(*BASE))
    digest = digest_of(blob.read_bytes())
    record = tmp_path / "layers" / digest.removeprefix("sha256:") / "layer.json"
    record.parent.mkdir(parents=True)
    record.write_bytes(text.encode("latin-1"))
    assert found.fault(digest) == f"{record} is damaged"
    made = found.ensure(digest, digest, str(blob), [])
    assert (found.fault(digest), Path(made.path).parent) == ("", record.parent)
    assert [path.name for path in record.parents[1].glob(".draft-*")] == []
