"""`level start N --from FILE`: a learner's own program goes on, level by level, in any language."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from faces.teach.levels.checked import LEVELS, PUBLISHED, check, finding
from minirun.faces.teach.levels import programs
from required import installed

BUILD = {".c": ["gcc", "-Wall", "-Werror", "-D_GNU_SOURCE", "-o"], ".go": ["go", "build", "-o"]}
RUN = {
    ".c": [
        ("#include <unistd.h>\n", "#include <sys/wait.h>\n#include <unistd.h>\n"),
        ('    fail(1, "level 0: run is not written yet");\n    return 1;\n',
         "    int status;\n    pid_t pid = fork();\n"
         "    if (!pid) {\n        execvp(*words, words);\n"
         "        perror(*words);\n        _exit(errno == ENOENT ? 127 : 126);\n    }\n"
         "    waitpid(pid, &status, 0);\n"
         "    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);\n"),
    ],
    ".go": [
        ('\t"strings"\n', '\t"os/exec"\n\t"errors"\n\t"syscall"\n\t"strings"\n'),
        ('\tpanic("level 0: run is not written yet")\n',
         "\tchild := exec.Command(command[0], command[1:]...)\n"
         "\tchild.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr\n"
         "\terr := child.Run()\n\tif child.ProcessState == nil {\n"
         "\t\tfmt.Fprintln(os.Stderr, err)\n"
         "\t\tif errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {\n"
         "\t\t\treturn 127\n\t\t}\n\t\treturn 126\n\t}\n"
         "\tended := child.ProcessState.Sys().(syscall.WaitStatus)\n\tif ended.Signaled() {\n"
         "\t\treturn 128 + int(ended.Signal())\n\t}\n\treturn ended.ExitStatus()\n"),
    ],
}  # fmt: skip
"""What a learner writes in place of level 0's `run`."""
SPELLINGS = {
    "go": ["func mountRoot(a string) error {", "func (c *Channel) Say(line string) error {",
           "func runHooks() {"],
    "c": ["static int mount_root(const char *at)", "void say(int fd, const char *line)",
          "int runHooks(void) {"],
    "rs": ["fn mount_root() -> Result<()> {", "    pub fn say(&self) {", "fn run_hooks() {"],
    "py": ["def mount_root(at):", "    def say(self, line):", "def run_hooks():"],
    "sh": ["mount_root() {", "function say () {", "run_hooks() {"],
}  # fmt: skip
"""Language → how functions begin there; the gaps of levels 3 and 4 have these names."""


def has(suffix: str) -> None:
    """Skip where there is no compiler; Go's is installed by `make mutants` alone."""
    if suffix == ".c":
        installed("gcc")
    elif not shutil.which("go"):
        pytest.skip("go is not installed: `make mutants` does it")


def build(source: Path) -> Path:
    """Compile a program; return its path."""
    target = source.with_suffix("")
    env = os.environ | {"GOCACHE": str(source.parent / "cache"), "GOFLAGS": "-p=1"}
    words = [*BUILD[source.suffix], str(target), str(source)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.parametrize("suffix", BUILD)
def test_a_beginning_in_another_language(minirun: Program, tmp_path: Path, suffix: str) -> None:
    """It can be built, says what is not written, and holds level 0 once that is written."""
    has(suffix)
    done = minirun("level", "start", "0", "--in", suffix[1:], str(tmp_path))
    assert done.returncode == 0, done.stderr
    path = tmp_path / f"00_process{suffix}"
    assert finding(check(minirun, LEVELS[0], "--", str(build(path)))) == "not-written"
    text = path.read_text()
    for old, new in RUN[suffix]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text)
    done = check(minirun, LEVELS[0], "--", str(build(path)), status=0)
    assert done.stdout.count("✓") == 7


@pytest.mark.parametrize("suffix", BUILD)
def test_it_goes_on_from_level_to_level(minirun: Program, tmp_path: Path, suffix: str) -> None:
    """Each level's sentences are in the next program, which can still be built."""
    has(suffix)
    minirun("level", "start", "0", "--in", suffix[1:], str(tmp_path))
    path = tmp_path / f"00_process{suffix}"
    for level in LEVELS[1:]:
        done = minirun("level", "start", level.name, "--from", str(path), str(tmp_path))
        assert done.returncode == 0, done.stderr
        path = tmp_path / f"{level.name}{suffix}"
        notes = sum(line.startswith(f"// Level {level.number}: ") for line in
                    path.read_text().splitlines())  # fmt: skip
        assert notes == len(level.gaps)
    build(path)


def test_pythons_own_programs_go_on(minirun: Program, tmp_path: Path) -> None:
    for below, level in itertools.pairwise([*PUBLISHED, LEVELS[10]]):
        own = tmp_path / below.file
        done = minirun(
            "level", "start", str(level.number), "--from", str(below.path), str(tmp_path)
        )
        assert done.returncode == 0 and f"check {level.number} " in done.stdout
        text = (tmp_path / level.file).read_text()
        compile(text, str(own), "exec")
        assert text.count(f"# Level {level.number}: ") == len(level.gaps)


@pytest.mark.parametrize("suffix", SPELLINGS)
def test_a_sentence_stands_before_the_function_of_its_name(suffix: str) -> None:
    language = programs.LANGUAGES[f".{suffix}"]
    first, say, hooks = SPELLINGS[suffix]
    text = programs.grown(LEVELS[4], f"{first}\n{hooks}\n", language)
    lines = text.splitlines()
    for line, sentence in ((first, "With layers:"), (hooks, "Each hook of this kind")):
        assert f"Level 4: {sentence}" in "\n".join(
            lines[max(0, lines.index(line) - 5) : lines.index(line)]
        )
    lines = programs.grown(LEVELS[3], f"{say}\n", language).splitlines()
    assert "Level 3: The line, with its line feed" in "\n".join(lines[: lines.index(say)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1", "--in", "go"), "--in is for level 0 (go on from there with --from FILE)"),
        (("0", "--in", "ml"), "invalid --in 'ml' (c or go)"),
        (("1", "--from", "nosuch.go"), "nosuch.go: no such file (your program of the level below)"),
        (("1", "--from", "/"), "/: no such file"),
        (("1", "--from", "built.c"), "built.c: not a text file"),
        (("1", "--from", "/etc/passwd"), "/etc/passwd: what language is this?"),
        (("0", "--in", "c"), "00_process.c is there already"),
    ],
)
def test_bad_words(minirun: Program, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "00_process.c").write_text("mine\n")
    (tmp_path / "built.c").write_bytes(b"\x7fELF\xff")
    done = minirun("level", "start", *words, cwd=tmp_path)
    assert done.returncode in (1, 125) and said in done.stderr and done.stderr.count("\n") == 1
    assert {each.name for each in tmp_path.iterdir()} == {"00_process.c", "built.c"}
    assert (tmp_path / "00_process.c").read_text() == "mine\n"


def test_the_list_has_what_of_it_held(minirun: Program, tmp_path: Path) -> None:
    """The last check of each level counts, of whatever program; others stand there with a dash."""

    def listed() -> dict[str, str]:
        rows = minirun("level", "list").stdout.splitlines()[1:]
        return {row[0]: re.split(r"\s{2,}", row)[3] for row in rows}

    assert set(listed().values()) == {"-"}
    wrong = tmp_path / "wrong.py"
    wrong.write_text(LEVELS[0].path.read_text().replace("128 - code", "code"))
    check(minirun, LEVELS[0], str(wrong))
    assert listed() == {**dict.fromkeys("123456789", "-"), "0": "6 of 7"}
    check(minirun, LEVELS[0], str(LEVELS[0].path), status=0)
    assert listed()["0"] == "7 of 7"
    (minirun.root / ".levels").write_text('{"00_process": {"nosuch": 1}, "01_namespaces": 5}')
    assert set(listed().values()) == {"-"}
