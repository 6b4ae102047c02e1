"""-u, against image files of every kind."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minirun.core.errors import MinirunError
from minirun.core.rootfs.inroot import Root
from minirun.oci import home
from minirun.oci.user import MAX_ID, MAX_SIZE, User, resolve_user

PASSWD = """root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin

1000:x:55:55:a number as a name:/trap:/bin/sh
ann:x:1000:100:Ann:/home/ann:/bin/sh
broken:x:1_0:0::/:/bin/sh
short:x:7:8
+::::::
homeless:x:1001:1001:::
"""
GROUP = """root:x:0:
daemon:x:1:root,ann
users:x:100:
video:x:44:ann
twice:x:44:ann
bad:x:٤:ann
wheel:x:10:root
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    etc = tmp_path / "image" / "etc"
    etc.mkdir(parents=True)
    (etc / "passwd").write_text(PASSWD)
    (etc / "group").write_text(GROUP)
    opened = Root.at(str(tmp_path / "image"))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", User(0, 0, (1, 10), "/root", "root")),
        ("0", User(0, 0, (1, 10), "/root", "root")),
        ("ann", User(1000, 100, (1, 44), "/home/ann", "ann")),
        ("1000", User(1000, 100, (1, 44), "/home/ann", "ann")),
        ("01000", User(1000, 100, (1, 44), "/home/ann", "ann")),
        ("1000:", User(1000, 100, (1, 44), "/home/ann", "ann")),
        ("1000:44", User(1000, 44, (), "/home/ann", "ann")),
        ("ann:video", User(1000, 44, (), "/home/ann", "ann")),
        (":video", User(0, 44, (), "/root", "root")),
        ("4242", User(4242, 0, (), "/", "")),
        ("4242:4243", User(4242, 4243, (), "/", "")),
        ("short", User(7, 8, (), "/", "short")),
        ("homeless", User(1001, 1001, (), "/", "homeless")),
        (str(MAX_ID), User(MAX_ID, 0, (), "/", "")),
    ],
)
def test_the_rules_of_docker(root: Root, spec: str, expected: User) -> None:
    assert resolve_user(root, spec) == expected


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("nosuch", "unable to find user nosuch: no matching entries in passwd file"),
        ("ann:nosuch", "unable to find group nosuch: no matching entries in group file"),
        ("broken", "unable to find user broken: no matching entries in passwd file"),
        ("ann:bad", "unable to find group bad: no matching entries in group file"),
        ("1_0", "unable to find user 1_0: no matching entries in passwd file"),
        (" 1", "unable to find user  1: no matching entries in passwd file"),
        ("١", "unable to find user ١: no matching entries in passwd file"),
        ("-1", "unable to find user -1: no matching entries in passwd file"),
        ("+1", "unable to find user +1: no matching entries in passwd file"),
        ("4294967295", "user '4294967295': uids and gids must be in range 0-2147483647"),
        ("4294967296", "user '4294967296': uids and gids must be in range 0-2147483647"),
        ("0:4294967296", "user '4294967296': uids and gids must be in range 0-2147483647"),
        ("9" * 5000, "uids and gids must be in range"),
    ],
)
def test_what_is_refused_and_how(root: Root, spec: str, text: str) -> None:
    with pytest.raises(MinirunError) as caught:
        resolve_user(root, spec)
    assert text in str(caught.value)
    assert caught.value.status == 125
    assert "\n" not in caught.value.line()


def test_an_image_without_the_files(tmp_path: Path) -> None:
    root = Root.at(str(tmp_path))
    assert resolve_user(root, "") == User(0, 0, (), "/", "")
    assert resolve_user(root, "12:13") == User(12, 13, (), "/", "")
    with pytest.raises(MinirunError, match="unable to find user ann"):
        resolve_user(root, "ann")
    root.close()


def test_a_link_to_the_hosts_file_stays_in_the_image(root: Root, tmp_path: Path) -> None:
    """CVE-2024-9676 and its kin: the link's target is looked up in the image."""
    outside = tmp_path / "outside"
    outside.write_text("evil:x:0:0::/:/bin/sh\n")
    passwd = tmp_path / "image/etc/passwd"
    for target in (str(outside), "../../outside"):
        passwd.unlink()
        passwd.symlink_to(target)
        with pytest.raises(MinirunError, match="unable to find user evil"):
            resolve_user(root, "evil")


def test_a_fifo_does_not_hang_and_a_directory_is_named(root: Root, tmp_path: Path) -> None:
    passwd = tmp_path / "image/etc/passwd"
    passwd.unlink()
    os.mkfifo(passwd)
    started = time.monotonic()
    with pytest.raises(MinirunError, match="/etc/passwd cannot be read: not a regular file"):
        resolve_user(root, "ann")
    passwd.unlink()
    passwd.mkdir()
    with pytest.raises(MinirunError, match="/etc/passwd cannot be read"):
        resolve_user(root, "0")
    assert time.monotonic() - started < 5


def test_an_endless_file_is_refused_and_not_cut_in_the_middle(root: Root, tmp_path: Path) -> None:
    """A cut line could read "x:10" where the file says "x:1000"."""
    passwd = tmp_path / "image/etc/passwd"
    with passwd.open("a") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(MinirunError, match=f"larger than {MAX_SIZE} bytes"):
        resolve_user(root, "ann")


def test_only_a_newline_ends_a_line_and_a_nul_spoils_it(root: Root, tmp_path: Path) -> None:
    passwd = tmp_path / "image/etc/passwd"
    passwd.write_bytes(
        "a:x:5:5:\x85eve:x:0:0::/e:\n".encode() + b"b:x:6:6:\x0bmal:x:0:0::/m:\nc:x:7:7::/\0:\n"
    )
    for name in ("eve", "mal", "c"):
        with pytest.raises(MinirunError, match=f"unable to find user {name}"):
            resolve_user(root, name)
    assert resolve_user(root, "5").uid == 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=400), spec=st.text(max_size=12))
def test_any_file_and_any_text_end_in_a_user_or_an_error(
    root: Root, tmp_path: Path, content: bytes, spec: str
) -> None:
    (tmp_path / "image/etc/passwd").write_bytes(content)
    (tmp_path / "image/etc/group").write_bytes(content)
    try:
        user = resolve_user(root, spec)
    except MinirunError:
        return
    assert all(0 <= number <= MAX_ID for number in (user.uid, user.gid, *user.groups))
    assert "\0" not in user.home


def test_a_home_with_a_nul_is_none(root: Root, tmp_path: Path) -> None:
    """It cannot be part of the environment: execve(2) would not even be called."""
    (tmp_path / "image/etc/passwd").write_bytes(b"a:x:7:7::/a\0b:\nb:x:7:7::/home:\n")
    assert home.of(root, 7) == "/home"
    (tmp_path / "image/etc/passwd").write_bytes(b"a:x:7:7::/a\0b:\n")
    assert home.of(root, 7) == "/"
