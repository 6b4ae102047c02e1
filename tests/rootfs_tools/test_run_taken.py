"""`run` of an image whose layers are shared: few, very many, and in a user namespace."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from conftest import Program
from layers import layer_of
from rootfs_tools.take import take
from tests.rootfs_tools.layouts import FolderSource, LayoutFolder, member, tar

D = tarfile.DIRTYPE


@pytest.fixture
def program(minirun: Program, tmp_path: Path) -> Program:
    """minirun with a store of its own, in which `many` has 130 layers over busybox."""
    base = layer_of("busybox")
    argv = ["tar", "-C", str(base), "-c", "."]
    first = subprocess.run(argv, capture_output=True, check=True).stdout
    layers = [tar(member("d/", D), member(f"d/{n}", content=b"%d" % n)) for n in range(129)]
    last = tar(
        member("./", D, mode=0o711, uid=7),
        member("d/.wh.7"),
        member("who", mode=0o600, uid=5, content=b"w"),
    )
    folder = LayoutFolder(
        tmp_path / "layout", first, *layers, last, compress=bytes,
        Env=["PATH=/bin:/usr/bin", "FROM=image"], WorkingDir="/d", Cmd=["sh", "-c", "ls | wc -l"],
    )  # fmt: skip
    tmp_path.chmod(0o711)
    for place in tmp_path.parents[:3]:
        place.chmod(0o755)
    take(str(tmp_path / "store"), "many", FolderSource(folder))
    return minirun.at(tmp_path / "store")


SCRIPT = "echo $FROM; ls | wc -l; cat 128; echo; stat -c %u:%a /who /; pwd; test -e 7 || echo gone"


@pytest.mark.parametrize("flags", [(), ("--uidmap", "0:100000:65536")])
def test_131_layers(program: Program, flags: tuple[str, ...]) -> None:
    done = program("run", "--rm", *flags, "many", "sh", "-c", SCRIPT)
    assert done.stderr == ""
    assert done.stdout.split() == ["image", "128", "128", "5:600", "7:711", "/d", "gone"]


def test_inspect_names_the_image(program: Program) -> None:
    program("run", "-d", "--name", "c", "many", "sleep", "60")
    text = program("inspect", "--text", "c").stdout
    assert "many" in text
    done = program("run", "--name", "e", "many", "true")
    assert done.returncode == 0, done.stderr
