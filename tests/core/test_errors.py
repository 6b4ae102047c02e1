"""The tree of errors, the one line each prints, and the table of hints."""

import errno
import os
import re
from pathlib import Path

import pytest

from conftest import Program
from minirun.core import errors
from minirun.core.errors import MinirunError
from minirun.core.kernel import mounts, process

TREE = {
    "UsageError": 125, "ConfigError": 125, "ImageError": 125, "StateError": 1, "HookError": 125,
    "GPUError": 125, "CommandError": 127,
}  # fmt: skip


def _hint(call: str, number: int) -> str:
    error = OSError(number, "")
    setattr(error, "call", call)  # noqa: B010
    return errors.from_os(error).hint


@pytest.mark.parametrize(("name", "status"), TREE.items())
def test_each_kind_has_the_status_that_docker_or_runc_gives(name: str, status: int) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, MinirunError)
    assert kind("text").status == status
    assert kind("text", status=3).status == 3
    assert kind.status == status


def test_the_whole_tree_is_listed_here() -> None:
    found = {
        name for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, MinirunError)
    }  # fmt: skip
    assert found - {"MinirunError"} == set(TREE)


def test_the_line_names_what_and_what_to_do() -> None:
    assert MinirunError("it broke", "mend it").line() == "it broke (mend it)"
    assert MinirunError("it broke").line() == "it broke"
    assert MinirunError("two\nlines", "try").line() == "two lines (try)"


def test_a_line_has_an_end() -> None:
    """It quotes what is wrong, which may be as long as an image makes it."""
    line = MinirunError("x" * 100_000 + ": no such file").line()
    assert len(line) < 600
    assert line.startswith("xxx") and line.endswith(": no such file")
    line = MinirunError("no such image", f"there are {'x' * 100_000}\nlast").line()
    assert len(line) < 600 and line.endswith("x last)")


def test_an_oserror_of_the_kernel_room_becomes_one_line_with_a_hint() -> None:
    with pytest.raises(OSError) as caught:
        mounts.mount("none", "/nosuch", "tmpfs")
    error = errors.from_os(caught.value, "stage 1")
    assert error.line() == (
        "stage 1: mount: /nosuch: No such file or directory"
        " (the source or the mount point does not exist)"
    )


def test_a_hint_is_of_the_call_and_the_errno() -> None:
    with pytest.raises(OSError) as caught:
        process.sethostname("x" * 65)
    assert errors.from_os(caught.value).hint == "a host name has at most 64 bytes"
    with pytest.raises(OSError) as caught:
        mounts.mount("none", "/", "nosuchfs")
    assert "minirun doctor" in errors.from_os(caught.value).hint


def test_an_oserror_of_python_keeps_its_file() -> None:
    with pytest.raises(OSError) as caught:
        open("/nosuch/file")
    assert errors.from_os(caught.value).line() == "/nosuch/file: No such file or directory"


def test_general_hints_stand_in_where_a_call_has_none() -> None:
    assert _hint("anything", errno.ENOSPC) == _hint("write", errno.ENOSPC)
    assert "ulimit -n" in _hint("open", errno.EMFILE)
    assert _hint("anything", errno.EXDEV) == ""
    assert _hint("openat2", errno.EXDEV) != ""


def test_errno_names() -> None:
    assert errors.errno_name(errno.ENOENT) == "ENOENT"
    assert errors.errno_name(99999) == "99999"


@pytest.mark.parametrize(("call", "name"), errors.HINTS)
def test_every_hint_is_for_a_real_errno_and_reads_well(call: str, name: str) -> None:
    assert name in errno.errorcode.values()
    text = errors.HINTS[(call, name)]
    assert re.fullmatch(r"[^\n]{10,}[^.\n]", text)
    is_said = os.geteuid() or not text.startswith("run as root")
    said = text if is_said else "root is refused too: the file is immutable (lsattr)"
    assert _hint(call, getattr(errno, name)).startswith(said)


def test_a_mount_of_another_kind_has_its_hint(minirun: Program, tmp_path: Path) -> None:
    """A file on a directory is EINVAL for move_mount(2); it is told as mount(2) does, ENOTDIR."""
    file = tmp_path / "file"
    file.touch()
    done = minirun("run", "--rm", "-v", f"{file}:/etc", "busybox", "true")
    assert done.returncode != 0
    assert "a directory can only be mounted on a directory, a file on a file" in done.stderr


def test_an_error_of_the_kernel_says_the_kernels_words() -> None:
    assert errors.reason(errors.os_error(errno.EACCES, "/x")) == "permission denied"
    assert errors.reason(ValueError("not a Number")) == "not a Number"
