"""A user of an image by its layers: each file is the topmost one's, and a whiteout hides it."""

import os
import stat
from pathlib import Path

import pytest

from minirun.core.errors import MinirunError
from minirun.oci.image_user import in_layers

PASSWD = "root:x:0:0::/:/bin/sh\nme:x:7:8::/home:/bin/sh\n"
GROUP = "staff:x:50:me\nextra:x:60:me\n"


def layers(tmp_path: Path, *rows: dict[str, str]) -> list[str]:
    """Make layers, lowest first; an empty text is a whiteout, one that begins with > a link."""
    found = []
    for number, row in enumerate(rows):
        top = tmp_path / str(number)
        top.mkdir()
        for name, text in row.items():
            path = top / name
            path.parent.mkdir(exist_ok=True)
            if not text:
                os.mknod(path, stat.S_IFCHR, 0)
            elif text.startswith(">"):
                path.symlink_to(text[1:])
            else:
                path.write_text(text)
        found.append(str(top))
    return found


BASE = {"etc/passwd": PASSWD, "etc/group": GROUP}


def test_the_files_may_lie_in_different_layers(tmp_path: Path) -> None:
    new = {"etc/passwd": PASSWD + "new:x:9:9::/:/bin/sh\n"}
    image = layers(tmp_path, BASE, new, {"other": "x"})
    assert in_layers("new:staff", image)[:2] == (9, 50)
    assert in_layers("me", image)[:3] == (7, 8, (50, 60))


def test_a_file_that_a_layer_removes(tmp_path: Path) -> None:
    image = layers(tmp_path, BASE, {"etc/passwd": ""})
    with pytest.raises(MinirunError, match="unable to find user me: no matching entries"):
        in_layers("me", image)
    assert in_layers("7:staff", image)[:2] == (7, 50)


@pytest.mark.parametrize("gone", ["", "a file"])
def test_a_folder_that_a_layer_removes(tmp_path: Path, gone: str) -> None:
    image = layers(tmp_path, BASE, {"etc": gone})
    with pytest.raises(MinirunError, match="unable to find user me"):
        in_layers("me", image)
    assert in_layers("7:8", image)[:2] == (7, 8)


def test_a_link_is_followed_in_the_image(tmp_path: Path) -> None:
    (tmp_path / "host").write_text(PASSWD)
    image = layers(tmp_path, BASE, {"etc/passwd": f">{tmp_path}/host"})
    with pytest.raises(MinirunError, match="unable to find user me"):
        in_layers("me", image)
    (tmp_path / "more").mkdir()
    image = layers(tmp_path / "more", {"usr/users": PASSWD}, {"etc/passwd": ">../../usr/users"})
    assert in_layers("me", image).uid == 7


def test_links_in_a_circle(tmp_path: Path) -> None:
    image = layers(tmp_path, {"etc/passwd": ">other", "etc/other": ">/etc/passwd"})
    with pytest.raises(MinirunError, match="/etc/passwd cannot be read: too many levels"):
        in_layers("me", image)
