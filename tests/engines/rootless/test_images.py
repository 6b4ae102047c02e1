"""Images of a user without root: loaded into a store of the user's own, with volumes."""

import subprocess
import tarfile

import pytest

from engines.rootless.conftest import User
from layers import layer_of
from tests.rootfs_tools.layouts import LayoutFolder, member, tar

D = tarfile.DIRTYPE


def image(user: User, name: str) -> None:
    """Load an image of busybox and a strict folder, which is a volume."""
    layer = layer_of("busybox", user.home / ".local/share/minirun")
    argv = ["tar", "-C", str(layer), "-c", "."]
    first = subprocess.run(argv, capture_output=True, check=True).stdout
    second = tar(
        member("data/", D, mode=0o555, uid=7), member("data/no/", D, mode=0),
        member("data/no/file", content=b"image\n", mode=0, uid=5),
    )  # fmt: skip
    third = tar(member("data/no/more", content=b"more\n"))
    folder = LayoutFolder(
        user.home / "layout", first, second, third, compress=bytes,
        Env=["PATH=/bin"], Volumes={"/data": {}},
    )  # fmt: skip
    subprocess.run(["chown", "-R", str(user.home.stat().st_uid), str(folder.path)], check=True)
    done = user("load", "-i", str(folder.path), name)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["user", "granted"])
def test_a_volume_of_a_users_image(kind: str, request: pytest.FixtureRequest) -> None:
    user: User = request.getfixturevalue(kind)
    image(user, "app")
    script = "cat /data/no/file /data/no/more; echo mine > /data/new; stat -c %u:%g /data/new"
    done = user("run", "--name", "a", "app", "sh", "-c", script)
    assert (done.stderr, done.stdout) == ("", "image\nmore\n0:0\n")
    volumes = user.directory("a") / "volumes/0"
    assert (volumes / "new").read_text() == "mine\n"
    assert user("delete", "a").returncode == 0
    assert not volumes.exists()


@pytest.mark.parametrize("words", [("load", "-i"), ("image", "unpack")])
@pytest.mark.parametrize("name", ["app.tar", "layout:1"])
def test_an_archive_in_a_folder_that_is_closed(
    user: User, words: tuple[str, ...], name: str
) -> None:
    """It may be there: the user cannot know."""
    closed = user.home / "closed"
    closed.mkdir(mode=0o700)
    done = user(*words, f"{closed}/{name}", "app")
    path = f"{closed}/{name.partition(':')[0]}"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0].startswith(f"minirun: opening the image: {path}: Permission")
    assert done.stderr.count("\n") == 1
