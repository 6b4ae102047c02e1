"""Unpacking as an ordinary user, in no user namespace: umoci's trees, and nothing that stays."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minirun import cli
from minirun.faces.doctor.attempts import in_child
from required import installed
from rootfs_tools.catalogue import verify
from rootfs_tools.take import take
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, listing, member, tar
from tests.rootfs_tools.test_unpack_layer import BASE, CASES, NEW, C, D, H, without_times

UID = 54321
STRICT = (
    tar(member("./", D, mode=0o555), member("ro/", D, mode=0o555), member("ro/gone"),
        member("ro/secret", mode=0), member("ro/no/", D, mode=0),
        member("ro/no/in/", D, mode=0o111), member("ro/no/in/old"),
        member("shut/", D, mode=0), member("shut/x"),
        member("null", C, devmajor=1, devminor=3), member("null2", H, linkname="null")),
    tar(member("ro/.wh.gone"), member("ro/no/in/.wh.old"), member("ro/no/in/new", content=b"n"),
        member("hard", H, linkname="ro/no/in/new"), member(".wh.shut"), member("shut", mode=0)),
)  # fmt: skip


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of the user's; pytest's own is root's alone."""
    with tempfile.TemporaryDirectory(prefix="minirun-user-") as name:
        os.chown(name, UID, UID)
        yield Path(name)


def as_user(attempt: Callable[[], object]) -> str:
    """Call `attempt` as the user, and return what it returned, as text."""

    def call() -> str:
        os.setgroups([])
        os.setgid(UID)
        os.setuid(UID)
        return str(attempt())

    works, text = in_child(call)
    assert works, text
    return text


def rootless_umoci(folder: LayoutFolder, place: Path) -> dict[str, Any]:
    argv = [installed("umoci"), "unpack", "--rootless", "--image", f"{folder.path}:test"]
    done = subprocess.run(
        [*argv, str(place / "umoci")], capture_output=True, text=True, check=False,
        user=UID, group=UID, extra_groups=[], env={"HOME": str(place)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return listing(place / "umoci/rootfs")


@pytest.mark.parametrize("case", [*CASES, "strict"])
def test_the_trees_are_umocis(case: str, place: Path) -> None:
    layers = STRICT if case == "strict" else [tar(*each) for each in [BASE, *CASES[case]]]
    folder = LayoutFolder(place / "layout", *layers)
    wanted = rootless_umoci(folder, place)
    argv = ["image", "unpack", f"{folder.path}:test", str(place / "own")]
    assert as_user(lambda: cli.main(argv)) == "0"
    found, new = listing(place / "own/rootfs"), NEW.get(case, ())
    assert without_times(found, new) == without_times(wanted, new)


def test_the_modes_are_the_image_s(place: Path) -> None:
    folder = LayoutFolder(place / "layout", *STRICT)
    argv = ["image", "unpack", f"{folder.path}:test", str(place / "own")]
    assert as_user(lambda: cli.main(argv)) == "0"
    found = {
        name: stat.S_IMODE(os.lstat(place / "own/rootfs" / name).st_mode)
        for name in (".", "ro", "ro/no", "ro/no/in", "ro/secret", "shut")
    }
    modes = {".": 0o555, "ro": 0o555, "ro/no": 0, "ro/no/in": 0o111, "ro/secret": 0, "shut": 0}
    assert found == modes


def test_of_a_wrong_image_nothing_is_left(place: Path) -> None:
    folder = LayoutFolder(place / "layout", *STRICT, User="no-such-user")
    argv = ["image", "unpack", f"{folder.path}:test", str(place / "own")]
    assert as_user(lambda: cli.main(argv)) == "1", "as each verb of docker's group image"
    assert os.listdir(place) == ["layout"]


def test_a_store_can_be_read_by_its_owner(place: Path) -> None:
    """All layers are verified again, and removed."""
    folder = LayoutFolder(place / "layout", *STRICT)
    store = str(place / "store")

    def attempt() -> str:
        take(store, "app", FolderSource(folder))
        return verify(store, "app")

    assert as_user(attempt) == ""
    as_user(lambda: subprocess.run(["rm", "-r", store], check=True).returncode)
    assert not os.path.exists(store)
