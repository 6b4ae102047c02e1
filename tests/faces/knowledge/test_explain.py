"""`minirun explain`: whatever the log or an error says can be asked for."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import minirun as package
from conftest import Program
from minirun.faces import knowledge


def names(minirun: Program, *words: str) -> list[str]:
    done = minirun("explain", "--json", *words)
    assert done.returncode == 0, done.stderr
    return [row["name"] for row in json.loads(done.stdout)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ENOENT"], ["ENOENT"]),
        (["enoent"], ["ENOENT"]),
        (["28"], ["ENOSPC"]),
        (["5"], ["stage 5", "EIO"]),
        (["s5"], ["stage 5"]),
        (["stage", "5"], ["stage 5"]),
        (["stage 5"], ["stage 5"]),
        (["s5_inject"], ["stage 5"]),
        (["inject"], ["stage 5"]),
        (["put the GPUs in"], ["stage 5"]),
        (["init"], ["stage 2", "stage 7"]),
        (["hook"], ["stage 4"]),
        (["HOOKS_DONE"], ["HOOKS_DONE"]),
        (["hooks_done"], ["HOOKS_DONE"]),
        (["ldconfig ended"], ["ldconfig ended"]),
        (["prctl PR_SET_PDEATHSIG"], ["prctl PR_SET_PDEATHSIG"]),
        (["prctl", "pr_set_pdeathsig"], ["prctl PR_SET_PDEATHSIG"]),
        (["mount", "EPERM"], ["mount EPERM"]),
        (["EPERM", "mount"], ["mount EPERM"]),
        (["mount", "1"], ["mount EPERM"]),
        (["mknod"], ["mknodat", "mknodat /dev/nvidia"]),
        (["3:begin"], ["gate", "gate syscall"]),
    ],
)
def test_words(minirun: Program, words: list[str], expected: list[str]) -> None:
    assert names(minirun, *words) == expected


def test_a_call_comes_with_its_kinds(minirun: Program) -> None:
    found = names(minirun, "mount")
    assert found[0] == "mount"
    assert {"mount overlay", "mount proc"} <= set(found)
    assert "mount_setattr" not in found


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("enoentt", "did you mean ENOENT"),
        ("pivotroot", "did you mean pivot_root"),
        ("s9", "minirun explain lists all"),
        ("qqqq", "minirun explain lists all"),
    ],
)
def test_an_unknown_word(minirun: Program, words: str, hint: str) -> None:
    done = minirun("explain", words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"minirun: nothing is known of '{words}' ({hint}")
    assert done.stderr.count("\n") == 1


def test_all(minirun: Program) -> None:
    lines = minirun("explain", env={"COLUMNS": "80"}).stdout.splitlines()
    listed = {line[2:].split("  ")[0].split(" (")[0] for line in lines if line.startswith("  ")}
    assert {one.name for one in knowledge.topics()} <= listed
    assert max(map(len, lines)) <= 80
    assert f"{len(knowledge.hints())} hints" in lines[-1]


@pytest.mark.parametrize("words", ["stage 5", "mount", "ENOENT", "run as root", "bpf EPERM"])
def test_80_columns(minirun: Program, words: str) -> None:
    done = minirun("explain", words, env={"COLUMNS": "80", "LC_ALL": "C.UTF-8"})
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_page_says_all_that_is_known(minirun: Program) -> None:
    done = minirun("explain", "mount overlay", env={"COLUMNS": "80"})
    topic = knowledge.event("mount overlay")
    assert topic
    text = " ".join(done.stdout.split())
    for part in (topic.title, topic.here, topic.advice, topic.man, topic.spec, topic.real):
        assert part in text


def test_hints(minirun: Program) -> None:
    done = minirun("explain", "--hints", env={"LC_ALL": "C.UTF-8", "COLUMNS": "200"})
    lines = done.stdout.splitlines()
    for hint in knowledge.hints():
        assert hint.text.replace("{…}", "…").split("\n")[0][:60] in done.stdout
    assert len([line for line in lines if line.startswith("  Printed by ")]) == len(
        knowledge.hints()
    )
    assert "{…}" not in done.stdout
    some = minirun("explain", "--hints", "tar archive").stdout
    assert some.startswith("is this a tar archive?\n  Printed by ImageError: ")


@pytest.mark.parametrize(
    "args",
    [
        ("run", "--memory", "x", "busybox"),
        ("run", "--gpus", "count=x", "--gpu-driver", "simulated", "busybox", "true"),
        ("state", "nosuch"),
        ("run", "nosuchimage"),
        ("run", "--gpus", "9", "--gpu-driver", "simulated", "busybox", "true"),
        ("kill",),
        ("run", "-v", "x", "busybox", "true"),
        ("exec", "nosuch"),
    ],
)
def test_the_hint_of_a_real_error_is_explained(minirun: Program, args: tuple[str, ...]) -> None:
    """What stands in parentheses at the end of an error's line can be asked for."""
    said = minirun(*args).stderr.strip().splitlines()[-1]
    hint = re.search(r"\(([^()]+)\)$", said)
    assert hint, said
    text = hint[1]
    known = [one.text for one in knowledge.hints()]
    fits = [one for one in known if _pattern(one).fullmatch(text)]
    assert fits, text
    shown = fits[0].replace("{…}", "…")
    assert shown in names(minirun, "--hints", "--", shown)


def _pattern(hint: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, hint.split("{…}"))))


def test_it_needs_no_root() -> None:
    """As an unprivileged user, in a bare interpreter, without a state root.

    The package alone, in a copy: the clone may lie below a folder that is root's, as /root is.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(Path(package.__file__).parent, f"{folder}/minirun")
        program = (
            f"import os, sys; os.setresuid(65534, 65534, 65534); sys.path.insert(0, {folder!r});"
            "from minirun.cli import main; sys.exit(main(['explain', 'pivot_root']))"
        )
        done = subprocess.run(
            ["/usr/bin/env", "-i", os.path.realpath(sys.executable), "-IS", "-c", program],
            cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pivot_root: make the prepared tree the root")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Failed to initialize NVML: Unknown Error", "NVML: Unknown Error"),
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            "NVML: version mismatch",
        ),
        (
            "nvidia-container-cli: mount error: file creation failed: /x/libnvidia-ml.so.1: "
            "file exists: unknown",
            "libnvidia-ml.so.1: file exists",
        ),
        ("ldcache error: process /sbin/ldconfig failed with error code: 1", "ldconfig failed"),
        ("initialization error: nvml error: driver not loaded", "driver not loaded"),
        ("driver not loaded", "driver not loaded"),
        ("driver/library version mismatch", "NVML: version mismatch"),
        ("nvml error: insufficient permissions", "NVML: insufficient permissions"),
        ("torch: CUDA unknown error - this may be due to", "CUDA_ERROR_UNKNOWN"),
        ("failed to inject CDI devices: unresolvable CDI devices a/b=c", "unresolvable CDI"),
        (
            'could not select device driver "" with capabilities: [[gpu]]',
            "could not select device driver",
        ),
    ],
)
def test_what_people_report_of_gpus(minirun: Program, text: str, name: str) -> None:
    """A whole line, as a program printed it, finds its topic; and the way out comes with it."""
    done = minirun("explain", text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(name)
    assert "  cause " in done.stdout and "  try " in done.stdout


def test_ascii_terminals(minirun: Program) -> None:
    done = minirun("explain", "--hints", env={"LC_ALL": "C"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
