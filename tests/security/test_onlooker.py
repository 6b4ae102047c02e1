"""`exec` into a container that may look at every process in it: CAP_SYS_PTRACE.

What it finds of the newcomer, before that has become the command, is the container's and nothing
else: no environment of the caller, no file of the host, no capability beyond the container's.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program, skip, wait_until
from security.conftest import NAME, Evil

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

    def start(*flags: str, only: str = "") -> Path:
        words = ("-d", "--name", NAME, "-v", f"{tmp_path}/out:/out", *flags, "busybox")
        script = f"exec /out/onlooker {only} >/out/found 2>&1 & wait"
        done = minirun("run", *words, "sh", "-c", script)
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
    assert "seen " in lines, "it saw no process: the test shows nothing"
    assert lines <= {"started ", "seen "}


def test_what_init_shows_in_a_pid_namespace_of_others(
    minirun: Program, look: Look, evil: Evil
) -> None:
    """`podman run --pid container:X`: of the runtime's caller there is nothing in it either."""
    found = look("--cap-add", "SYS_PTRACE", only="looks")
    pid = json.loads(minirun("state", NAME).stdout)["pid"]
    rows = evil.config["linux"]["namespaces"]
    for row in rows:
        if row["type"] == "pid":
            row["path"] = f"/proc/{pid}/ns/pid"
    evil.config["process"]["args"] = ["sh", "-c", "exit 4"]
    for _ in range(5):
        done = minirun("run", "--bundle", str(evil.save()), f"{NAME}-joined", env=SECRET)
        assert (done.returncode, done.stderr) == (4, "")
    lines = found.read_text().splitlines()
    assert "seen " in lines, "it saw no process: the test shows nothing"
    assert not [line for line in lines if line.startswith("environ")]
