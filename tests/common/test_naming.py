"""The name of a container: taken, changed and given back, whatever is killed on the way."""

import json
import os
import random
import re
import subprocess
import time
from binascii import crc32
from pathlib import Path

import pytest

from conftest import Program, killed
from core.lifecycle.leftovers import together
from layers import layer_of
from minirun.common import naming
from minirun.common.two_words import two_words
from minirun.core.errors import StateError
from minirun.core.keeping import places, state

MOMENTS = int(os.environ.get("MINIRUN_MOMENTS") or 6)
"""At so many moments each command is killed."""
STORE_02 = Path(__file__).parents[1] / "data/records/store.json"
"""Three containers as minirun 0.2 kept them, beside each other: ended, and one of them renamed."""


def good(program: Program, *args: str) -> str:
    done = program(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def named(program: Program) -> dict[str, str]:
    """Return name → id of all containers; fail if two have one name, or a name does not find it."""
    rows = good(program, "ps", "-a", "--no-trunc", "--format", "{{.Names}} {{.ID}}").splitlines()
    found = dict(row.split() for row in rows)
    assert len(found) == len(rows), rows
    for name, container_id in found.items():
        assert naming.id_of(str(program.root), name) == container_id
    return found


def killed_at(program: Program, seconds: float, moment: int, *args: str) -> None:
    """Start a command, and kill it at one of the moments of the time that it takes."""
    process = program.start(*args)
    time.sleep(seconds * (moment + random.random()) / MOMENTS)
    killed(process.pid)
    process.communicate()


def seconds_of(program: Program, *args: str) -> float:
    begin = time.monotonic()
    good(program, *args)
    return time.monotonic() - begin


def test_an_id_is_64_digits_and_its_directory(minirun: Program) -> None:
    found = good(minirun, "create", "--name", "web", "busybox", "hostname")
    assert re.fullmatch("[0-9a-f]{64}", found) and minirun.id("web") == found
    assert (minirun.root / found / places.NAME).read_text() == "web"
    assert good(minirun, "ps", "-aq") == found[:12]
    assert good(minirun, "ps", "-aq", "--no-trunc") == found
    form = "{{slice .Id 0 12}} {{.Name}} {{.Config.Hostname}}"
    for text in ("web", found, found[:12], found[:4]):
        assert good(minirun, "inspect", "--format", form, text) == f"{found[:12]} /web {found[:12]}"
    assert good(minirun, "start", "-a", found[:12]) == found[:12]
    good(minirun, "rm", found[:8])
    assert minirun.left() == []


def test_a_name_of_two_words(minirun: Program) -> None:
    found = {good(minirun, "create", "busybox", "true") for _ in range(3)}
    names = named(minirun)
    assert set(names.values()) == found
    assert all(re.fullmatch(r"[a-z]+_[a-z]+\d?", name) for name in names)
    assert all(state.is_id(two_words(more)) for more in (0, 1) for _ in range(100))


def test_blue_and_green(minirun: Program) -> None:
    blue = good(minirun, "run", "-d", "--name", "web", "busybox", "sleep", "100")
    good(minirun, "rename", "web", "web-old")
    green = good(minirun, "run", "-d", "--name", "web", "busybox", "sleep", "100")
    assert named(minirun) == {"web-old": blue, "web": green}
    for name in ("web", "web-old"):
        done = minirun("create", "--name", name, "busybox", "true")
        assert done.returncode == 1 and f'name "/{name}" is already in use' in done.stderr
        assert f"minirun rm {name}, or another name" in done.stderr
    good(minirun, "rm", "--force", "web-old")
    assert named(minirun) == {"web": green}


def test_a_bundle_and_an_image_have_no_common_name(minirun: Program, tmp_path: Path) -> None:
    good(minirun, "create", "--name", "web", "busybox", "true")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    root = {"path": str(layer_of("busybox")), "readonly": True}
    config = minirun.spec("true") | {"root": root}
    (bundle / "config.json").write_text(json.dumps(config))
    done = minirun("create", "--bundle", str(bundle), "web")
    assert done.returncode == 1 and "container with given ID already exists" in done.stderr
    good(minirun, "rename", "web", "shop")
    words = minirun.argv("create", "--bundle", str(bundle), "web")
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    done = minirun("create", "--name", "web", "busybox", "true")
    assert done.returncode == 1 and "minirun rm web, or another name" in done.stderr
    assert set(named(minirun)) == {"web", "shop"} and minirun.id("web") == "web"
    good(minirun, "delete", "--force", "web")


def test_many_take_one_name(minirun: Program) -> None:
    said = together(minirun, 6, "create", "--name", "one", "busybox", "true")
    assert sorted(status for status, _ in said) == [0] + [1] * 5, said
    assert list(named(minirun)) == ["one"]


def test_killed_while_it_is_made(minirun: Program) -> None:
    run = ("run", "--name", "one", "busybox", "true")
    seconds = seconds_of(minirun, *run)
    good(minirun, "rm", "one")
    for moment in range(MOMENTS):
        killed_at(minirun, seconds, moment, *run)
        good(minirun, "gc")
        if "one" not in named(minirun):
            assert minirun.left() == []
            good(minirun, *run)
        good(minirun, "rm", "one")
        assert minirun.left() == []


def test_killed_while_it_is_renamed(minirun: Program) -> None:
    container_id = good(minirun, "create", "--name", "a0", "busybox", "true")
    seconds, last = seconds_of(minirun, "rename", "a0", "a1"), "a1"
    for moment in range(MOMENTS):
        new = f"b{moment}"
        killed_at(minirun, seconds, moment, "rename", last, new)
        ((name, found),) = named(minirun).items()
        assert found == container_id and name in (last, new)
        other = last if name == new else new
        good(minirun, "create", "--name", other, "busybox", "true")  # it is free
        good(minirun, "rm", other)
        last = name
    good(minirun, "gc")
    assert os.listdir(minirun.root / places.NAMES) == [last]


def test_killed_while_it_is_removed(minirun: Program) -> None:
    make = ("create", "--name", "one", "busybox", "true")
    good(minirun, *make)
    seconds = seconds_of(minirun, "rm", "one")
    for moment in range(MOMENTS):
        container_id = good(minirun, *make)
        killed_at(minirun, seconds, moment, "rm", "one")
        if named(minirun):
            assert named(minirun) == {"one": container_id}
            good(minirun, "rm", "--force", "one")
        else:
            good(minirun, *make)  # it is free
            good(minirun, "rm", "one")
        good(minirun, "gc")
        assert minirun.left() == [] and os.listdir(minirun.root / places.NAMES) == []


def old_store(program: Program) -> None:
    """Put the containers of a store of minirun 0.2 below the state root."""
    words = {
        "ROOT": str(program.root), "MARK": f"{crc32(str(program.root).encode()):08x}",
        "LAYER": str(layer_of("busybox", program.store)),
    }  # fmt: skip
    text = re.sub("|".join(words), lambda match: words[match[0]], STORE_02.read_text())
    for container_id, files in json.loads(text).items():
        directory = program.root / container_id
        directory.mkdir(mode=0o700, parents=True)
        for name in (places.ROOTFS, places.UPPER, places.WORK):
            (directory / name).mkdir()
        for name, content in files.items():
            written = content if isinstance(content, str) else json.dumps(content)
            (directory / name).write_text(written)


@pytest.mark.root
def test_a_store_of_version_02(minirun: Program) -> None:
    old_store(minirun)
    assert named(minirun) == {"web": "web", "shop": "api", "74a9622e27b2": "74a9622e27b2"}
    for name in ("web", "shop"):
        done = minirun("create", "--name", name, "busybox", "true")
        assert done.returncode == 1 and f"minirun rm {name}, or another name" in done.stderr
    good(minirun, "start", "-a", "shop")
    good(minirun, "rename", "web", "web-old")
    new = good(minirun, "create", "--name", "web", "busybox", "true")
    assert named(minirun) == {
        "web-old": "web", "web": new, "shop": "api", "74a9622e27b2": "74a9622e27b2",
    }  # fmt: skip
    good(minirun, "rm", "web-old", "web", "shop", "74a9622")
    assert minirun.left() == []


def test_below_a_long_root(command: str, tmp_path: Path) -> None:
    folder = f"{tmp_path}/".ljust(90, "r")
    program = Program(command, Path(folder))
    try:
        good(program, "create", "-i", "--name", "a", "busybox", "echo", "hi")
        assert len(f"{program.directory('a')}/{places.ATTACH}") > 108
        assert good(program, "start", "-a", "a") == "hi"
    finally:
        program.clean()


def test_a_link_that_counts_for_nothing(tmp_path: Path) -> None:
    root = str(tmp_path)
    one = tmp_path / "one"
    one.mkdir(0o700)
    with naming.NamesLocked(root):
        naming.take(root, "web", one.name)
    assert naming.id_of(root, "web") == "", "the directory does not say so"
    (one / places.NAME).write_text("web")
    assert naming.id_of(root, "web") == one.name
    with pytest.raises(StateError, match="already in use"):
        naming.refuse_taken(root, "web", 1)
    for strange in ("../../etc", "/etc", "..", "x/y"):
        os.symlink(strange, tmp_path / places.NAMES / "odd")
        assert naming.id_of(root, "odd") == ""
        naming.sweep(root)
        assert os.listdir(tmp_path / places.NAMES) == ["web"]
