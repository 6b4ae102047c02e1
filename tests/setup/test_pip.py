"""`pip install .` in a virtual environment, of a copy of the clone that is then removed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import STORE
from program import forget_root
from required import skip

TOP = Path(__file__).parents[2]
PACKAGES = {"minirun": "minirun", "rootfs_tools": "rootfs-tools/rootfs_tools"}
LEVELS = "tutorials/levels"
TYPED = """import minirun
container: minirun.Container = minirun.run("busybox", "true", gpus="0,1")
lines: list[str] = container.output.splitlines()
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which minirun is installed; no launcher, nothing of the clone."""
    place = tmp_path_factory.mktemp("pip")
    clone = place / "clone"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES.values(), LEVELS):
        shutil.copytree(TOP / name, clone / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TOP / name, clone)
    python = place / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    argv = [python, "-m", "pip", "install", "--quiet", clone]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    shutil.rmtree(clone)
    if "No matching distribution found for" in done.stderr:
        skip(f"pip reaches no index of packages: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return place / "venv"


def output(venv: Path, program: str, *args: str) -> str:
    """What a program of the environment prints; it is called from /, without our variables."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
    done = subprocess.run(
        [venv / "bin" / program, *args], env=env, cwd="/", capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_version(venv: Path) -> None:
    import minirun

    assert output(venv, "minirun", "--version").startswith(f"minirun version {minirun.__version__}")


def test_it_has_what_an_engine_on_systemd_needs(venv: Path) -> None:
    """Without the tests' packages: each engine calls it with --systemd-cgroup there."""
    found = json.loads(output(venv, "minirun", "features"))["linux"]["cgroup"]
    assert found["systemd"] and found["systemdUser"]


def test_it_runs_an_image(venv: Path, tmp_path: Path) -> None:
    folders = ("--root", str(tmp_path / "root"), "--store", STORE)
    flags = ("run", "--rm", "--gpus", "1", "--gpu-driver=simulated")
    script = "ls /dev/nvidia?; readlink /proc/1/exe"
    found = output(venv, "minirun", *folders, *flags, "busybox", "sh", "-c", script)
    assert found.split()[0] == "/dev/nvidia1"
    assert output(venv, "minirun", *folders, "list", "--quiet") == ""
    forget_root(tmp_path / "root")


def test_every_file_is_in_it(venv: Path) -> None:
    """py.typed is one of them, without which a type checker takes no type from a package."""
    for name, folder in PACKAGES.items():
        (package,) = venv.glob(f"lib/python*/site-packages/{name}")
        assert _files(package) == _files(TOP / folder)
        assert "py.typed" in _files(package)


def test_the_ladder_is_in_it(venv: Path, tmp_path: Path) -> None:
    folders = ("--root", str(tmp_path / "root"), "--store", STORE)
    output(venv, "minirun", *folders, "level", "start", "0", str(tmp_path))
    assert "NotImplementedError" in (tmp_path / "00_process.py").read_text()
    whole = output(venv, "minirun", *folders, "level", "solution", "9")
    assert whole == (TOP / LEVELS / "09_runtime.py").read_text()


def test_it_builds_an_image_by_a_recipe(venv: Path, tmp_path: Path) -> None:
    folders = ("--root", str(tmp_path / "root"), "--store", str(tmp_path / "store"))
    said = output(venv, "minirun", *folders, "images", "build", "static")
    assert said.startswith("static:latest  sha256:")
    assert output(venv, "minirun", *folders, "run", "--rm", "static", "echo", "hello") == "hello\n"


def _files(folder: Path) -> set[str]:
    """All files, also those behind a link: the recipes are in rootfs-tools."""
    found = os.walk(folder, followlinks=True)
    files = [
        os.path.relpath(f"{place}/{name}", folder) for place, _, names in found for name in names
    ]
    return {path for path in files if "__pycache__" not in path}


def test_help_shows_what_a_program_may_call(venv: Path) -> None:
    page = output(venv, "python", "-c", "import minirun; help(minirun)")
    # Python 3.14 breaks the line, 3.11 puts annotations into quotes
    functions = "".join(page.partition("\nFUNCTIONS\n")[2].replace("'", "").split())
    assert "run(image:str,*command:" in functions
    assert "class Timeline" in page


@pytest.mark.parametrize(
    ("change", "error"),
    [(("", ""), ""), (('"busybox"', "1"), "arg-type"), (("run(", "walk("), "attr-defined")],
)
def test_a_type_checker_sees_run(
    venv: Path, tmp_path: Path, change: tuple[str, str], error: str
) -> None:
    (tmp_path / "program.py").write_text(TYPED.replace(*change) if error else TYPED)
    argv = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "program.py"]
    argv += ["--python-executable", str(venv / "bin/python"), "--cache-dir", os.devnull]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, f"[{error}]" in done.stdout) == (bool(error), bool(error)), done.stdout
