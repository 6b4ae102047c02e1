"""Layouts: which image a tag names, and what of a hostile folder is refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import ImageError
from rootfs_tools import image_spec
from rootfs_tools.archives import layout, loading
from rootfs_tools.archives.files import Folder, opened
from rootfs_tools.take import take
from tests.rootfs_tools.archives.layouts import Blobs, layer


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    found = Blobs(tmp_path / "app")
    one, two = found.image(layer(("one", b"1"))), found.image(layer(("two", b"2")))
    found.index(one=one, two=two)
    return found


def test_a_tag_names_an_image(blobs: Blobs) -> None:
    with opened(str(blobs.folder)) as files:
        source = layout.tagged(files, "two")
        descriptor, data = source.root()
        assert image_spec.digest_of(data) == descriptor.digest
        manifest = image_spec.parse(descriptor.media_type, data)
        assert isinstance(manifest, image_spec.Manifest)
        config = image_spec.parse_config(source.document(manifest.config))
        with source.blob(manifest.layers[0]) as whole, source.blob(manifest.layers[0], 9) as part:
            content = whole.read()
            assert image_spec.digest_of(content) == config.diff_ids[0]
            assert part.read() == content[9:]


@pytest.mark.parametrize(
    ("tag", "text"), [("three", "no image has the tag 'three'"), ("", "two images")]
)
def test_what_names_no_one_image_is_refused(blobs: Blobs, tag: str, text: str) -> None:
    with opened(str(blobs.folder)) as files, pytest.raises(ImageError) as caught:
        layout.tagged(files, tag)
    assert text in caught.value.line()


def chart(blobs: Blobs) -> dict[str, Any]:
    """Return the row of a Helm chart, as `helm push` writes its manifest."""
    kinds = ("application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content")
    config, content = (blobs.put(b"{}", kind) for kind in kinds)
    manifest = {"schemaVersion": 2, "config": config, "layers": [content]}
    return blobs.put_json(manifest, image_spec.MANIFESTS[0])


@pytest.mark.parametrize("nested", [False, True])
def test_what_is_no_image_is_passed_over(blobs: Blobs, nested: bool, tmp_path: Path) -> None:
    """A chart beside an image, in index.json or in an index that it names, without platforms."""
    top = [chart(blobs), blobs.image(layer(("a", b"x")))]
    index: dict[str, Any] = {"schemaVersion": 2, "manifests": top}
    if nested:
        index = {"schemaVersion": 2, "manifests": [blobs.put_json(index, image_spec.INDEXES[0])]}
    (blobs.folder / "index.json").write_text(json.dumps(index))
    with opened(str(blobs.folder)) as files:
        (found,) = loading.images(files)
        image = take(str(tmp_path / "store"), "a", found.source)
        assert take(str(tmp_path / "store"), "b", layout.tagged(files, "")).digest == image.digest
        assert os.listdir(image.layers[0]) == ["a"]


@pytest.mark.parametrize("platform", [None, image_spec.Platform("linux", "amd64")])
def test_a_chart_alone_is_named(
    blobs: Blobs, tmp_path: Path, platform: image_spec.Platform | None
) -> None:
    blobs.index(odd=chart(blobs))
    with opened(str(blobs.folder)) as files, pytest.raises(ImageError, match=r"vnd\.cncf\.helm"):
        take(str(tmp_path / "store"), "a", layout.tagged(files, ""), platform)


def test_one_image_needs_no_tag(blobs: Blobs) -> None:
    blobs.index(odd=blobs.image(layer(("a", b""))))
    with opened(str(blobs.folder)) as files:
        assert layout.tagged(files, "").root()[0].size > 0


def test_latest_is_what_no_tag_means(blobs: Blobs) -> None:
    latest = blobs.image(layer(("a", b"")))
    blobs.index(odd=blobs.image(layer(("b", b""))), latest=latest)
    with opened(str(blobs.folder)) as files:
        assert layout.tagged(files, "").root()[0].digest == latest["digest"]


def test_two_images_of_one_tag_are_refused(blobs: Blobs) -> None:
    rows = [blobs.image(layer((name, b""))) for name in ("a", "b")]
    rows = [row | {"annotations": {layout.REF_NAME: "x"}} for row in rows]
    index = blobs.folder / "index.json"
    index.write_text(json.dumps({"schemaVersion": 2, "manifests": rows}))
    with opened(str(blobs.folder)) as files, pytest.raises(ImageError, match="two images have"):
        layout.tagged(files, "x")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("oci-layout", None, "the file oci-layout is missing"),
        ("oci-layout", b"{}", "no imageLayoutVersion"),
        ("oci-layout", b"[" * 2000, "no imageLayoutVersion"),
        ("oci-layout", b'{"imageLayoutVersion": "9"}', "of version '9'"),
        ("index.json", None, "index.json: No such file"),
        ("index.json", b"{", "index.json: .*not JSON"),
        ("index.json", b'{"schemaVersion": 2, "manifests": [7]}', "not a list of objects"),
        ("index.json", b" " * (image_spec.DOCUMENT_LIMIT + 1), "more than"),
    ],
)
def test_a_wrong_layout_is_refused(
    blobs: Blobs, name: str, content: bytes | None, text: str
) -> None:
    (blobs.folder / name).unlink()
    if content is not None:
        (blobs.folder / name).write_bytes(content)
    with opened(str(blobs.folder)) as files, pytest.raises(ImageError, match=text):
        layout.images(files)


def test_links_and_other_files_are_not_opened(blobs: Blobs) -> None:
    digests = [each.digest for each in layout.images(Folder(str(blobs.folder)))]
    first, second = (blobs.folder / layout.path_of(each) for each in digests)
    first.rename(blobs.folder.parent / "outside")
    first.symlink_to(blobs.folder.parent / "outside")
    second.unlink()
    os.mkfifo(second)
    with opened(str(blobs.folder)) as files:
        for tag, text in (("one", "is a link"), ("two", "is not a plain file")):
            with pytest.raises(ImageError, match=text):
                layout.tagged(files, tag).root()


def test_a_folder_of_blobs_that_is_a_link_is_refused(blobs: Blobs) -> None:
    (blobs.folder / "blobs").rename(blobs.folder.parent / "blobs")
    (blobs.folder / "blobs").symlink_to("../blobs")
    with opened(str(blobs.folder)) as files, pytest.raises(ImageError, match="lies behind one"):
        layout.tagged(files, "one").root()


@pytest.mark.parametrize(("extra", "tag"), [("", ""), (":one", "one"), (":a:1", "a:1")])
def test_path_and_tag_are_told_apart(tmp_path: Path, extra: str, tag: str) -> None:
    path = tmp_path / "odd:name"
    path.mkdir()
    assert layout.split(f"{path}{extra}") == (str(path), tag)


def test_a_layout_that_is_not_there_is_said() -> None:
    with pytest.raises(ImageError, match="no such archive or layout"):
        layout.split("/nonexistent/app:1")
