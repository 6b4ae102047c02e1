"""`image gc` beside containers that begin meanwhile, and after one that was killed."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rootfs_tools import catalogue
from rootfs_tools.gc import collect
from rootfs_tools.take import using
from tests.rootfs_tools.making import make, with_text


def layer_without_image(store: Path) -> Path:
    image = make(store, "app", with_text())
    catalogue.remove_image(str(store), "app")
    return Path(image.layers[0])


def test_a_container_that_begins_meanwhile_keeps_its_layers(tmp_path: Path) -> None:
    layer = layer_without_image(tmp_path)
    answers = iter([set[str](), {str(layer)}])
    removed = collect(str(tmp_path), lambda: next(answers))
    assert str(layer.parent) not in removed
    assert (layer / "file").read_text() == "x"
    assert str(layer.parent) in collect(str(tmp_path), list)
    assert list(layer.parent.parent.iterdir()) == []


def test_what_a_killed_one_has_hidden_comes_back_or_goes(tmp_path: Path) -> None:
    layer = layer_without_image(tmp_path)
    hidden = layer.parent.with_name(f".hidden-{layer.parent.name}")
    layer.parent.rename(hidden)
    collect(str(tmp_path), lambda: [str(layer)])
    assert (layer / "file").read_text() == "x"
    layer.parent.rename(hidden)
    make(tmp_path, "again", with_text())  # the same layer, unpacked anew
    collect(str(tmp_path), lambda: [str(layer)])
    assert (layer / "file").read_text() == "x" and not hidden.exists()


@pytest.mark.parametrize("cut", [0, 1, 200, -2])
def test_a_damaged_image_does_not_stop_it(
    tmp_path: Path, cut: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """What its image.json still names stays: it may be mended. Of the others all is looked at."""
    unused = layer_without_image(tmp_path)
    whole = make(tmp_path, "whole", with_text("whole"))
    damaged = make(tmp_path, "damaged", with_text("damaged"))
    record = tmp_path / "images/damaged/image.json"
    text = record.read_text()
    record.write_text(text[:cut])
    removed = collect(str(tmp_path), list)
    assert str(unused.parent) in removed
    assert Path(whole.layers[0]).is_dir()
    named = Path(damaged.layers[0]).parent.name in text[:cut]
    assert Path(damaged.layers[0]).is_dir() == named
    assert "warning: image damaged:latest is damaged" in capfd.readouterr().err
    assert collect(str(tmp_path), list) == []


def test_it_says_what_it_waits_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "app", with_text())
    with ThreadPoolExecutor(1) as pool:
        with using(str(tmp_path)):
            waiting = pool.submit(collect, str(tmp_path), list)
            time.sleep(1.5)
            assert not waiting.done()
        assert waiting.result(timeout=10) == []
    by = "a build, a pull or another command that works in this store"
    assert capfd.readouterr().err == f"minirun: waiting for {by}\n"
