"""Every Python of PATH from 3.11 to 3.14 starts minirun, with nothing but its own library."""

import glob
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import STORE, skip
from program import forget_root

SOURCE = str(Path(__file__).parents[1])
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
BEGIN = """
import sys
sys.dont_write_bytecode = True
sys.path[:0] = [sys.argv.pop(1)]
"""
RECORD = """
from minirun.core.keeping.record import Record
class Point(Record):
    x: "int"
    y: "Undefined" = 0
    @property
    def sum(self): return self.x + self.y
class Both(Record):
    "Annotations need no quotes."
    point: Point
    text: str | None = None
class Bare(Record): pass
both = Both(Point(1, y=2))
print(both, both._replace(text="t").text, both.point.sum, Both._fields, Both.__doc__)
print(Point._fields, Bare._fields, Bare(), hasattr(both, "__dict__"))
for wrong in (Point, lambda: Point(1, 2, 3), lambda: Point(1, z=2)):
    try: wrong()
    except TypeError: print("refused")
"""
SHOWN = """\
Both(point=Point(x=1, y=2), text=None) t 3 ('point', 'text') Annotations need no quotes.
('x', 'y') () Bare() False
refused
refused
refused
"""
NAMED = """
from minirun.core.kernel import process
process.become_named("minirun:name")
with open("/proc/self/comm") as file: print(process._prctl, file.read().strip())
"""
START = "from minirun.__main__ import start; start()"


def interpreters(version: str) -> list[str]:
    """The programs named python3.N in PATH that are what they say: pyenv's may be none."""
    folders = os.environ["PATH"].split(":")
    paths = [path for folder in folders for path in glob.glob(f"{folder}/python{version}")]
    major, minor = sys.version_info[:2]
    own = [sys.executable] if version == f"{major}.{minor}" else []
    return own or [path for path in paths if _run(path, "").returncode == 0]


def _run(python: str, program: str, *args: str) -> subprocess.CompletedProcess[str]:
    argv = [python, "-IS", "-c", BEGIN + program, SOURCE, *args]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    found = interpreters(request.param)
    if not found:
        pytest.skip(f"there is no python{request.param} in PATH")
    return found[0]


def test_records(python: str) -> None:
    done = _run(python, RECORD)
    assert (done.stdout, done.stderr) == (SHOWN, "")


def test_its_name_without_python_prctl(python: str) -> None:
    done = _run(python, NAMED)
    assert (done.stdout, done.stderr) == ("None minirun:name\n", "")


def test_a_container(python: str, tmp_path: Path) -> None:
    """With a GPU, and everything that `run` imports."""
    if not Path(STORE, "images").is_dir():
        skip("there is no image")
    root = str(tmp_path / "containers")
    flags = ("--root", root, "--store", STORE, "run", "--rm", "-q")
    gpu = ("--gpus", "0", "--gpu-driver", "simulated")
    done = _run(python, START, *flags, *gpu, "busybox", "ls", "/dev")
    assert done.returncode == 0, done.stderr
    assert {"nvidia0", "nvidiactl"} <= set(done.stdout.split())
    forget_root(root)
