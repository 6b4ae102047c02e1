"""The documents of an image: what is read from them, and what is refused."""

import json

import pytest

from minirun.core.errors import ImageError
from rootfs_tools import image_spec

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MANIFEST = {
    "schemaVersion": 2,
    "mediaType": image_spec.MANIFESTS[0],
    "config": {"mediaType": image_spec.OCI_CONFIG, "digest": A, "size": 7},
    "layers": [{"mediaType": f"{image_spec.OCI_LAYER}+gzip", "digest": B, "size": 9}],
}
INDEX = {
    "schemaVersion": 2,
    "manifests": [
        {"mediaType": image_spec.MANIFESTS[0], "digest": A, "size": 1,
         "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
        {"mediaType": image_spec.MANIFESTS[0], "digest": B, "size": 2},
    ],
}  # fmt: skip


def read(
    document: object, media_type: str = image_spec.MANIFESTS[0]
) -> image_spec.Index | image_spec.Manifest:
    return image_spec.parse(media_type, json.dumps(document).encode())


def test_a_manifest_is_read() -> None:
    found = read(MANIFEST)
    assert found == image_spec.Manifest(
        image_spec.Descriptor(image_spec.OCI_CONFIG, A, 7),
        (image_spec.Descriptor(f"{image_spec.OCI_LAYER}+gzip", B, 9),),
    )


def test_an_index_is_read() -> None:
    found = read(INDEX, image_spec.INDEXES[0])
    assert isinstance(found, image_spec.Index)
    assert [str(platform) for _, platform in found.manifests] == ["linux/arm64/v8", "None"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schemaVersion": 1}, "schemaVersion 1"),
        ({"mediaType": image_spec.INDEXES[0]}, "it says that it is"),
        ({"manifests": []}, "it says that it is"),  # both at once: CVE-2021-41190
        ({"config": None}, "config is missing"),
        ({"layers": [{"digest": "sha256:../../etc", "size": 1}]}, "no sha256 digest"),
        ({"layers": [{"digest": A, "size": -1}]}, "a size of -1"),
        ({"layers": [{"digest": A, "size": True}]}, "a size of True"),
        ({"layers": [{"digest": A, "size": 1}] * 501}, "501 layers"),
        ({"layers": "all"}, "not a list of objects"),
    ],
)
def test_a_wrong_manifest_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ImageError, match=words):
        read(MANIFEST | change)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"\xff", b"[" * 100_000, b" " * (image_spec.DOCUMENT_LIMIT + 1)]
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    for read_it in (
        lambda: image_spec.parse(image_spec.MANIFESTS[0], data),
        lambda: image_spec.parse_config(data),
    ):
        with pytest.raises(ImageError):
            read_it()


def test_a_configuration_is_read() -> None:
    found = image_spec.parse_config(json.dumps({
        "os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [A, B]},
        "config": {"Env": ["A=1"], "Cmd": "sh", "Volumes": {"/data": {}}, "Labels": {"a": "b"},
                   "StopSignal": "SIGQUIT", "Healthcheck": {"Test": ["NONE"]}},
        "history": [{"created_by": "ADD x", "empty_layer": True}],
    }).encode())  # fmt: skip
    assert found.cmd == ("sh",)
    assert found.volumes == ("/data",)
    assert found.history == (image_spec.History("", "ADD x", True),)
    assert found.raw["config"]["Healthcheck"] == {"Test": ["NONE"]}


@pytest.mark.parametrize(
    "config",
    [{"config": []}, {"rootfs": {"diff_ids": ["x"]}}, {"config": {"Env": "A=1"}},
     {"config": {"User": "a\0b"}}, {"config": {"Labels": {"a": 1}}},
     {"config": {"Labels": {"a": "\ud800"}}}, {"config": {"Labels": {"\udfff": "a"}}},
     {"config": {"Volumes": {"/a\0": {}}}}, {"config": {"Volumes": {"/\ud800": {}}}},
     {"config": {"Healthcheck": {"Test": ["CMD"], "Interval": 1 << 63}}},
     {"config": {"Healthcheck": {"Test": ["CMD", "\ud800"]}}},
     {"config": {"Shell": 5}}, {"config": {"Shell": ["sh", 1]}}, {"config": {"OnBuild": {}}},
     {"config": {"ExposedPorts": ["80"]}}],
)  # fmt: skip
def test_a_wrong_configuration_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(ImageError):
        image_spec.parse_config(json.dumps(config).encode())


def test_chain_ids() -> None:
    """The second is of the image-spec's rule: the digest of both, with a space between."""
    first, second = image_spec.chain_ids((A, B))
    assert first == A
    assert second == image_spec.digest_of(f"{A} {B}".encode())
