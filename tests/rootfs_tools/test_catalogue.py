"""Putting images in and taking them out, also when the maker is killed in between."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from minirun.image import store
from rootfs_tools import catalogue, tree
from rootfs_tools.draft import locked
from tests.rootfs_tools import making
from tests.rootfs_tools.making import make_old, with_text

SOURCE = str(Path(catalogue.__file__).parents[2])
MAKER = """
import sys, time
from rootfs_tools.made import workshop
with workshop(sys.argv[1]) as folder:
    open(folder + "/layer.tar", "w").close()
    print(folder, flush=True)
    time.sleep(60)
"""


def make(path: Path, reference: str = "app") -> store.Image:
    return making.make(path, reference, with_text())


def entries(path: Path) -> set[str]:
    return {name for name in os.listdir(path / "images") if not name.startswith(".lock-")}


def test_an_image_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail(tree: Path) -> None:
        (tree / "file").write_text("x")
        assert store.list_images(str(tmp_path)) == []
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        making.make(tmp_path, "app", fail)
    assert entries(tmp_path) == set()
    make(tmp_path)
    assert entries(tmp_path) == {"app"}
    assert [image["name"] for image in store.list_images(str(tmp_path))] == ["app"]


def test_only_root_enters_the_images(tmp_path: Path) -> None:
    old = os.umask(0o000)
    try:
        make(tmp_path / "store")
    finally:
        os.umask(old)
    mode = (tmp_path / "store" / "images").stat().st_mode
    assert stat.S_IMODE(mode) == 0o700


def test_the_layer_is_open_to_the_container_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o777)
    try:
        image = make(tmp_path / "store")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(image.layers[0]).st_mode) == 0o755


def test_an_image_replaced_under_its_name_is_the_new_one(tmp_path: Path) -> None:
    old = make(tmp_path)
    new = making.make(tmp_path, "app", with_text("y"))
    assert entries(tmp_path) == {"app"}
    assert catalogue.resolve(str(tmp_path), "app") == new
    assert Path(new.layers[0], "file").read_text() == "y"
    assert Path(old.layers[0], "file").read_text() == "x", "a container may be using it"


def test_one_tree_has_one_digest(tmp_path: Path) -> None:
    def dated(tree: Path) -> None:
        (tree / "file").write_text("x")
        for path in (tree / "file", tree):
            os.utime(path, (7, 7))

    one = making.make(tmp_path / "1", "app", dated, Cmd=["sh"])
    assert making.make(tmp_path / "2", "other", dated, Cmd=["sh"]).digest == one.digest
    assert making.make(tmp_path / "2", "other", dated, Cmd=["ls"]).digest != one.digest


def test_remove_also_what_is_broken(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "images/app/image.json").write_text("{")
    assert store.list_images(str(tmp_path))[0]["broken"]
    assert catalogue.remove_image(str(tmp_path), "app") == "app:latest"
    assert entries(tmp_path) == set()
    with pytest.raises(ImageError, match="No such image: app:latest"):
        catalogue.remove_image(str(tmp_path), "app")


def test_a_name_is_not_removed_while_an_image_gets_it(tmp_path: Path) -> None:
    making.make(tmp_path, "app", with_text())
    removing = threading.Thread(target=catalogue.remove_image, args=(str(tmp_path), "app"))
    with locked(str(tmp_path / "images"), fcntl.LOCK_SH):
        removing.start()
        removing.join(0.3)
        assert (tmp_path / "images/app/image.json").exists()
    removing.join()
    assert not (tmp_path / "images/app").exists()


def test_remove_by_digest(tmp_path: Path) -> None:
    image = make(tmp_path, "app:1")
    assert catalogue.remove_image(str(tmp_path), f"app@{image.digest}") == "app:1"
    assert entries(tmp_path) == set()


def test_an_image_of_an_old_version_is_read_and_checked(tmp_path: Path) -> None:
    record = make_old(tmp_path, "app", "x") / "image.json"
    digest = tree.summarize([f"{tmp_path}/images/app/layers/0"]).digest
    record.write_text(record.read_text().replace("sha256:0", digest))
    assert catalogue.verify(str(tmp_path), "app") == ""
    (tmp_path / "images/app/layers/0/file").write_text("y")
    assert catalogue.verify(str(tmp_path), "app").endswith(f", was stored as {digest}")


def test_verify_sees_every_change(tmp_path: Path) -> None:
    image = make(tmp_path)
    layer = Path(image.layers[0])
    assert catalogue.verify(str(tmp_path), "app") == ""

    def changed() -> bool:
        return bool(catalogue.verify(str(tmp_path), "app"))

    (layer / "new").touch()
    assert changed()
    (layer / "new").unlink()
    assert not changed()
    (layer / "file").write_text("y")
    assert changed()
    (layer / "file").write_text("x")
    os.chmod(layer / "file", 0o4755)
    assert changed()
    os.chmod(layer / "file", 0o644)
    assert not changed()
    os.chown(layer / "file", 1, 1)
    assert changed()
    os.chown(layer / "file", 0, 0)
    os.setxattr(layer / "file", "user.note", b"1")
    assert changed()


def test_the_digest_does_not_depend_on_times_or_order(tmp_path: Path) -> None:
    for name, order in (("one", "ab"), ("two", "ba")):
        for letter in order:
            (tmp_path / name / letter).mkdir(parents=True)
            (tmp_path / name / letter / "file").write_text(letter)
    os.utime(tmp_path / "one" / "a" / "file", (1, 1))
    one, two = (tree.summarize([str(tmp_path / name)]) for name in ("one", "two"))
    assert one == two
    assert one.size == 2


def test_what_a_killed_maker_leaves_is_swept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=SOURCE) as maker:
        assert maker.stdout
        draft = os.path.dirname(maker.stdout.readline().strip())
        assert catalogue.sweep(str(tmp_path)) == [], "its maker lives"
        maker.send_signal(signal.SIGKILL)
    assert os.path.isdir(draft)
    assert catalogue.sweep(str(tmp_path)) == [draft]
    assert entries(tmp_path) == set()


def test_of_two_makers_the_second_waits(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with catalogue.making(str(tmp_path), "app"):
            order.append("second")

    other = threading.Thread(target=second)
    with catalogue.making(str(tmp_path), "app"):
        other.start()
        other.join(0.2)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
