"""The launcher's file of code: what comes out of it, and when the source counts instead."""

import marshal
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minirun import fast
from minirun.fast import launcher

FILES = {
    "lib/__init__.py": "",
    "lib/low.py": "value = 'low'\n",
    "lib/high.py": "from lib import low, pack\nvalue = [low.value, pack.value, pack.own.value]\n",
    "lib/pack/__init__.py": "half = 1\nfrom lib.pack import own\nvalue = own.value + 1\n",
    "lib/pack/own.py": "from lib import pack\nvalue = pack.half\n",
}
"""A package that imports its own module before it is complete, as ctypes does."""
USE = """
import sys
sys.path[:0] = sys.argv[2:]
try:
    from minirun.fast import CodeFile
    sys.meta_path.insert(0, CodeFile(sys.argv[1]))
except Exception as error:
    print(type(error).__name__)
try:
    import lib.high
    print(lib.high.value)
except ZeroDivisionError as error:
    print(error)
for name in ("lib", "lib.low", "lib.pack", "lib.pack.own", "lib.high"):
    if module := sys.modules.get(name):
        print(name, type(module.__spec__.loader).__name__, module.__package__)
"""
ALL = [
    "lib CodeFile lib", "lib.low CodeFile lib", "lib.pack CodeFile lib.pack",
    "lib.pack.own CodeFile lib.pack", "lib.high CodeFile lib",
]  # fmt: skip


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A package, and the file made of it."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    make(tmp_path)
    return tmp_path


def make(library: Path) -> None:
    (library / "code").write_bytes(launcher.compile_all([library / "lib"]))


def use(library: Path) -> list[str]:
    """Import lib.high; return what was printed."""
    own = str(Path(fast.__file__).parents[2])
    argv = [sys.executable, "-IS", "-c", USE, str(library / "code"), str(library), own]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_all_comes_out_of_the_file(library: Path) -> None:
    assert use(library) == ["['low', 2, 1]", *ALL]


def test_a_changed_source_counts(library: Path) -> None:
    (library / "lib/low.py").write_text("value = 'new'\n")
    os.utime(library / "lib/low.py", ns=(1, 1))
    printed = use(library)
    assert printed[0] == "['new', 2, 1]"
    assert printed[2] == "lib.low SourceFileLoader lib"
    assert printed[3] == ALL[2], "the others still come out of the file"


def test_a_module_that_fails_is_not_imported(library: Path) -> None:
    (library / "lib/low.py").write_text("1 / 0\n")
    make(library)
    assert use(library) == ["division by zero", ALL[0]]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def of_another_version(path: Path) -> None:
    data = path.read_bytes()
    size = int(data[: fast.DIGITS])
    _, index = marshal.loads(data[fast.DIGITS :])
    head = marshal.dumps(("3.9.0", index))
    body = data[fast.DIGITS + size :]
    path.write_bytes(b"%0*d" % (fast.DIGITS, len(head)) + head + body)


@pytest.mark.parametrize(
    ("damage", "error"),
    [(Path.unlink, "FileNotFoundError"), (cut, "EOFError"), (of_another_version, "ValueError")],
)
def test_without_the_file_all_is_imported_as_usual(
    library: Path, damage: object, error: str
) -> None:
    damage(library / "code")
    printed = use(library)
    assert printed[:2] == [error, "['low', 2, 1]"]
    assert all("SourceFileLoader" in line for line in printed[2:])


def test_a_run_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "minirun"
    launcher.install(str(path))
    (tmp_path / f"minirun{launcher.SUFFIX}").unlink()
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout[:15]) == (0, "", "minirun version")


def test_a_run_takes_all_of_minirun_out_of_the_file(command: str) -> None:
    argv = ["strace", "-f", "-e", "trace=openat", command, "ps"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    source = str(Path(fast.__file__).parents[1])
    opened = [line for line in done.stderr.splitlines() if source in line and ".pyc" in line]
    assert f"minirun{launcher.SUFFIX}" in done.stderr
    assert {line.split('"')[1].split("/")[-3] for line in opened} <= {"minirun", "fast"}, opened


def test_no_code_of_the_callers_directory_is_run(tmp_path: Path) -> None:
    """make names the launcher from its own directory; a clone of a stranger's has such a file."""
    library = tmp_path / "theirs/minirun"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("print('theirs')\n")
    (tmp_path / "own/bin").mkdir(parents=True)
    (tmp_path / "theirs/bin").mkdir()
    own = str(Path(fast.__file__).parents[2])
    program = f"import sys; sys.path[:0] = [{own!r}]; from minirun.fast import launcher;"
    argv = [sys.executable, "-Ic", f"{program} launcher.main('bin/minirun')"]
    subprocess.run(argv, cwd=tmp_path / "own", check=True)
    code = tmp_path / f"theirs/bin/minirun{launcher.SUFFIX}"
    code.write_bytes(launcher.compile_all([library]))
    argv = ["strace", "-e", "trace=openat", tmp_path / "own/bin/minirun", "--version"]
    done = subprocess.run(argv, cwd=code.parents[1], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("minirun version"), done.stdout
    assert f'"{tmp_path}/own/bin/minirun{launcher.SUFFIX}"' in done.stderr


def test_a_folder_that_cannot_be_written_is_one_line(copied: Path, tmp_path: Path) -> None:
    """`make demo` by a user in root's clone."""
    user = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
    program = f"import sys; sys.path[:0] = [{str(copied)!r}]; from minirun.fast import launcher;"
    argv = [*user, sys.executable, "-ISc", f"{program} launcher.main('/usr/bin/minirun-probe')"]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == (
        "minirun: /usr/bin/minirun-probe cannot be written: Permission denied "
        "(make setup is for the owner of this folder)\n"
    )
