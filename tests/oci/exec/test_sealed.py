"""A read-only interpreter: a process that sees it in /proc cannot write to its file.

Nor read the caller's variables, but for those that minirun reads itself.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from apart import apart, mounts
from minirun.oci.exec import sealed

PROGRAM = """
import os, sys
sys.path[:0] = [{source!r}]
from minirun.core.errors import MinirunError
from minirun.oci.exec import sealed
print("read-only" if sealed.is_read_only() else "writable", flush=True)
try:
    if {seal}:
        sealed.ensure(("B",))
except MinirunError as error:
    sys.exit(str(error))
names = [name for name in ("A", "B", "MINIRUN_X", sealed._MARK) if name in os.environ]
print(sys.argv[1:], sys.flags.isolated, *names, flush=True)
fd = os.open("/proc/self/exe", os.O_PATH)
os.set_inheritable(fd, True)
os.execv({python!r}, ["python3", "-IS", "-c", {attacker!r}, str(fd)])
"""
ATTACKER = """
import os, sys
path = f"/proc/self/fd/{sys.argv[1]}"
print(os.readlink(path))
try:
    os.open(path, os.O_WRONLY)
except OSError as error:
    print(os.strerror(error.errno))
else:
    print("open for writing")
"""
"""Holds the interpreter of somebody else and waits until it may be written: CVE-2019-5736."""


def run(tmp_path: Path, seal: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run PROGRAM by a copy of the interpreter, which nobody else runs (ETXTBSY)."""
    python = os.path.realpath(sys.executable)
    copy = shutil.copy2(python, tmp_path / "python")
    program = tmp_path / "program"
    source = str(Path(sealed.__file__).parents[3])
    text = PROGRAM.format(source=source, python=python, attacker=ATTACKER, seal=seal)
    program.write_text(text)
    return subprocess.run(
        [copy, "-IS", str(program), "a b", ""], capture_output=True, text=True, check=False,
        env={"A": "1", "B": "2", "MINIRUN_X": "3", **env}, timeout=30,
    )  # fmt: skip


def test_the_program_starts_again_sealed(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stdout.splitlines() == [
        "writable", "read-only", "['a b', ''] 1 B MINIRUN_X", "/", "Read-only file system",
    ], done.stderr  # fmt: skip


def test_without_the_seal_the_attack_works(tmp_path: Path) -> None:
    done = run(tmp_path, seal=False)
    assert done.stdout.splitlines() == [
        "writable", "['a b', ''] 1 A B MINIRUN_X", f"{tmp_path}/python", "open for writing",
    ], done.stderr  # fmt: skip


def test_it_does_not_try_for_ever(tmp_path: Path) -> None:
    """Where the mark is there and the seal is not, something is wrong; once is enough."""
    done = run(tmp_path, _MINIRUN_SEALED="1")
    assert done.stdout == "writable\n"
    assert done.stderr == "the interpreter could not be made read-only\n"
    assert done.returncode == 1


def test_nothing_of_the_host_is_changed(tmp_path: Path) -> None:
    with apart("mount"):
        before = mounts()
        run(tmp_path)
        assert mounts() == before
