"""Mount options: what each word means, and that the kernel takes them so."""

import os
from pathlib import Path
from typing import Any

import pytest

from minirun.core.kernel import mounts as m
from minirun.core.rootfs import mount_options
from minirun.core.rootfs.mount_options import MountOptions, parse

NOTHING = MountOptions(0, (), 0, 0, 0, 0, "", "", False)

SPEC_WORDS = (
    "async", "atime", "bind", "defaults", "dev", "diratime", "dirsync", "exec", "iversion",
    "lazytime", "loud", "mand", "noatime", "nodev", "nodiratime", "noexec", "noiversion",
    "nolazytime", "nomand", "norelatime", "nostrictatime", "nosuid", "nosymfollow", "private",
    "ratime", "rbind", "rdev", "rdiratime", "relatime", "remount", "rexec", "rnoatime",
    "rnodiratime", "rnoexec", "rnosuid", "rnosymfollow", "rprivate", "rrelatime", "rro", "rrw",
    "rshared", "rslave", "rstrictatime", "rsuid", "rsymfollow", "runbindable", "ro", "rw",
    "shared", "silent", "slave", "strictatime", "suid", "symfollow", "sync", "unbindable",
    "rnorelatime", "rnostrictatime", "idmap", "ridmap", "tmpcopyup",
)  # fmt: skip
"""runtime-spec, config.md, "Linux mount options": all of them."""


@pytest.mark.parametrize("word", SPEC_WORDS)
def test_every_word_of_the_spec_is_known(word: str) -> None:
    assert parse([word]).data == "", "an unknown word is passed on to the file system as data"


def test_no_options() -> None:
    assert parse([]) == parse(["defaults"]) == NOTHING


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ro nosuid nodev noexec", {"flags": m.MS_RDONLY | m.MS_NOSUID | m.MS_NODEV | m.MS_NOEXEC}),
        ("ro rw", {"flags": 0, "set": 0, "clear": m.MOUNT_ATTR_RDONLY}),
        ("rw ro", {"flags": m.MS_RDONLY, "set": m.MOUNT_ATTR_RDONLY, "clear": 0}),
        ("nosuid suid", {"flags": 0, "clear": m.MOUNT_ATTR_NOSUID}),
        ("sync async dirsync", {"flags": m.MS_DIRSYNC}),
        ("bind", {"flags": m.MS_BIND}),
        ("rbind", {"flags": m.MS_BIND | m.MS_REC}),
        ("silent loud", {"flags": 0}),
        ("rprivate", {"propagation": (m.MS_PRIVATE | m.MS_REC,), "flags": 0}),
        ("slave shared", {"propagation": (m.MS_SLAVE, m.MS_SHARED)}),
        ("unbindable", {"propagation": (m.MS_UNBINDABLE,)}),
        ("rro", {"set_all": m.MOUNT_ATTR_RDONLY, "set": 0, "flags": 0}),
        ("ro", {"set": m.MOUNT_ATTR_RDONLY, "set_all": 0}),
        ("rro nosuid", {"set": m.MOUNT_ATTR_NOSUID, "set_all": m.MOUNT_ATTR_RDONLY}),
        ("rro rrw", {"set_all": 0, "clear_all": m.MOUNT_ATTR_RDONLY}),
        ("ridmap", {"id_map": "ridmap", "data": ""}),
        ("tmpcopyup mode=755", {"data": "mode=755"}),
        ("mode=755 size=64k", {"data": "mode=755,size=64k", "flags": 0}),
        ("ro mode=755 nodev", {"data": "mode=755", "flags": m.MS_RDONLY | m.MS_NODEV}),
        ("r rx rsync", {"data": "r,rx,rsync"}),
    ],
)
def test_words(words: str, expected: dict[str, Any]) -> None:
    found = parse(words.split())._asdict()
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    "word", ["noatime", "relatime", "strictatime", "rnoatime", "rrelatime", "rstrictatime"]
)
def test_a_change_of_atime_clears_the_whole_field(word: str) -> None:
    """mount_setattr(2) refuses to set one of the three kinds without clearing them all."""
    found = parse([word])
    assert (found.clear | found.clear_all) & m.MOUNT_ATTR__ATIME == m.MOUNT_ATTR__ATIME


ATTRIBUTES = {
    "ro": "ro", "nosuid": "nosuid", "nodev": "nodev", "noexec": "noexec", "noatime": "noatime",
    "nodiratime": "nodiratime", "nosymfollow": "nosymfollow",
}  # fmt: skip


@pytest.mark.parametrize(("word", "shown"), ATTRIBUTES.items())
@pytest.mark.parametrize("recursive", [False, True])
def test_the_kernel_sets_and_clears_what_a_word_says(
    tmp_path: Path, isolated: Any, mount_at: Any, word: str, shown: str, recursive: bool
) -> None:
    if recursive:
        word = "r" + word

    def body() -> None:
        m.mount("tmpfs", str(tmp_path), "tmpfs")
        fd = os.open(tmp_path, os.O_PATH)
        wanted = parse([word])
        change = (wanted.set_all, wanted.clear_all) if recursive else (wanted.set, wanted.clear)
        m.mount_setattr(fd, *change, recursive=recursive)
        os.close(fd)
        assert shown in mount_at(tmp_path)["options"].split(",")

    isolated(body)


@pytest.mark.parametrize("word", sorted(mount_options.FLAGS.keys() - {"bind", "rbind", "remount"}))
def test_the_kernel_takes_every_flag_with_a_tmpfs(tmp_path: Path, isolated: Any, word: str) -> None:
    wanted = parse([word])

    def body() -> None:
        m.mount("tmpfs", str(tmp_path), "tmpfs", wanted.flags)

    isolated(body)
