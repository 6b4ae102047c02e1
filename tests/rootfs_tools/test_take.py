"""From a source into the store: verified, once, whole or not at all."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import ImageError
from minirun.image import store as shelf
from rootfs_tools import catalogue, image_spec
from rootfs_tools.archives import saving
from rootfs_tools.blobs import Blobs
from rootfs_tools.choose import pick
from rootfs_tools.gc import collect
from rootfs_tools.take import LayerStep, check_runs, platform_of, take, this_platform
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, listing, member, tar

ONE = tar(member("one", content=os.urandom(100_000)))
TWO = tar(member("two", content=b"2"))


@pytest.fixture
def folder(tmp_path: Path) -> LayoutFolder:
    return LayoutFolder(tmp_path / "layout", ONE, TWO, Env=["A=1"], Cmd=["sh"], Volumes={"/v": {}})


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_what_is_stored(folder: LayoutFolder, store: str) -> None:
    steps: list[LayerStep] = []
    image = take(store, "team/app:1", FolderSource(folder), notify=steps.append)
    assert (image.name, image.env, image.cmd) == ("team/app:1", ("A=1",), ("sh",))
    assert image.digest == folder.top["digest"]
    details = catalogue.details(store, "team/app:1")
    assert (details["volumes"], details["size"]) == (["/v"], 100_001)
    kinds = [step.kind for step in steps if step.digest == folder.manifest["layers"][0]["digest"]]
    assert list(dict.fromkeys(kinds)) == ["pulling", "verified", "unpacking", "done"]
    assert catalogue.resolve(store, f"team/app@{image.digest}").layers == image.layers
    assert catalogue.verify(store, "team/app:1") == ""
    Path(image.layers[1], "two").write_text("3")
    assert "was stored as" in catalogue.verify(store, "team/app:1")


def test_layers_are_shared_and_fetched_once(
    folder: LayoutFolder, store: str, tmp_path: Path
) -> None:
    first = take(store, "a", FolderSource(folder))
    other = LayoutFolder(tmp_path / "other", ONE, tar(member("three")))
    second = take(store, "b", FolderSource(other))
    assert first.layers[0] == second.layers[0]
    assert other.asked == [other.manifest["layers"][1]["digest"]]


def test_a_name_can_mean_another_image(folder: LayoutFolder, store: str, tmp_path: Path) -> None:
    """The old image's layers stay: a container may be using them. gc removes them."""
    old = take(store, "a", FolderSource(folder))
    other = LayoutFolder(tmp_path / "other", tar(member("three")))
    new = take(store, "a", FolderSource(other))
    assert catalogue.resolve(store, "a").layers == new.layers
    assert all(map(os.path.isdir, old.layers))
    removed = collect(store, in_use=lambda: [old.layers[0]])
    assert os.path.isdir(old.layers[0]) and not os.path.isdir(old.layers[1])
    assert all(map(os.path.isdir, new.layers))
    assert len(removed) == 1 + 4  # the manifest, the configuration, both archives
    assert collect(store, list) == [os.path.dirname(old.layers[0])]
    assert collect(store, list) == []


@contextmanager
def short(data: bytes) -> Iterator[Any]:
    import io

    yield io.BytesIO(data)


class Lying(FolderSource):
    """A source whose first answer for a layer is another one."""

    def __init__(self, folder: LayoutFolder, lie: Callable[[bytes], bytes]) -> None:
        super().__init__(folder)
        self._lie = lie
        self.offsets: list[int] = []

    def blob(self, wanted: image_spec.Descriptor, offset: int = 0) -> Any:
        self.offsets.append(offset)
        data = self.document(wanted)[offset:]
        lie, self._lie = self._lie, bytes
        return short(lie(data))


@pytest.mark.parametrize(
    ("lie", "words", "kept"),
    [
        (lambda data: data[:-5], "ends after", True),
        (lambda data: data + b"x", "wrong content: more than", False),
        (lambda data: b"x" + data[1:], "wrong content: is sha256", False),
        (lambda data: b"", "ends after 0 of", True),
    ],
)
def test_a_source_that_lies(
    lie: Callable[[bytes], bytes], words: str, kept: bool, store: str, tmp_path: Path
) -> None:
    folder = LayoutFolder(tmp_path / "layout", ONE)
    source = Lying(folder, lie)
    with pytest.raises(ImageError, match=words):
        take(store, "a", source)
    assert shelf.list_images(store) == []
    partial = list(Path(store, "blobs/partial").iterdir())
    size = folder.manifest["layers"][0]["size"]
    assert [path.stat().st_size for path in partial] == [len(lie(bytes(size))) if kept else 0]
    take(store, "a", source)  # goes on where it ended
    assert source.offsets == [0, len(lie(bytes(size))) if kept else 0]


def test_a_layer_that_is_not_its_diff_id(store: str, tmp_path: Path) -> None:
    folder = LayoutFolder(tmp_path / "layout", ONE)
    other = LayoutFolder(tmp_path / "other", TWO)
    config = folder.document(image_spec.Descriptor("", folder.manifest["config"]["digest"], 0))
    wrong = json.loads(config)
    wrong["rootfs"]["diff_ids"] = ["sha256:" + "0" * 64]
    manifest = folder.manifest | {
        "config": {"mediaType": image_spec.OCI_CONFIG} | folder.blob(json.dumps(wrong).encode())
    }
    folder.top = {"mediaType": image_spec.MANIFESTS[0]} | folder.blob(json.dumps(manifest).encode())
    with pytest.raises(ImageError, match="wrong content: unpacked, it is"):
        take(store, "a", FolderSource(folder))
    assert not [name for name in os.listdir(f"{store}/layers") if not name.startswith(".lock")]
    del other


def test_a_document_that_is_not_its_digest(folder: LayoutFolder, store: str) -> None:
    digest = folder.manifest["config"]["digest"]
    (folder.path / "blobs" / digest.replace(":", "/")).write_bytes(b"{}")
    with pytest.raises(ImageError, match="wrong content: is"):
        take(store, "a", FolderSource(folder))


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        (("linux/amd64", "linux/arm64/v8"), "arm64", 1),
        (("linux/arm/v6", "linux/arm/v7"), "linux/arm/v7", 1),
        (("linux/arm/v6", "linux/arm/v5"), "linux/arm/v7", 0),
        (("linux/arm/v7",), "linux/arm/v6", None),
        (("windows/amd64", "linux/amd64"), "amd64", 1),
        (("linux/amd64",), "linux/s390x", None),
    ],
)
def test_platforms(there: tuple[str, ...], wanted: str, found: int | None) -> None:
    rows = [
        (image_spec.Descriptor("", f"sha256:{number}", number), platform_of(text))
        for number, text in enumerate(there)
    ]
    chosen = pick(rows, platform_of(wanted))
    assert (chosen.size if chosen else None) == found


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: set[str] = set()
    monkeypatch.setattr(os.path, "exists", lambda path: path in registered)
    own = str(this_platform())
    check_runs(own)
    check_runs(own.removeprefix("linux/"))
    for text in ("linux/s390x", "riscv64", f"windows/{own.split('/')[1]}"):
        with pytest.raises(ImageError, match=f"--platform {text}: this machine executes"):
            check_runs(text)
    registered.add("/proc/sys/fs/binfmt_misc/qemu-s390x")
    check_runs("linux/s390x")


def test_what_a_power_loss_has_damaged_is_fetched_again(
    folder: LayoutFolder, store: str, tmp_path: Path
) -> None:
    image = take(store, "a", FolderSource(folder))
    blobs = sorted(Path(store, "blobs/sha256").iterdir())
    for number, path in enumerate(blobs):
        whole = path.read_bytes()
        path.write_bytes(b"" if number % 2 else whole[:-1] + bytes([whole[-1] ^ 1]))
        shutil.rmtree(Path(image.layers[-1]).parent)  # it is to be unpacked again
        shutil.rmtree(Path(image.layers[0]).parent)
        take(store, "a", FolderSource(folder))
        assert path.read_bytes() == whole
        path.write_bytes(b"")
        if len(whole) > 2000:  # a layer's, and that is here unpacked
            with (
                pytest.raises(ImageError, match="damaged in the store"),
                saving.collected(store, ["a"]),
            ):
                pass
        take(store, "a", FolderSource(folder))
        assert path.read_bytes() == whole


def test_a_wrong_size_removes_no_blob_of_another_image(folder: LayoutFolder, store: str) -> None:
    take(store, "a", FolderSource(folder))
    row = folder.manifest["layers"][0]
    wrong = image_spec.Descriptor(image_spec.OCI_LAYER, row["digest"], row["size"] - 1)
    assert not Blobs(store).discard_damaged(wrong, thorough=False)
    assert Blobs(store).has(wrong.digest)


def test_eight_at_once_fetch_once(folder: LayoutFolder, store: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(lambda _: take(store, "a", FolderSource(folder)), range(8)))
    assert len({image.layers for image in images}) == 1
    assert sorted(folder.asked) == sorted(row["digest"] for row in folder.manifest["layers"])


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder
from rootfs_tools.take import take
folder = object.__new__(LayoutFolder)
import json
folder.path, folder.name, folder.asked = Path(sys.argv[2]), "x", []
row = json.loads((folder.path / "index.json").read_text())["manifests"][0]
folder.top = row
take(sys.argv[3], "a", FolderSource(folder))
"""


def test_killed_at_any_moment(tmp_path: Path, store: str) -> None:
    """50 times; the next one succeeds, and gc finds nothing but what it may remove."""
    layers = [
        tar(*(member(f"{n}/{k}", content=os.urandom(5000)) for k in range(40))) for n in range(9)
    ]
    folder = LayoutFolder(tmp_path / "layout", *layers)
    argv = [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[2]), str(folder.path), store]
    chance = random.Random(7)
    start = time.monotonic()
    subprocess.run([*argv[:-1], f"{store}-whole"], check=True)
    whole = time.monotonic() - start
    for _ in range(50):
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(whole / 3, whole))
        process.send_signal(signal.SIGKILL)
        process.wait()
    image = take(store, "a", FolderSource(folder))
    assert catalogue.verify(store, "a") == ""
    collect(store, list)
    left = {
        str(path.relative_to(store)) for path in Path(store).rglob("*") if "/fs/" not in str(path)
    }
    clean = {str(path.relative_to(f"{store}-whole")) for path in Path(f"{store}-whole").rglob("*")
             if "/fs/" not in str(path)}  # fmt: skip
    assert {name for name in left if ".lock" not in name} == {
        name for name in clean if ".lock" not in name
    }
    whole_image = catalogue.resolve(f"{store}-whole", "a")
    for one, other in zip(image.layers, whole_image.layers, strict=True):
        assert listing(Path(one), times=False) == listing(Path(other), times=False)


def test_a_damaged_document_in_the_store(folder: LayoutFolder, store: str) -> None:
    take(store, "a", FolderSource(folder))
    blobs = Blobs(store)
    Path(blobs.path(folder.top["digest"])).write_bytes(b"{}")
    with pytest.raises(ImageError, match="is damaged in the store"):
        blobs.document(folder.top["digest"])


@pytest.fixture
def small(tmp_path: Path) -> Iterator[str]:
    """A store on a disk of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)], check=True)
    yield str(place)
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("size", "doing"), [(1_500_000, "archive: 'big'"), (2_500_000, "fetching ")]
)
def test_a_full_disk(size: int, doing: str, small: str, tmp_path: Path) -> None:
    content = os.urandom(size)
    folder = LayoutFolder(tmp_path / "big", tar(member("big", content=content)))
    with pytest.raises(ImageError, match=f"{doing}.*No space left on device") as caught:
        take(small, "a", FolderSource(folder))
    assert "the disk is full" in (caught.value.hint or "")
    assert shelf.list_images(small) == []
    assert [path.name for path in Path(small, "layers").glob(".draft-*")] == []
    collect(small, list)
    assert os.statvfs(small).f_bfree * os.statvfs(small).f_bsize > 1_900_000
