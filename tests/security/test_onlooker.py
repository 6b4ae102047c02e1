"""`exec` into a container that may look at every process in it: CAP_SYS_PTRACE.

What it finds of the newcomer, before that has become the command, is the container's and nothing
else: no environment of the caller, no file of the host, no capability beyond the container's.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program, skip, wait_until
from security.conftest import NAME

SECRET = {"AWS_SECRET": "swordfish", "GITHUB_TOKEN": "swordfish"}
Look = Callable[..., Path]


@pytest.fixture
def look(minirun: Program, tmp_path: Path) -> Look:
    """Start a container that looks; return the file of what it finds."""
    if not shutil.which("cc"):
        skip("no C compiler")
    (tmp_path / "out").mkdir()
    source = Path(__file__).parent / "onlooker.c"
    argv = ["cc", "-static", "-O1", "-o", str(tmp_path / "out/onlooker"), str(source)]
    subprocess.run(argv, check=True)

    def start(*flags: str) -> Path:
        words = ("-d", "--name", NAME, "-v", f"{tmp_path}/out:/out", *flags, "busybox")
        done = minirun("run", *words, "sh", "-c", "exec /out/onlooker >/out/found 2>&1 & wait")
        assert done.returncode == 0, done.stderr
        found = tmp_path / "out/found"
        wait_until(lambda: found.exists() and "started" in found.read_text())
        return found

    return start


@pytest.mark.parametrize("flags", [(), ("-u", "1000"), ("-t",)], ids=["root", "user", "tty"])
def test_what_the_newcomer_shows(minirun: Program, look: Look, flags: tuple[str, ...]) -> None:
    found = look("--cap-add", "SYS_PTRACE")
    for _ in range(20):
        done = minirun("exec", *flags, "-e", "OWN=word", NAME, "sh", "-c", "exit 4", env=SECRET)
        assert (done.returncode, done.stderr) == (4, "")
    lines = set(found.read_text().splitlines())
    assert "seen " in lines, "it saw nobody: the test shows nothing"
    assert lines <= {"started ", "seen "}
