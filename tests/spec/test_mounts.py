"""mounts of config.json: words, ids, contents, propagation; seen from inside a container."""

import os
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from required import installed
from spec.conftest import Bundle

HERE = "grep ' /mnt ' /proc/self/mountinfo"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    path = tmp_path / "host"
    (path / "sub").mkdir(parents=True)
    (path / "file").write_text("of the host")
    return path


def tmpfs(*words: str, at: str = "/mnt") -> dict[str, Any]:
    return {"destination": at, "type": "tmpfs", "source": "tmpfs", "options": list(words)}


def bind(source: Path, *words: str, at: str = "/mnt", **more: Any) -> dict[str, Any]:
    return {"destination": at, "source": str(source), "options": ["bind", *words], **more}


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("ro", "ro"), ("nosuid", "nosuid"), ("nodev", "nodev"), ("noexec", "noexec"),
        ("noatime", "noatime"), ("nodiratime", "nodiratime"), ("relatime", "relatime"),
        ("nosymfollow", "nosymfollow"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["tmpfs", "bind", "recursive"])
def test_words_that_are_a_mounts_own(
    bundle: Bundle, host: Path, word: str, shown: str, kind: str
) -> None:
    row = {
        "tmpfs": tmpfs(word), "bind": bind(host, word), "recursive": bind(host, "r" + word),
    }[kind]  # fmt: skip
    line = bundle.says(HERE, mounts=bundle.mounts(row))
    assert shown in line.split()[5].split(",")


@pytest.mark.parametrize(
    ("words", "shown"), [("sync", "sync"), ("dirsync", "dirsync"), ("lazytime", "lazytime")]
)
def test_words_that_are_the_file_systems(bundle: Bundle, words: str, shown: str) -> None:
    """Those that belong to the superblock come behind the dash in mountinfo."""
    script = "grep ' /mnt ' /proc/mounts"
    line = bundle.says(script, mounts=bundle.mounts(tmpfs(*words.split())))
    assert shown in line.split()[3].split(",")


@pytest.mark.parametrize(
    "words",
    ["iversion", "noiversion", "silent", "loud", "mand", "nomand", "defaults", "async",
     "strictatime", "norelatime", "nostrictatime", "nolazytime", "symfollow", "rrelatime"],
)  # fmt: skip
def test_words_that_a_tmpfs_takes_without_showing_them(bundle: Bundle, words: str) -> None:
    assert bundle.says(HERE, mounts=bundle.mounts(tmpfs(words)))


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("iversion", "MS_I_VERSION"), ("silent", "MS_SILENT"), ("mand", "MS_MANDLOCK"),
        ("strictatime", "MS_STRICTATIME"), ("lazytime", "MS_LAZYTIME"),
    ],
)  # fmt: skip
def test_words_that_only_the_call_shows(bundle: Bundle, word: str, flag: str) -> None:
    bundle.says("true", mounts=bundle.mounts(tmpfs(word)))
    events = [e for e in bundle.program.events(bundle.name) if e["name"] == "mount"]
    [args] = [e["args"] for e in events if e["args"].get("path") == "/mnt"]  # type: ignore[attr-defined]
    assert args["flags"] == flag


def test_data_for_the_file_system(bundle: Bundle) -> None:
    line = bundle.says(HERE, mounts=bundle.mounts(tmpfs("size=64k", "mode=700", "nodev")))
    assert "size=64k,mode=700" in line


def test_data_for_no_file_system(bundle: Bundle, host: Path) -> None:
    """The specification passes unknown words on to mount(2), which has no use for them here."""
    assert bundle.says(HERE, mounts=bundle.mounts(bind(host, "size=64k")))


def test_a_read_only_bind_lifts_nothing(bundle: Bundle, host: Path) -> None:
    """What the host has restricted stays so; runc's second mount(2) lifts it."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid,nodev,noexec", "t", host], check=True)
    try:
        line = bundle.says(HERE, mounts=bundle.mounts(bind(host, "ro")))
    finally:
        subprocess.run(["umount", host], check=True)
    assert {"ro", "nosuid", "nodev", "noexec"} <= {*line.split()[5].split(",")}


MAPS = [{"containerID": 0, "hostID": 100000, "size": 65536}]
BIND_FLAGS = [
    # of the source, the words; what it has then: for root, and in a user namespace (None: refused)
    ("ro", "bind", {"ro"}, {"ro"}),
    ("ro", "bind,nosuid,nodev,rprivate", {"rw", "nosuid", "nodev"}, {"ro", "nosuid", "nodev"}),
    ("ro", "bind,rw,nosuid", {"rw", "nosuid"}, None),
    ("ro,noexec", "bind,dev", {"rw", "noexec"}, {"ro", "noexec"}),
    ("ro,noexec,nosymfollow", "bind,atime", {"rw", "noexec"}, {"ro", "noexec"}),
    ("nosuid,nodev", "bind,ro", {"ro", "nosuid", "nodev"}, {"ro", "nosuid", "nodev"}),
    ("nosuid,nodev", "bind,suid,dev", {"rw"}, None),
    ("nodev,nosymfollow", "bind,ro,symfollow", {"ro", "nodev"}, {"ro", "nodev"}),
    ("noatime", "bind", {"rw", "noatime"}, {"rw", "noatime"}),
    ("noatime", "bind,atime", {"rw", "noatime"}, {"rw", "noatime"}),
    ("noatime", "bind,norelatime", {"rw", "noatime"}, {"rw", "noatime"}),
    ("noatime", "bind,relatime", {"rw", "relatime"}, None),
    ("noatime", "bind,nodiratime", {"rw", "nodiratime", "relatime"}, None),
    ("nodiratime", "bind,strictatime", {"rw"}, None),
    ("noatime", "bind,nodiratime,strictatime", {"rw", "nodiratime"}, None),
    ("noatime", "bind,nodiratime,norelatime", {"rw", "nodiratime", "relatime"}, None),
    ("noatime,nodiratime", "bind,norelatime", {"rw", "noatime", "nodiratime"},
     {"rw", "noatime", "nodiratime"}),
    ("relatime", "bind,noatime", {"rw", "noatime"}, None),
]  # fmt: skip
"""The expectations of runc's tests (mounts_sshfs.bats), but for nosuid, nodev and noexec, which go
only where their own words say so."""


@pytest.mark.parametrize("mapped", [False, True], ids=["root", "user"])
@pytest.mark.parametrize(("of_source", "words", "root", "user"), BIND_FLAGS)
def test_what_a_bind_mount_keeps_of_its_source(
    bundle: Bundle, host: Path, of_source: str, words: str, root: set[str], user: set[str] | None,
    mapped: bool,
) -> None:  # fmt: skip
    changes: dict[str, Any] = {"mounts": bundle.mounts(bind(host, *words.split(",")[1:]))}
    if mapped:
        rows = bundle.namespaces({"type": "user"})
        changes |= {"linux__namespaces": rows, "linux__uidMappings": MAPS,
                    "linux__gidMappings": MAPS}  # fmt: skip
    bundle.let_others_in()
    (bundle.rootfs / "mnt").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "strictatime", "t", host], check=True)
    try:
        for flags in ("diratime,strictatime", of_source):
            subprocess.run(["mount", "-o", f"remount,bind,{flags}", host], check=True)
        if (user if mapped else root) is None:
            assert "peration not permitted" in bundle.refuses(**changes)
            return
        line = bundle.says(HERE, **changes)
    finally:
        subprocess.run(["umount", host], check=True)
    assert {*line.split()[5].split(",")} == (user if mapped else root)


def test_recursive_words_reach_below_and_the_others_do_not(bundle: Bundle) -> None:
    """The source is a tree of two mounts, made by the container's own first entries."""
    outer, inner = tmpfs(at="/mnt"), tmpfs(at="/mnt/sub")
    again = {"destination": "/mnt", "options": ["remount", "ro"], "type": "tmpfs"}
    script = "touch /mnt/x 2>&1; touch /mnt/sub/y && echo written"
    said = bundle.says(script, mounts=bundle.mounts(outer, inner, again))
    assert said.splitlines() == ["touch: /mnt/x: Read-only file system", "written"]


def test_a_relative_destination(bundle: Bundle) -> None:
    assert bundle.says(HERE, mounts=bundle.mounts(tmpfs(at="mnt")))


def test_later_words_of_propagation_come_on_top(bundle: Bundle, host: Path) -> None:
    row = bind(host, "rshared", "rslave", "rshared")
    line = bundle.says(HERE, mounts=bundle.mounts(row))
    assert "shared:" in line.partition(" - ")[0]
    line = bundle.says(HERE, mounts=bundle.mounts(bind(host, "shared", "private")))
    assert "shared:" not in line.partition(" - ")[0]


@pytest.mark.parametrize("word", ["unbindable", "runbindable"])
def test_an_unbindable_mount(bundle: Bundle, host: Path, word: str) -> None:
    assert "unbindable" in bundle.says(HERE, mounts=bundle.mounts(bind(host, word)))


# --- tmpcopyup -------------------------------------------------------------------------------


def test_a_tmpfs_with_what_was_below_it(bundle: Bundle) -> None:
    old = bundle.rootfs / "etc2"
    (old / "deep/er").mkdir(parents=True)
    (old / "deep").chmod(0o1750)
    (old / "file").write_text("old")
    os.chown(old / "file", 5, 6)
    (old / "file").chmod(0o4640)
    (old / "link").symlink_to("/nosuch")
    os.mkfifo(old / "fifo")
    os.chown(old / "fifo", 7, 8)
    (old / "fifo").chmod(0o620)
    row = tmpfs("tmpcopyup", "mode=711", at="/etc2")
    script = """cd /etc2; stat -c '%n %a %u:%g %F' . deep deep/er file link fifo; readlink link
        cat file; echo; echo new >file; grep -c ' /etc2 ' /proc/mounts"""
    said = bundle.says(script, mounts=bundle.mounts(row)).splitlines()
    assert said[:6] == [
        ". 711 0:0 directory", "deep 1750 0:0 directory", "deep/er 755 0:0 directory",
        "file 4640 5:6 regular file", "link 777 0:0 symbolic link",
        "fifo 620 7:8 fifo",
    ]  # fmt: skip
    assert said[6:] == ["/nosuch", "old", "1"]
    assert (old / "file").read_text() == "old"


TMPFS = {
    "/private": (), "/sticky": (), "/new/one": (), "/given": ("mode=711",),
    "/new/two": ("tmpcopyup",),
}  # fmt: skip
MODES = ["700", "1777", "1777", "711", "1777"]


def tmpfs_modes(bundle: Bundle) -> dict[str, Any]:
    """What makes a container print the modes of tmpfs; two are on what is there already."""
    (bundle.rootfs / "private").mkdir(mode=0o700)
    (bundle.rootfs / "sticky").mkdir()
    (bundle.rootfs / "sticky").chmod(0o1777)
    rows = [tmpfs(*words, at=at) for at, words in TMPFS.items()]
    return {"command": f"stat -c %a {' '.join(TMPFS)}", "mounts": bundle.mounts(*rows)}


def test_the_mode_of_a_tmpfs(bundle: Bundle) -> None:
    """That of the directory below it; where none is, a tmpfs' own, so that each user can write."""
    assert bundle.says(**tmpfs_modes(bundle)).split() == MODES


def test_the_mode_of_a_tmpfs_is_runcs(bundle: Bundle) -> None:
    """1777 for a new one is meant so: opencontainers/runc, pull request 4973."""
    bundle.write(**tmpfs_modes(bundle))
    argv = (installed("runc"), "--root", bundle.path / "state", "run", bundle.name)
    done = subprocess.run(argv, cwd=bundle.path, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.stdout.decode().split() == MODES, done.stderr


def test_the_order_is_that_of_the_list(bundle: Bundle, host: Path) -> None:
    """Also below a file system of cgroups (podman --systemd), and below one that is read-only."""
    cgroups = "/sys/fs/cgroup"
    rows = [tmpfs(at=f"{cgroups}/below"), tmpfs("ro"), bind(host, at="/mnt/host")]
    script = f"cat /mnt/host/file; touch {cgroups}/below/x; touch {cgroups}/x /mnt/x 2>&1"
    said = bundle.run(script, mounts=bundle.mounts(*rows)).stdout
    assert said.startswith("of the host")
    assert said.count("Read-only file system") == 2


@pytest.mark.parametrize(("source", "at"), [("file", "/etc"), ("sub", "/etc/passwd")])
def test_a_file_and_a_directory_on_each_other(
    bundle: Bundle, host: Path, source: str, at: str
) -> None:
    """docker asks "Are you trying to mount a directory onto a file?" where it reads these words."""
    said = bundle.refuses(mounts=bundle.mounts(bind(host / source, at=at)))
    index = len(bundle.config["mounts"])
    assert f"config.json: mounts[{index}]: {host / source} at {at}: " in said
    assert "Not a directory" in said


@pytest.mark.parametrize("words", [(), ("ro",)])
def test_another_root(bundle: Bundle, words: tuple[str, ...]) -> None:
    """A mount at / itself, as podman puts it first in the list: all that follows lies in it."""
    other = bundle.path / "other"
    shutil.copytree(bundle.rootfs, other, symlinks=True)
    (other / "named").write_text("the other\n")
    rows = [bind(other, *words, at="/"), *bundle.config["mounts"]]
    script = "cat /named; : </dev/zero; test -d /proc/1; touch /x && echo written; ls /named"
    done = bundle.run(script, mounts=rows)
    assert done.stdout.split("\n")[0] == "the other" and done.stdout.endswith("/named\n")
    assert ("written" in done.stdout) == (other / "x").exists() == (not words)
    assert not (bundle.rootfs / "x").exists()


@pytest.mark.parametrize("at", ["/", ""])
def test_a_tmpfs_as_the_root(bundle: Bundle, at: str) -> None:
    """podman's --tmpfs / names its place "", and asks for the image's files in it."""
    (bundle.rootfs / "named").write_text("of the image\n")
    rows = [tmpfs("tmpcopyup", at=at), *bundle.config["mounts"]]
    said = bundle.says("cat /named; grep ' / ' /proc/mounts; : > /x", mounts=rows)
    assert said.startswith("of the image\ntmpfs / tmpfs rw")
    assert not (bundle.rootfs / "x").exists()


def test_a_place_behind_a_link_to_nothing(bundle: Bundle) -> None:
    shutil.rmtree(bundle.rootfs / "var/run", ignore_errors=True)
    (bundle.rootfs / "var/run").symlink_to("/of-the-image-alone")
    rows = (tmpfs(at="/var/run"), tmpfs(at="/var/run/lock"))
    said = bundle.says("grep -c ' /of-the-image-alone' /proc/mounts", mounts=bundle.mounts(*rows))
    assert said == "2"
    assert not os.path.exists("/of-the-image-alone")


def test_a_copy_that_is_read_only(bundle: Bundle) -> None:
    (bundle.rootfs / "mnt2").mkdir()
    (bundle.rootfs / "mnt2/file").write_text("old")
    said = bundle.says(
        "cat /mnt2/file; echo; touch /mnt2/x 2>&1 || true",
        mounts=bundle.mounts(tmpfs("tmpcopyup", "ro", at="/mnt2")),
    )
    assert said == "old\ntouch: /mnt2/x: Read-only file system"


# --- id-mapped mounts ----------------------------------------------------------------------------

IDS = [{"containerID": 0, "hostID": 1000, "size": 10}]


def _owners(bundle: Bundle, *rows: dict[str, Any], **changes: Any) -> list[str]:
    script = "stat -c %u:%g /mnt/file /mnt/sub"
    return bundle.says(script, mounts=bundle.mounts(*rows), **changes).split()


@pytest.mark.parametrize("words", [("idmap",), ("ridmap",), ()])
def test_an_id_mapped_bind(bundle: Bundle, host: Path, words: tuple[str, ...]) -> None:
    """What is 0 on the disk is hostID through the mount; ids without a mapping are nobody's."""
    os.chown(host / "sub", 77, 3)
    row = bind(host, *words, uidMappings=IDS, gidMappings=IDS)
    assert _owners(bundle, row) == ["1000:1000", "65534:1003"]
    assert (host / "file").stat().st_uid == 0


def test_what_is_written_through_it_is_mapped_back(bundle: Bundle, host: Path) -> None:
    host.chmod(0o777)
    row = bind(host, "idmap", uidMappings=IDS, gidMappings=IDS)
    user = {"uid": 1002, "gid": 1003}
    bundle.says("touch /mnt/new", mounts=bundle.mounts(row), process__user=user)
    info = (host / "new").stat()
    assert (info.st_uid, info.st_gid) == (2, 3)


def test_the_containers_own_mapping(bundle: Bundle, host: Path) -> None:
    maps = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    changes = {
        "linux__namespaces": bundle.namespaces({"type": "user"}),
        "linux__uidMappings": maps, "linux__gidMappings": maps,
    }  # fmt: skip
    bundle.let_others_in()
    (bundle.rootfs / "mnt").mkdir()
    assert _owners(bundle, bind(host), **changes) == ["65534:65534"] * 2
    assert _owners(bundle, bind(host, "idmap"), **changes) == ["0:0"] * 2


def test_an_id_mapped_source_is_opened_before_the_first_mount(bundle: Bundle, host: Path) -> None:
    """A plain bind's is opened in its turn, and shows what an earlier entry has put below it."""
    (bundle.rootfs / "mnt").mkdir()
    below = bundle.rootfs / "mnt"
    mapped = bind(below, "idmap", at="/mapped", uidMappings=IDS, gidMappings=IDS)
    rows = bundle.mounts(bind(host), bind(below, at="/plain"), mapped)
    assert bundle.says("echo $(ls /plain), $(ls /mapped)", mounts=rows) == "file sub,"


@pytest.mark.parametrize("words", [("bind",), ("rbind", "ro")])
def test_a_source_below_a_directory_of_roots_alone(
    bundle: Bundle, host: Path, words: tuple[str, ...]
) -> None:
    """The container's root is another user of the host, which it does not let through."""
    maps = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    bundle.let_others_in()
    (bundle.rootfs / "mnt").mkdir()
    (host / "sub/word").write_text("reached")
    host.chmod(0o700)
    said = bundle.says(
        f"cat /mnt/word; echo; {HERE}; touch /mnt/new 2>&1 || true",
        mounts=bundle.mounts(bind(host / "sub", *words)),
        linux__namespaces=bundle.namespaces({"type": "user"}),
        linux__uidMappings=maps, linux__gidMappings=maps,
    )  # fmt: skip
    word, mounted, touched = said.splitlines()
    assert word == "reached"
    assert "shared:" not in mounted, "nothing spreads back to the host"
    assert touched.endswith("Read-only file system" if "ro" in words else "Permission denied")


def test_no_mapping_at_all(bundle: Bundle, host: Path) -> None:
    said = bundle.refuses(mounts=bundle.mounts(bind(host, "idmap")))
    assert "options: idmap needs uidMappings and gidMappings, or a user namespace" in said


def test_only_a_bind_can_be_mapped(bundle: Bundle) -> None:
    row = {**tmpfs("idmap"), "uidMappings": IDS, "gidMappings": IDS}
    assert "only a bind mount can be id-mapped" in bundle.refuses(mounts=bundle.mounts(row))


def test_a_file_system_that_knows_no_mapping(bundle: Bundle) -> None:
    row = bind(Path("/sys/fs"), "idmap", uidMappings=IDS, gidMappings=IDS)
    said = bundle.refuses(mounts=bundle.mounts(row))
    assert "/sys/fs cannot be id-mapped: invalid argument" in said


def test_ids_reach_below_only_with_ridmap(bundle: Bundle, host: Path) -> None:
    """Where the tree below holds what cannot be mapped, ridmap fails and idmap does not."""
    mounted = ["mount", "-t", "tmpfs", "tmpfs", str(host / "sub")]
    for word, expected in (("idmap", "0:0"), ("ridmap", "1000:1000")):
        row = bind(host, "rbind", word, uidMappings=IDS, gidMappings=IDS)
        bundle.write("stat -c %u:%g /mnt/sub", mounts=bundle.mounts(row))
        inner = " ".join(mounted)
        argv = bundle.program.argv("run", "--bundle", str(bundle.path), bundle.name)
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", f'{inner} && exec "$@"', "sh", *argv],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout.strip() == expected, done.stderr


# --- the root ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "shown"),
    [("shared", "shared:"), ("rshared", "shared:"), ("private", ""), ("rprivate", ""),
     ("unbindable", "unbindable"), ("slave", "master:"), ("", "")],
)  # fmt: skip
def test_propagation_of_the_root(bundle: Bundle, tmp_path: Path, word: str, shown: str) -> None:
    """In a mount namespace of our own, whose mounts are all shared, as systemd has them.

    They are private first, so that what other tests mount does not come in. What they had mounted
    before goes once they remove the directory it is on, in whichever namespace: rmdir(2).
    """
    bundle.write(["awk", '$5 == "/"', "/proc/self/mountinfo"], linux__rootfsPropagation=word)
    argv = bundle.program.argv("run", "--bundle", str(bundle.path), bundle.name)
    look = 'cut -d " " -f 5 /proc/self/mountinfo >'
    script = f'cd "$0"; mount --make-rshared /; {look}before; "$@" && {look}after'
    own = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(tmp_path))
    done = subprocess.run([*own, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = (
        Counter((tmp_path / name).read_text().splitlines()) for name in ("before", "after")
    )
    gone = [path for path in before - after if os.path.exists(path)]
    assert gone == [], "the host's mounts went with the container's old root"
    assert after <= before, "the container's mounts have come to the host"
    fields = done.stdout.splitlines()[-1].partition(" - ")[0].split()[6:]
    assert " ".join(fields).startswith(shown)
    assert bool(fields) == bool(shown)


def test_an_unknown_propagation(bundle: Bundle) -> None:
    said = bundle.refuses(linux__rootfsPropagation="sideways")
    assert "linux.rootfsPropagation: unknown value 'sideways'" in said


def test_a_read_only_root(bundle: Bundle) -> None:
    said = bundle.says(
        "touch /x 2>&1 || touch /dev/shm/y", root={"path": "rootfs", "readonly": True}
    )
    assert said == "touch: /x: Read-only file system"


def test_a_read_only_dev_has_its_nodes(bundle: Bundle) -> None:
    rows = [row for row in bundle.config["mounts"] if row["destination"] != "/dev"]
    rows.insert(1, tmpfs("mode=755", "ro", at="/dev"))
    rows = [row for row in rows if not row["destination"].startswith("/dev/")]
    said = bundle.says("ls /dev/null; touch /dev/x 2>&1 || true", mounts=rows)
    assert said == "/dev/null\ntouch: /dev/x: Read-only file system"


def test_a_read_only_dev_with_a_terminal(bundle: Bundle) -> None:
    """Whose /dev/console is made late."""
    rows = [row for row in bundle.config["mounts"] if row["destination"] != "/dev"]
    rows.insert(1, tmpfs("mode=755", "ro", at="/dev"))
    script = "tty; test -c /dev/console && touch /dev/x"
    bundle.write(script, mounts=rows, process__terminal=True)
    argv = bundle.program.argv("run", "--bundle", str(bundle.path), bundle.name)
    typed = ["script", "-qec", shlex.join(argv), "/dev/null"]
    done = subprocess.run(typed, capture_output=True, text=True, check=False)
    assert "touch: /dev/x: Read-only file system" in done.stdout


def test_a_destination_that_begins_with_the_roots_path(bundle: Bundle) -> None:
    """`mount order` of runc 1.3.6's mounts.bats mounts such a one at the rest of the path."""
    place = f"{bundle.rootfs}/place"
    script = f"grep -c ' {place} ' /proc/self/mountinfo; grep -c ' /place ' /proc/self/mountinfo"
    rows = bundle.mounts(tmpfs(at=place))
    assert bundle.run(script, mounts=rows).stdout.split() == ["1", "0"]
