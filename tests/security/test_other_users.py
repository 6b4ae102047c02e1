"""Another user of the host, and the files of root's container in a user namespace.

Its root is some unprivileged user of the host: a file that is setuid to it makes a local user this
user, if its path can be walked; and all that the container's modes let others read can be read.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import STORE, Program
from layers import layer_of

OTHER = 54322
MAP = ("--uidmap", "0:100000:65536")
SCRIPT = "echo secret > /secret; cp /bin/busybox /id; chmod 4755 /id; id -u"


def as_other(script: str, path: Path) -> int:
    """Run a shell's line as the other user, "$0" the path; return its status."""
    argv = ["sh", "-c", script, str(path)]
    who = {"user": OTHER, "group": OTHER, "extra_groups": []}
    return subprocess.run(argv, capture_output=True, check=False, cwd="/", **who).returncode


@pytest.fixture(params=["id-mapped layers", "copied layers"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The store, and one of which no id-mapped mount can be made: an overlay."""
    layer_of("busybox")
    if request.param == "id-mapped layers":
        yield STORE
        return
    for name in ("upper", "work", "store"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={STORE},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    place = tmp_path / "store"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, place], check=True)
    yield str(place)
    subprocess.run(["umount", place], check=True)


@pytest.mark.root  # in a cell the shared store is several mounts: no overlay has them all
def test_no_other_user_reaches_them(reachable: Program, store: str) -> None:
    reachable.store = str(store)
    words = ("run", *MAP, "--name", "c", "-v", "/volume", "busybox", "sh", "-c", SCRIPT)
    done = reachable(*words)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    for _ in range(2):  # it starts again
        folder = reachable.directory("c")
        found = [path for path in folder.rglob("*") if path.name in ("secret", "id", "busybox")]
        assert {path.name for path in found} >= {"secret", "id"}
        assert os.stat(folder / "upper/id").st_uid == 100000
        assert as_other('test -x "$0"', reachable.root) == 0
        for path in (*found, *(folder / name for name in ("upper", "lower", "rootfs", "work"))):
            assert as_other('test -e "$0"', path) == 1, path
        assert as_other('cat "$0"', folder / "upper/secret") == 1
        assert as_other('exec "$0" -u', folder / "upper/id") == 126
        done = reachable("start", "-a", "c")
        assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    done = reachable("run", *MAP, "--rm", "--user", "1000:1000", "busybox", "id", "-u")
    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr
