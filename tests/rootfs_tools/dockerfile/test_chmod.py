"""--chmod beside chmod(1): the same bits, for files and for folders."""

import os
import random
import stat
import subprocess
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from required import installed
from rootfs_tools.dockerfile.chmod import change_of

GIVEN = ("u+x", "a=rX,u+w", "go-w", "+x", "u=g,o=u", "g+s,+t", "ug=rwxs", "=", "u+rw-x", "o=t")


def clause(chance: random.Random) -> str:
    classes = "".join(chance.choices("ugoa", k=chance.randint(0, 3)))
    what = chance.choice(["".join(chance.choices("rwxXst", k=chance.randint(0, 4))), "u", "g", "o"])
    return f"{classes}{chance.choice('+-=')}{what}"


def test_the_same_as_chmod(tmp_path: Path) -> None:
    installed("chmod")
    chance = random.Random(3)
    texts = [
        *GIVEN,
        *(",".join(clause(chance) for _ in range(chance.randint(1, 3))) for _ in range(150)),
    ]
    for text in texts:
        for is_folder in (False, True):
            path = tmp_path / "x"
            path.mkdir() if is_folder else path.touch()
            mode = chance.choice((0o644, 0o755, 0o7777, 0, 0o4751, 0o2750, 0o1640))
            os.chmod(path, mode)
            script = 'umask 0; chmod -- "$1" "$2"'
            subprocess.run(["sh", "-c", script, "sh", text, str(path)], check=True)
            wanted = stat.S_IMODE(os.stat(path).st_mode)
            found = change_of(text)(mode, is_folder)
            assert oct(found) == oct(wanted), (text, oct(mode), is_folder)
            path.rmdir() if is_folder else path.unlink()


def test_octal() -> None:
    assert change_of("0755")(0o4000, False) == 0o755


@pytest.mark.parametrize("text", ["8", "u+y", "x", "u+x,", "u", "77777", "+x;", "u=gr"])
def test_what_is_no_mode(text: str) -> None:
    with pytest.raises(ImageError, match="--chmod="):
        change_of(text)
