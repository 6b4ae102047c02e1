"""`minirun completion`: bash itself completes, with the script that the tables have become."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from minirun.cli import COMMANDS
from minirun.cli.completion import SHELLS
from required import installed

ASK = """
set -e
source <(minirun $FLAGS completion bash)
eval "COMP_WORDS=($LINE)"
COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
set +e
_minirun minirun "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f
zpty -w shell 'fpath=($SCRIPTS $fpath); autoload -U compinit; compinit -u -D; echo is rea""dy'
zpty -r shell seen '*is ready*'
zpty -w -n shell $'minirun histo\t'
zpty -r shell seen '*history*'
print ${seen##*ready}
"""
"""A terminal in which a person presses Tab for the first time."""


def completed(program: Program, line: str) -> set[str]:
    """What bash offers for the last word of a line; '' is a word that is about to begin."""
    flags = " ".join(program.argv()[1:])
    path = f"{Path(program.path).parent}:{os.environ['PATH']}"
    env = os.environ | {"FLAGS": flags, "LINE": f"minirun {flags} {line}", "PATH": path}
    done = subprocess.run(["bash", "-c", ASK], env=env, capture_output=True, text=True, check=True)
    assert "syntax error" not in done.stderr, done.stderr
    return set(done.stdout.split())


def test_commands_and_flags(minirun: Program) -> None:
    assert completed(minirun, "''") >= set(COMMANDS)
    assert completed(minirun, "ver") == {"version"}
    assert completed(minirun, "run --cap") == {"--cap-add", "--cap-drop"}
    assert completed(minirun, "logs --un") == {"--until"}
    assert completed(minirun, "network ''") >= {"create", "ls", "rm", "inspect"}
    assert completed(minirun, "network create --sub") == {"--subnet"}
    assert completed(minirun, "container ''") >= {"ls", "prune", "inspect", "logs"}
    assert completed(minirun, "container ls --no") == {"--no-trunc"}
    assert completed(minirun, "image ins") == {"inspect"}
    assert completed(minirun, "completion --h") == {"--help"}
    assert completed(minirun, "--ro") == {"--root", "--rootless"}


def test_names_of_what_there_is(minirun: Program) -> None:
    minirun("run", "--name", "first", "busybox", "true")
    minirun("run", "--name", "second", "busybox", "true")
    for line in (
        "logs ''",
        "rm ''",
        "inspect ''",
        "container stop ''",
        "exec -e A=1 ''",
        "wait ''",
    ):
        assert completed(minirun, line) == {"first", "second"}, line
    assert completed(minirun, "rm fi") == {"first"}
    assert completed(minirun, "rm first ''") == {"first", "second"}
    assert "busybox:latest" in completed(minirun, "run ''")
    assert "busybox:latest" in completed(minirun, "run --rm -e A=1 --name x busy")
    assert completed(minirun, "run --name ''") == set(), "a flag's value is the user's"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_is_one(minirun: Program, shell: str) -> None:
    done = minirun("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f'"{name}"' in done.stdout or f"'{name}'" in done.stdout for name in COMMANDS)
    program = shell if shell == "bash" else installed(shell)
    checked = subprocess.run([program, "-n"], input=done.stdout, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_folder_of_zsh_completes_at_the_first_tab(minirun: Program, tmp_path: Path) -> None:
    (tmp_path / "_minirun").write_text(minirun("completion", "zsh").stdout)
    path = f"{Path(minirun.path).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [installed("zsh"), "-fc", ZSH], env=os.environ | {"SCRIPTS": str(tmp_path), "PATH": path},
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert "minirun history" in done.stdout
