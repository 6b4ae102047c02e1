"""Removing what a container has written, however it is made."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from minirun.core.rootfs.tree import remove_tree


def test_a_tree_with_all_kinds_of_files(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a/b/c/d").mkdir(parents=True)
    (tree / "a/b/file").write_text("x")
    (tree / "a/b/c/file").write_text("x")
    os.mkfifo(tree / "a/fifo")
    os.mknod(tree / "a/b/null", stat.S_IFCHR, os.makedev(1, 3))
    os.link(tree / "a/b/file", tree / "a/hard")
    (tree / "a/b/c").chmod(0)
    (tree / "a/.hidden").mkdir()
    os.mkdir(os.path.join(os.fsencode(tree), b"\xff\n"))
    remove_tree(str(tree))
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "dir").mkdir(parents=True)
    (host / "dir/file").write_text("stays")
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    for name in ("link", "a/link"):
        (tree / name).symlink_to(host)
    (tree / "dangling").symlink_to("/nosuch")
    remove_tree(str(tree))
    assert not tree.exists()
    assert (host / "dir/file").read_text() == "stays"


def test_a_link_or_a_file_in_place_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "link").symlink_to("host")
    (tmp_path / "file").write_text("")
    remove_tree(str(tmp_path / "link"))
    remove_tree(str(tmp_path / "file"))
    assert [p.name for p in tmp_path.iterdir()] == ["host"]


def test_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "nosuch"))
    remove_tree(str(tmp_path / "nosuch/below"))


def test_nested_deeper_than_any_path_or_number_of_descriptors(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    nest = "import os\nfor _ in range(2000): os.mkdir('d'); open('f', 'w'); os.chdir('d')"
    subprocess.run([sys.executable, "-IS", "-c", nest], cwd=tree, check=True)
    remove_tree(str(tree))
    assert list(tmp_path.iterdir()) == []


def test_names_that_it_would_move_things_to(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    pid = os.getpid()
    for number in range(5):
        (tree / f".{pid}.{number}/x/y").mkdir(parents=True)
    (tree / f".{pid}.7").write_text("a file")
    (tree / "a/b/c").mkdir(parents=True)
    remove_tree(str(tree))
    assert list(tmp_path.iterdir()) == []


def test_a_mount_point_in_the_way_is_an_error_and_is_not_emptied(tmp_path: Path) -> None:
    tree, host = tmp_path / "tree", tmp_path / "host"
    (tree / "a/mnt").mkdir(parents=True)
    host.mkdir()
    (host / "file").write_text("stays")
    script = f"""
mount --make-rprivate / && mount --bind {host} {tree}/a/mnt || exit 3
exec {sys.executable} -c 'import sys; sys.path[:0] = [sys.argv[1]]
from minirun.core.rootfs.tree import remove_tree
try: remove_tree(sys.argv[2])
except OSError as error: print(error.strerror)' {Path(__file__).parents[3]} {tree}
"""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Device or resource busy\n"
    assert (host / "file").read_text() == "stays"


def test_several_remove_the_same_tree_at_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for a in range(10):
        for b in range(10):
            (tree / f"{a}/{b}/x/y").mkdir(parents=True)
            (tree / f"{a}/{b}/x/file").write_text("")
    pids = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            try:
                remove_tree(str(tree))
                os._exit(0)
            except OSError as error:
                os.write(2, f"{error}\n".encode())
            finally:
                os._exit(1)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 8
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_an_error() -> None:
    with pytest.raises(PermissionError):
        remove_tree("/proc/self/status")
