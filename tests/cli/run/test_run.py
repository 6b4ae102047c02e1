"""`minirun run`: exit statuses, output, errors, and that nothing is left behind."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from rootfs_tools.cli import image, images


def test_exit_status_is_the_commands(minirun: Program) -> None:
    assert minirun("run", "--rm", "busybox", "sh", "-c", "exit 7").returncode == 7


def test_output_and_error_go_to_the_callers_streams(minirun: Program) -> None:
    done = minirun("run", "--rm", "busybox", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (("busybox", "nosuch"), 127, 'exec: "nosuch": executable file not found in $PATH'),
        (("busybox", "/nosuch"), 127, "stat /nosuch: no such file or directory"),
        (("busybox", ""), 127, 'exec: "": executable file not found in $PATH'),
        (("busybox", "/etc/passwd"), 126, 'exec: "/etc/passwd": permission denied'),
        (("--pull", "never", "nosuch", "true"), 125, "No such image: nosuch:latest"),
        (("--nosuch", "busybox"), 125, "unknown flag: --nosuch"),
        ((), 1, "requires at least 1 argument"),
        (("--memory", "many", "busybox"), 125, "invalid --memory 'many'"),
        (("--user", "nosuch", "busybox", "true"), 125, "unable to find user nosuch"),
        (("-v", "/nosuch:x", "busybox", "true"), 125, "no absolute path"),
        (("--network", "bridg", "busybox", "true"), 125, "network bridg not found"),
        (("--cap-add", "CAP_MAGIC", "busybox", "true"), 125, "unknown capability 'CAP_MAGIC'"),
        (("-it", "busybox", "true"), 1, "the input device is not a TTY"),
        (("--progress", "nice", "busybox", "true"), 125, "invalid --progress 'nice'"),
        (("--name", "../x", "busybox", "true"), 125, "invalid container name '../x' ("),
    ],
)
def test_mistakes_are_one_line_with_the_right_status(
    minirun: Program, args: tuple[str, ...], status: int, text: str
) -> None:
    done = minirun("run", "--rm", *args)
    assert done.returncode == status
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert minirun("ps", "-aq").stdout == ""


@pytest.mark.parametrize("flag", ["--root", "--store"])
def test_a_place_that_is_not_utf_8(minirun: Program, tmp_path: Path, flag: str) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    done = minirun(flag, place, "run", "--rm", "busybox", "true")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "the path is not UTF-8" in done.stderr
    assert not os.path.exists(place)


def test_signal_becomes_128_plus_n(minirun: Program) -> None:
    done = minirun("run", "--rm", "busybox", "sh", "-c", "sh -c 'kill -9 $$'; exit $?")
    assert done.returncode == 137
    assert minirun("run", "--rm", "busybox", "sh", "-c", "exit 255").returncode == 255


def test_name_in_use(minirun: Program) -> None:
    minirun("run", "-d", "--name", "c1", "busybox", "sleep", "100")
    done = minirun("run", "--name", "c1", "busybox", "true")
    assert done.returncode == 125
    assert 'The container name "/c1" is already in use' in done.stderr


def test_detached_logs_and_kill(minirun: Program) -> None:
    done = minirun("run", "-d", "--name", "d1", "busybox", "sh", "-c", "echo hi; exec sleep 100")
    assert done.stdout == f"{minirun.id('d1')}\n"
    assert "Up" in minirun("ps").stdout
    assert minirun("logs", "d1").stdout == "hi\n"
    assert minirun("delete", "d1").returncode == 1
    minirun("kill", "d1", "KILL")
    done = minirun("logs", "-f", "d1")
    assert done.stdout == "hi\n"
    assert "Exited (137)" in minirun("ps", "-a").stdout
    assert minirun("delete", "d1").returncode == 0
    assert minirun("ps", "-aq").stdout == ""


def test_runcs_run_beside_a_bundle(minirun: Program, layer: Path) -> None:
    """`run ID` in the bundle's folder; an image of that name comes first."""
    config = json.loads(minirun("spec", "busybox", "echo", "of the bundle").stdout)
    config["root"]["path"] = str(layer)
    (layer.parent / "config.json").write_text(json.dumps(config))
    for words, said in ((["no-image"], "of the bundle\n"), (["busybox", "echo", "no"], "no\n")):
        done = subprocess.run(minirun.argv("run", *words), cwd=layer.parent, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert (done.returncode, done.stdout) == (0, said), done.stderr
    assert "`run ID` beside a config.json" in " ".join(minirun("run", "--help").stdout.split())
    argv = minirun.argv("run", "--pull", "never", "no-image", "true")
    done = subprocess.run(argv, cwd=layer.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 125 and "No such image" in done.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("-b {} --nosuch id", 1), ("--nosuch --bundle={} id", 1), ("--bundle {} --keep=x id", 1),
        ("--pid-file x --keep=x -b {} id", 1), ("-b", 1), ("-bundle {} --nosuch id", 1),
        ("--nosuch id", 125), ("--nosuch busybox grep -b x", 125), ("-d --nosuch x y -b {}", 125),
    ],
)  # fmt: skip
def test_a_wrong_flag_beside_a_bundle_has_runcs_status(
    minirun: Program, tmp_path: Path, words: str, status: int
) -> None:
    done = minirun("run", *words.format(tmp_path).split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--gpus busybox true", "'busybox' is no gpu (--gpus has taken busybox as its value: "),
        ("--gpus nosuchgpu busybox-nosuch", "'nosuchgpu' is no gpu (as in --gpus all, "),
        ("--pull never --network busybox nosuch", "No such image: nosuch:latest (--network has "),
        ("--pull never -e busybox nosuch", "(-e has taken busybox as its value: -e VALUE busybox"),
        ("--pull never -e x nosuch", "No such image: nosuch:latest (minirun "),
        ("--gpus busybox", "requires at least 1 argument (--gpus has taken busybox as its value)"),
        ("", "requires at least 1 argument (see 'minirun run --help')"),
    ],
)
def test_a_flag_that_has_taken_the_image_as_its_value(
    minirun: Program, words: str, said: str
) -> None:
    done = minirun("run", *words.split())
    assert done.returncode in (1, 125) and done.stdout == ""
    assert done.stderr.count("\n") == 1 and said in done.stderr, done.stderr


def test_every_command_of_image_that_images_has_not_is_known() -> None:
    assert {*images.OF_IMAGE} == {*image.COMMANDS} - {*images.ACTIONS}


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("ls", 1, "minirun: images has no command ls (minirun image ls is the command)\n"),
        ("nosuch", 0, ""),
    ],
)
def test_images_of_a_word_that_is_a_command(
    minirun: Program, name: str, status: int, said: str
) -> None:
    done = minirun("images", name)
    assert (done.returncode, done.stderr) == (status, said)
