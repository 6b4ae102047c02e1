"""Images for the tests of the store: made here, of a few files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from minirun.image import store as shelf
from rootfs_tools import recipe
from rootfs_tools.made import NewImage, source_of, workshop
from rootfs_tools.recipe.bootstrap import os_release
from rootfs_tools.take import take
from rootfs_tools.tar.pack import pack_tree

OWN = recipe.FOLDER


def with_text(text: str = "x") -> Callable[[Path], object]:
    """Return what puts one file into a tree."""
    return lambda tree: (tree / "file").write_text(text)


def make(
    store: Path, reference: str, fill: Callable[[Path], object], **config: object
) -> shelf.Image:
    """Make an image of the tree that `fill` fills; `config` is that of its configuration."""
    with workshop(str(store)) as folder, open(f"{folder}/layer.tar", "w+b") as layer:
        tree = Path(folder, "tree")
        tree.mkdir()
        tree.chmod(0o755)
        fill(tree)
        pack_tree(str(tree), layer)
        made = NewImage("made by a test", 0, "a test", config, layer=layer)
        return take(str(store), reference, source_of(made))


def make_old(store: Path, name: str, *texts: str) -> Path:
    """Make an image as minirun's first versions did, with layers of its own; return its folder."""
    image = store / "images" / name
    for number, text in enumerate(texts):
        layer = image / f"layers/{number}"
        layer.mkdir(parents=True)
        (layer / "file").write_text(text)
    details = {
        "name": name, "tag": "latest", "origin": "made by a test", "digest": "sha256:0",
        "layers": [f"layers/{number}" for number in range(len(texts))], "env": [],
        "entrypoint": [], "cmd": [], "workdir": "/", "user": "",
    }  # fmt: skip
    (image / "image.json").write_text(json.dumps(details))
    return image


def unreachable(folder: Path) -> None:
    """Write the recipes ubuntu and debian into a folder; Ubuntu's archive does not answer."""
    if os_release("/").get("ID") == "ubuntu":
        pytest.skip("on Ubuntu the recipe takes the sources of packages that are set up here")
    text = Path(OWN, "ubuntu.toml").read_text()
    folder.mkdir()
    shutil.copy(f"{OWN}/debian.toml", folder)
    (folder / "ubuntu.toml").write_text(text.replace("archive.ubuntu.com", "127.0.0.1:1"))
