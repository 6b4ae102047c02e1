"""The launcher's file of code: what comes in one piece, what is stale, what fails."""

import marshal
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minirun import launcher

ROOT = str(Path(launcher.__file__).parents[1])
FILES = {
    "lib/__init__.py": "",
    "lib/low.py": "value = 'low'\n",
    "lib/high.py": "from lib import low, pack\nvalue = [low.value, pack.value, pack.own.value]\n",
    "lib/pack/__init__.py": "half = 1\nfrom lib.pack import own\nvalue = own.value + 1\n",
    "lib/pack/own.py": "from lib import pack\nvalue = pack.half\n",
}
"""A package that imports its own module while it is half done, as ctypes does."""
USE = """
import marshal, posix, sys
sys.path[:0] = sys.argv[2:]
fd = posix.open(sys.argv[1], posix.O_RDONLY)
size = int(posix.read(fd, {digits}))
hot = marshal.loads(posix.read(fd, size))
finder = {{"__name__": "minirun.hot"}}
exec(marshal.loads(posix.read(fd, hot["minirun.hot"][3])), finder)
sys.meta_path.insert(0, finder["Hot"](hot, fd, {digits} + size))
try:
    import lib.high
    print(lib.high.value)
except ValueError as error:
    print(error)
for name in ("lib", "lib.low", "lib.pack", "lib.pack.own", "lib.high"):
    module = sys.modules.get(name)
    print(name, module and type(module.__spec__.loader).__name__, module and module.__package__)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package, and the file made of it."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(launcher, "GROUPS", {"lib.high": ((), ())})
    monkeypatch.setattr(launcher, "SINGLE", ("minirun.hot",))
    (tmp_path / "hot").write_bytes(launcher.collect(sys.executable, str(tmp_path), ROOT))
    return tmp_path


def use(library: Path) -> list[str]:
    """Import lib.high from the file; return what it printed."""
    argv = [sys.executable, "-IS", "-c", USE.format(digits=launcher.DIGITS)]
    argv += [str(library / "hot"), str(library), ROOT]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def index(path: Path) -> dict[str, tuple[str, bool, object, int, int, tuple[str, ...]]]:
    """Return the index of such a file."""
    data = path.read_bytes()
    size = int(data[: launcher.DIGITS])
    found: dict[str, tuple[str, bool, object, int, int, tuple[str, ...]]]
    found = marshal.loads(data[launcher.DIGITS : launcher.DIGITS + size])
    return found


def test_what_always_comes_together(library: Path) -> None:
    assert index(library / "hot")["lib.high"][5] == ("lib", "lib.low", "lib.pack")
    assert use(library) == [
        "['low', 2, 1]", "lib Hot lib", "lib.low Hot lib", "lib.pack Hot lib.pack",
        "lib.pack.own Hot lib.pack", "lib.high Hot lib",
    ]  # fmt: skip


def test_a_package_that_is_not_there_yet(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one brings along is found out in a program that has imported more than another has."""
    (library / "lib/pack/far.py").write_text("value = 2\n")
    (library / "lib/high.py").write_text(
        "from lib import low\nfrom lib.pack import far\nvalue = [low.value, far.value]\n"
    )
    monkeypatch.setattr(launcher, "GROUPS", {"lib.high": (("lib.pack",), ())})
    (library / "hot").write_bytes(launcher.collect(sys.executable, str(tmp_path), ROOT))
    assert index(library / "hot")["lib.high"][5] == ("lib.low", "lib.pack.far")
    assert use(library)[0] == "['low', 2]"


def test_of_a_changed_source_nothing_old_is_used(library: Path) -> None:
    (library / "lib/low.py").write_text("value = 'new'\n")
    os.utime(library / "lib/low.py", ns=(1, 1))
    printed = use(library)
    assert printed[0] == "['new', 2, 1]"
    assert printed[2] == "lib.low SourceFileLoader lib"
    assert printed[3] == "lib.pack Hot lib.pack", "the others are still the file's"


def test_what_fails_is_not_imported(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = library / "lib/low.py"
    low.write_text("import os\nif os.environ.get('FAIL'):\n    raise ValueError('no')\nvalue = 1\n")
    (library / "hot").write_bytes(launcher.collect(sys.executable, str(tmp_path), ROOT))
    monkeypatch.setenv("FAIL", "1")
    assert use(library) == [
        "no", "lib Hot lib", "lib.low None None", "lib.pack None None",
        "lib.pack.own None None", "lib.high None None",
    ]  # fmt: skip


def test_a_run_comes_in_few_pieces(command: str) -> None:
    along = index(Path(command + launcher.SUFFIX))["minirun.cli.run"][5]
    assert {"minirun.core.lifecycle", "minirun.core.reserve", "minirun.core.rootfs.build"} <= {
        *along
    }
    assert len(along) > 40
