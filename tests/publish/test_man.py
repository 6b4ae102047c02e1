"""The man pages: roff that groff and man take without a warning, with each flag in it."""

import re
import subprocess
from pathlib import Path

import pytest

from minirun import cli
from minirun.cli import help
from required import installed
from tutorials.publish import man


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("man") / "man1"
    man.main(made)
    return made


def test_there_is_one_for_each_command(folder: Path) -> None:
    names = {f"minirun-{name}.1" for name in help.COMMANDS}
    assert {path.name for path in folder.iterdir()} == {"minirun.1", *names}


def test_groff_has_no_warning(folder: Path) -> None:
    groff = installed("groff")
    for path in folder.iterdir():
        argv = [groff, "-man", "-ww", "-z", "-Tutf8", str(path)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert done.stderr == "", path.name


@pytest.mark.parametrize("name", ["", "run", "create", "network", "gpu", "nvidia-ctk", "history"])
def test_man_shows_each_flag(folder: Path, name: str) -> None:
    path = folder / (f"minirun-{name}.1" if name else "minirun.1")
    argv = [installed("man"), "--warnings", "-l", str(path)]
    env = {"MANPAGER": "cat", "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    shown = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)
    found = man.flags_of([name]) if name else (cli.GlobalFlags, "")
    assert found
    for one in found[0].known().values():
        for flag in one.names:
            assert re.search(rf"(^|[ ,]){flag}([ ,=\[]|$)", shown, re.MULTILINE), flag
