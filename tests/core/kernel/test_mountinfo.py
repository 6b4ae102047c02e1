"""mountinfo: the manual page's example, and mounts at places with awkward names."""

import os
from pathlib import Path

import pytest

from minirun.core.kernel import mountinfo, mounts, namespaces
from minirun.faces.doctor.attempts import in_child

AWKWARD = "a b\tc\nd\\e#f\\040g\rh\x0ci\x85j\udcffk - l"
"""Every character that the kernel escapes, what looks like an escape or a separator and is none,
and a byte that is not UTF-8."""


def test_the_manual_pages_example() -> None:
    text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
    assert mountinfo.parse(text) == [
        mountinfo.Mount(
            mount_id=36, parent=35, device="98:0", root="/mnt1", mount_point="/mnt2",
            options="rw,noatime", propagation=("master:1",), fs_type="ext3", source="/dev/root",
            super_options="rw,errors=continue",
        )
    ]  # fmt: skip


def test_no_and_several_propagation_fields_and_an_empty_source() -> None:
    text = (
        "1 1 0:1 / / rw - tmpfs  rw\n"
        "2 1 0:2 / /a\\134040b rw shared:3 master:1 propagate_from:2 - fuse.x s\\043 rw,p=\\054"
    )
    first, second = mountinfo.parse(text)
    assert (first.propagation, first.source, first.super_options) == ((), "", "rw")
    assert second.propagation == ("shared:3", "master:1", "propagate_from:2")
    assert (second.mount_point, second.source) == ("/a\\040b", "s#")
    assert second.super_options == "rw,p=\\054"
    assert mountinfo.parse(text, "fuse") == [second]


def test_an_awkward_place(tmp_path: Path) -> None:
    place = f"{tmp_path}/{AWKWARD}"
    os.mkdir(place)

    def attempt() -> str:
        namespaces.unshare(namespaces.FLAGS["mount"])
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
        mounts.mount("a #\tsource", place, "tmpfs", mounts.MS_NOSUID)
        mounts.mount(place, place, None, mounts.MS_BIND)
        first, second = [row for row in mountinfo.read() if row.mount_point == place]
        assert (first.fs_type, first.source) == ("tmpfs", "a #\tsource")
        assert "nosuid" in first.options.split(",")
        assert second.parent == first.mount_id
        assert second.device == first.device
        assert place in {m.mount_point for m in mountinfo.read()}
        return "read"

    assert in_child(attempt) == (True, "read")


def test_a_process_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        mountinfo.read(2**22)


def test_a_process_that_has_ended() -> None:
    """Of a zombie the kernel has EINVAL, of one that was waited for ENOENT."""
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError, match=f"/proc/{pid}/mountinfo"):
        mountinfo.read(pid)
    os.waitpid(pid, 0)
    with pytest.raises(FileNotFoundError):
        mountinfo.read(pid)
