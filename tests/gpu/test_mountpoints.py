"""The init layer: a second container looks inside as the first, and makes less on the disk.

Each test has a store and a state root of its own: the first run there writes down what it made.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, wait_until
from gpu import images
from gpu.sandbox import fingerprint
from minirun.core.choices import Choices
from minirun.core.config import Config
from minirun.core.rootfs import initlayer
from minirun.gpu import mountpoints
from minirun.gpu.edits import Edits
from minirun.gpu.simulated import elf

GPUS = ("--gpus", "0,1", "--gpu-driver=simulated")
SEE = """
busybox find /usr /lib /run /etc /var -exec busybox stat -c '%n %A %u:%g %N' {} + 2>/dev/null |
busybox sort; busybox strings /etc/ld.so.cache | busybox sort; nvidia-smi -L
"""
NEWER = {"MINIRUN_SIM": "driver=560.35.03"}


class Place:
    """A store with the image `box`, and a state root, of a test's own."""

    def __init__(self, command: str, path: Path) -> None:
        self.store = path / "store"
        self.layer = images.make(self.store, "box")
        self.program = Program(command, path / "root", "--store", str(self.store))

    def see(self, *flags: str, gpus: tuple[str, ...] = GPUS, **env: str) -> str:
        """Return what a container finds."""
        argv = ("run", "--rm", *gpus, *flags, "box", "busybox", "sh", "-c", SEE)
        done = self.program(*argv, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def own(self, *flags: str, gpus: tuple[str, ...] = GPUS) -> list[str]:
        """Return what a container has in upper before its command has written anything."""
        argv = ("run", "-d", "--name", "own", *gpus, *flags, "box", "busybox", "sleep", "60")
        done = self.program(*argv)
        assert done.returncode == 0, done.stderr
        upper = self.program.root / "own/upper"
        found = sorted(str(p.relative_to(upper)) for p in upper.rglob("*") if not p.is_dir())
        assert self.program("delete", "--force", "own").returncode == 0
        return found

    def ran_ldconfig(self) -> bool:
        """Return whether the container that ran last had to have it run."""
        names = [event["name"] for event in self.program.events()]
        assert ("ldconfig ended" in names) != ("ld.so.cache kept" in names)
        return "ldconfig ended" in names

    def files(self) -> list[Path]:
        """Return what was written down."""
        return sorted((self.program.root / initlayer.FOLDER).glob("*"))

    def layered(self, *names: str) -> None:
        """Give the image more layers; make these folders."""
        path = self.store / "images/box/image.json"
        details = json.loads(path.read_text())
        details["layers"] += names
        path.write_text(json.dumps(details))
        for name in names:
            (self.store / "images/box" / name).mkdir()


@pytest.fixture
def place(command: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(command, tmp_path)
    yield made
    made.program.clean()


def test_the_second_container_finds_the_same(place: Place) -> None:
    before = fingerprint(place.layer)
    first = place.see()
    assert len(place.files()) == 1
    assert "/usr/lib64/libcuda.so.1' -> 'libcuda.so.550.163.01'" in first
    assert place.ran_ldconfig()
    for _ in range(2):
        assert place.see() == first
        assert not place.ran_ldconfig()
    assert fingerprint(place.layer) == before


def test_its_mount_points_are_not_in_upper(place: Place) -> None:
    assert len(place.own()) > 30
    assert place.own() == []


def test_which_gpus_makes_no_difference(place: Place) -> None:
    place.see()
    assert place.own(gpus=("--gpus", "3", "--gpu-driver=simulated")) == []
    assert len(place.files()) == 1


def test_other_wishes_have_their_own(place: Place) -> None:
    every = ("-e", "NVIDIA_DRIVER_CAPABILITIES=all")
    place.see()
    first = place.see(*every)
    assert "libnvidia-encode" in first
    assert len(place.files()) == 2
    assert place.see(*every) == first
    assert "libnvidia-encode" not in place.see()


def test_another_driver_leaves_no_name_of_the_old_one(place: Place) -> None:
    old = place.see()
    assert "550.163.01" in old
    newer = place.see(**NEWER)
    assert "560.35.03" in newer
    assert "550.163.01" not in newer
    assert place.files() == []
    assert place.see(**NEWER) == newer
    assert place.see(**NEWER) == newer
    assert place.see() == old


def test_the_event_says_that_it_was_out_of_date(place: Place) -> None:
    place.see()
    place.see(**NEWER)
    names = [event["name"] for event in place.program.events()]
    assert "init layer out of date" in names


def test_another_file_under_the_same_name_is_another_driver(place: Place) -> None:
    first = place.see()
    for library in place.store.glob("drivers/*/**/libcuda.so.550.163.01"):
        os.utime(library, (1, 1))
    assert place.see() == first
    assert place.ran_ldconfig()
    for again in (True, False):
        assert place.see() == first
        assert place.ran_ldconfig() == again


def test_other_folders_for_ldconfig_are_another_need() -> None:
    edits = Edits(library_folders=("/usr/lib64",))
    more = edits._replace(library_folders=("/usr/lib64", "/usr/local/cuda/compat"))
    assert initlayer.needs(edits, -1) != initlayer.needs(more, -1)


@pytest.mark.parametrize("flags", [("--progress", "plain"), ("--snapshots",)])
def test_whoever_watches_sees_all_of_it(place: Place, flags: tuple[str, ...]) -> None:
    first = place.see()
    assert place.see(*flags) == first
    assert place.ran_ldconfig()
    assert place.see() == first
    assert not place.ran_ldconfig()


def test_another_ldconfig_runs_again(place: Place, tmp_path: Path) -> None:
    first = place.see()
    folder = tmp_path / "nvidia-container-runtime"
    folder.mkdir()
    program = tmp_path / "ldconfig"
    shutil.copy("/sbin/ldconfig", program)
    (folder / "config.toml").write_text(f'[nvidia-container-cli]\nldconfig = "@{program}"\n')
    assert place.see(XDG_CONFIG_HOME=str(tmp_path)) == first
    assert place.ran_ldconfig()


LOOK = "busybox find / -xdev -name '*nvidia*' -o -xdev -name 'libcuda*'; echo done"


@pytest.mark.parametrize("word", ["", "void"])
def test_nobody_asks_for_gpus(place: Place, word: str) -> None:
    place.see()
    flags = ("--rm", "-e", f"NVIDIA_VISIBLE_DEVICES={word}", "--gpu-driver=simulated")
    done = place.program("run", *flags, "box", "busybox", "sh", "-c", LOOK)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_the_toolkit_refuses_what_was_asked_for(place: Place, tmp_path: Path) -> None:
    place.see()
    folder = tmp_path / "nvidia-container-runtime"
    folder.mkdir()
    text = "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"
    (folder / "config.toml").write_text(text)
    argv = ("run", "--rm", *GPUS, "box", "busybox", "sh", "-c", LOOK)
    done = place.program(*argv, env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    names = [event["name"] for event in place.program.events()]
    assert "init layer out of date" in names


def test_an_image_that_was_changed_is_another_one(place: Place) -> None:
    place.see()
    (place.layer / "lib").mkdir()
    assert len(place.own()) > 30
    assert len(place.files()) == 2


def test_where_upper_holds_other_things_too(place: Place, tmp_path: Path) -> None:
    volume = ("-v", f"{tmp_path}:/data")
    assert len(place.own(*volume)) > 30
    assert place.files() == []
    place.own()
    assert len(place.own(*volume)) > 30


def test_not_in_a_user_namespace(place: Place) -> None:
    for flags in (), ("--uidmap", "0:100000:9"):
        raw = json.loads(place.program("spec", *GPUS, *flags, "box").stdout)
        assert initlayer.fits(Config(raw, "", Choices(layers=("/layer",)))) == (not flags)


def test_owners_and_modes_of_the_images_folders(place: Place) -> None:
    folder = place.layer / "usr/lib64"
    folder.mkdir()
    os.chown(folder, 5, 6)
    os.chmod(folder, 0o2775)
    first = place.see()
    assert "/usr/lib64 drwxrwsr-x 5:6 " in first
    assert place.see() == first


def test_what_a_layer_has_removed_stays_removed(place: Place) -> None:
    """A folder that comes back over a whiteout: what lay in it does not."""
    (place.layer / "usr/lib64").mkdir()
    (place.layer / "usr/lib64/gone").write_text("gone")
    place.layered("layers/1")
    above = place.store / "images/box/layers/1"
    (above / "usr").mkdir()
    os.mknod(above / "usr/lib64", 0o20000, 0)  # a whiteout
    first = place.see()
    assert "libcuda.so.1" in first and "gone" not in first
    assert len(place.files()) == 1
    assert place.see() == first


def test_a_folder_with_attributes_is_left_to_overlayfs(place: Place) -> None:
    folder = place.layer / "usr/lib64"
    folder.mkdir()
    os.setxattr(folder, "user.note", b"kept by the copy in upper")
    place.see()
    assert place.files() == []


def library(path: Path, soname: bytes) -> None:
    """Put a library into the image that ldconfig makes a link called `soname` for."""
    stand_in = "x" * len(soname)
    data = elf.shared_object(stand_in, os.uname().machine, (), "")
    path.write_bytes(data.replace(stand_in.encode(), soname, 1))


def test_a_library_may_be_called_whatever_it_likes(place: Place) -> None:
    library(place.layer / "usr/lib/lib1.so.9", b"lib\xff\xfe.so.1")
    first = place.see()
    assert len(place.files()) == 1
    assert place.see() == first
    assert place.own() == []


@pytest.mark.parametrize("kind", ["very many", "very deep", "very large"])
def test_a_hostile_image_can_only_prevent_it(place: Place, kind: str) -> None:
    """ldconfig makes links for whatever libraries an image has, wherever its ld.so.conf says."""
    if kind == "very many":
        for number in range(mountpoints.MOST):
            library(place.layer / f"usr/lib/lib{number}.so.9", b"lib%d.so.1" % number)
    elif kind == "very large":
        for number in range(5000):  # each is called as its SONAME: there is no link to make
            name = f"lib{number:0200}.so.1"
            library(place.layer / "usr/lib" / name, name.encode())
    else:
        folder = place.layer.joinpath(*["deep"] * 40)
        folder.mkdir(parents=True)
        library(folder / "lib1.so.9", b"lib1.so.1")
        (place.layer / "etc/ld.so.conf").write_text("/deep" * 40)
    first = place.see()
    assert place.files() == []
    assert place.see() == first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "another"}'])
def test_a_damaged_file_is_passed_over(place: Place, text: str) -> None:
    first = place.see()
    [file] = place.files()
    file.write_text(text)
    assert place.see() == first
    assert json.loads(file.read_text())["made_for"]


def test_the_oldest_goes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.see()
    [file] = place.files()
    for number in range(mountpoints.LIMIT):
        (file.parent / f"{number:08x}.json").write_text("")
        os.utime(file.parent / f"{number:08x}.json", (number, number))
    os.utime(place.layer, (1, 1))
    place.see()
    names = [path.name for path in place.files()]
    assert len(names) == mountpoints.LIMIT
    assert file.name in names and "00000000.json" not in names


def test_many_at_once(place: Place) -> None:
    argv = ("run", "--rm", *GPUS, "box", "busybox", "sh", "-c", SEE)
    runs = [place.program.start(*argv) for _ in range(6)]
    found = {run.communicate()[0] for run in runs}
    assert len(found) == 1
    assert [run.returncode for run in runs] == [0] * 6
    assert place.see() in found


def test_a_link_of_the_image_is_followed_inside(place: Place, tmp_path: Path) -> None:
    """What was resolved once is kept as folders: the link itself stays what it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.layer / "usr/lib64").symlink_to(f"../../../../..{outside}")
    first = place.see()
    assert place.see() == first
    assert place.own() == []
    assert list(outside.iterdir()) == []


def test_killed_while_it_is_used(place: Place) -> None:
    place.see()
    for _ in range(3):
        run = place.program.start("run", "--name", "k", *GPUS, "box", "busybox", "sleep", "60")
        log = place.program.root / "k/events.jsonl"
        wait_until(lambda log=log: log.exists() and "symlinkat" in log.read_text(), 5)
        run.kill()
        run.communicate()
        assert place.program("gc").returncode == 0
        assert place.program.left() == []
    assert "GPU 1" in place.see()
