"""The store, as `run` sees it: found, not found, broken; and what the look-up imports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import ImageError
from minirun.image import store
from rootfs_tools import catalogue
from rootfs_tools.recipe import build
from tests.rootfs_tools import making
from tests.rootfs_tools.making import make_old, with_text


def make(path: Path, reference: str, text: str = "x", **config: object) -> store.Image:
    return making.make(path, reference, with_text(text), **config)


def test_resolves_what_was_stored(tmp_path: Path) -> None:
    words = {"Env": ["A=1"], "Entrypoint": ["/e"], "Cmd": ["c"], "WorkingDir": "/w", "User": "u"}
    make(tmp_path, "app:1", **words)
    image = catalogue.resolve(str(tmp_path), "docker.io/library/app:1")
    assert image.name == "app:1"
    assert (image.env, image.entrypoint, image.cmd) == (("A=1",), ("/e",), ("c",))
    assert (image.workdir, image.user, image.origin) == ("/w", "u", "made by a test")
    assert [Path(layer, "file").read_text() for layer in image.layers] == ["x"]
    assert all(os.path.isabs(layer) for layer in image.layers)


def test_layers_are_in_order(tmp_path: Path) -> None:
    make_old(tmp_path, "app", "lower", "upper")
    layers = catalogue.resolve(str(tmp_path), "app").layers
    assert [Path(layer, "file").read_text() for layer in layers] == ["lower", "upper"]


def test_names_do_not_collide(tmp_path: Path) -> None:
    references = ["a/b", "a.b/c", "a:b", "a", "a.b:1/c", "a.b/c:1", "localhost/a", "localhost:1/a"]
    for reference in references:
        make(tmp_path, reference, reference)
    for reference in references:
        layer = catalogue.resolve(str(tmp_path), reference).layers[0]
        assert Path(layer, "file").read_text() == reference
        assert not set(":,\\") & set(os.path.relpath(layer, tmp_path))


def test_a_digest_picks_the_image(tmp_path: Path) -> None:
    old, new = make(tmp_path, "app:old", "o"), make(tmp_path, "app:new", "n")
    assert catalogue.resolve(str(tmp_path), f"app@{old.digest}").name == "app:old"
    assert catalogue.resolve(str(tmp_path), f"app:new@{new.digest}").name == "app:new"
    for text in (f"app:new@{old.digest}", f"other@{old.digest}", "app@sha256:" + "0" * 64):
        with pytest.raises(ImageError, match="No such image"):
            catalogue.resolve(str(tmp_path), text)


def test_no_such_image_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        catalogue.resolve(str(tmp_path), "nosuch")
    assert str(caught.value) == "No such image: nosuch:latest"
    assert caught.value.status == 125
    assert "minirun pull nosuch" in caught.value.hint
    with pytest.raises(ImageError) as caught:
        catalogue.resolve(str(tmp_path), "busybox")
    assert caught.value.hint == "minirun images build busybox"
    with pytest.raises(ImageError, match=r"No such image: ubuntu:22\.04"):
        build.find_or_build(str(tmp_path), "ubuntu:22.04", pytest.fail)


def test_a_name_too_long_for_a_directory_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="No such image"):
        catalogue.resolve(str(tmp_path), "/".join(["a" * 80] * 3) + ":" + "t" * 128)


@pytest.mark.parametrize(
    "damage", ["{", "[]", "{}", '{"name": 1}', "\xff", '{"a": 1', "[" * 100_000, "null"]
)
def test_a_damaged_record_is_an_error_of_one_line(tmp_path: Path, damage: str) -> None:
    make(tmp_path, "app")
    record = tmp_path / "images/app/image.json"
    record.write_text(damage, encoding="latin-1")
    with pytest.raises(ImageError, match=r"^image app: image\.json") as caught:
        catalogue.resolve(str(tmp_path), "app")
    assert "\n" not in caught.value.line()


def test_a_wrong_type_or_a_missing_layer_is_named(tmp_path: Path) -> None:
    record = make_old(tmp_path, "app", "x") / "image.json"
    details = json.loads(record.read_text())
    record.write_text(json.dumps(details | {"cmd": "sh"}))
    with pytest.raises(ImageError, match="cmd is of the wrong type"):
        catalogue.resolve(str(tmp_path), "app")
    record.write_text(json.dumps(details | {"layers": ["layers/0", "layers/1"]}))
    with pytest.raises(ImageError, match="layers/1 is missing"):
        catalogue.resolve(str(tmp_path), "app")


@pytest.mark.parametrize(
    "damage",
    [
        {"env": ["A=1", 2]}, {"cmd": [None]}, {"labels": ["a"]}, {"labels": {"a": {}}},
        {"volumes": "/v"}, {"stop_signal": 9}, {"healthcheck": "true"}, {"size": "large"},
        {"healthcheck": {"Test": "a"}}, {"healthcheck": {"Test": ["a"], "Retries": "3"}},
        {"healthcheck": {"Test": ["CMD", "a"], "Interval": 10**30}}, {"entrypoint": ["\ud800"]},
        {"labels": {"a": "\ud800"}},
    ],
)  # fmt: skip
def test_what_older_versions_have_kept_is_checked(tmp_path: Path, damage: dict[str, Any]) -> None:
    record = make_old(tmp_path, "app", "x") / "image.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | damage))
    with pytest.raises(ImageError, match=r"^image app: image\.json"):
        catalogue.resolve(str(tmp_path), "app")
    assert "broken" in store.list_images(str(tmp_path))[0]


@pytest.mark.parametrize("layer", ["layers/../../other/layers/0", "/", "layers/1", "layers/0/", 7])
def test_a_layer_is_one_of_the_stores_own(tmp_path: Path, layer: object) -> None:
    record = make_old(tmp_path, "app", "x") / "image.json"
    details = json.loads(record.read_text())
    record.write_text(json.dumps(details | {"layers": [layer]}))
    with pytest.raises(ImageError, match=r"layers\[0\] is .*, not layers/0"):
        catalogue.resolve(str(tmp_path), "app")


def test_a_layer_is_no_link(tmp_path: Path) -> None:
    layer = make_old(tmp_path, "app", "x") / "layers/0"
    layer.rename(layer.with_name("was"))
    layer.symlink_to("/")
    with pytest.raises(ImageError, match="layers/0 is missing"):
        catalogue.resolve(str(tmp_path), "app")


def test_building_keeps_silent_about_what_is_there(tmp_path: Path) -> None:
    make(tmp_path, "busybox")
    assert build.find_or_build(str(tmp_path), "busybox", pytest.fail).name == "busybox:latest"


def test_the_look_up_imports_nothing_heavy() -> None:
    code = (
        "import os, sys; sys.path[:0] = sys.argv[1:]; before = set(sys.modules);"
        "from minirun.image import store; print(*sorted(set(sys.modules) - before))"
    )
    source = str(Path(store.__file__).parents[2])
    command = [sys.executable, "-ISc", code, source]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.startswith("minirun")}
    assert set(loaded) - ours <= {"__future__", "_json", "_operator", "errno"}
    assert ours == {
        "minirun", "minirun.image", "minirun.image.store",
        "minirun.core.keeping.places",
        "minirun.core", "minirun.core.errors", "minirun.core.keeping",
        "minirun.core.keeping.jsonlite", "minirun.core.keeping.record",
        "minirun.core.keeping.visible",
    }  # fmt: skip


def test_an_image_is_found_by_its_ids(tmp_path: Path) -> None:
    image = make(tmp_path, "app:1")
    details = catalogue.details(str(tmp_path), "app:1")
    make(tmp_path, "other", "y")
    for digest in (details["id"], details["manifest"], image.digest):
        for text in (digest, digest[7:], digest[7:19], digest[:15]):
            assert catalogue.resolve(str(tmp_path), text).name == "app:1", text
    with pytest.raises(ImageError, match="No such image: 0123abcd"):
        catalogue.resolve(str(tmp_path), "0123abcd")
    short = details["id"][7:19]
    make(tmp_path, short, "z")  # a name counts more than an id
    assert catalogue.resolve(str(tmp_path), short).name == f"{short}:latest"


def test_an_id_of_two_images_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        record = make_old(tmp_path, name, name) / "image.json"
        digest = f"sha256:0123{name * 60}"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"digest": digest}))
    with pytest.raises(ImageError, match="0123 is the id of several images"):
        catalogue.resolve(str(tmp_path), "0123")
    assert catalogue.resolve(str(tmp_path), "0123a").name == "a:latest"


def test_a_new_name_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="refusing to create a tag with a digest reference"):
        make(tmp_path, f"app@sha256:{'0' * 64}")
    assert store.list_images(str(tmp_path)) == []
