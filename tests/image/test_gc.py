"""`image gc` beside containers that begin meanwhile, and after one that was killed."""

from pathlib import Path

from image.making import make, with_text
from minirun.image import catalogue
from minirun.image.gc import collect


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
