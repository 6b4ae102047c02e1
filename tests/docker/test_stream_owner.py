"""A user who is not root opens /dev/stdin, /dev/stdout and /dev/stderr, as with runc."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli.columns import Runtime
from conftest import Program

SCRIPT = "echo hi >/dev/stdout && echo err >/dev/stderr && stat -Lc %u /dev/stdout"
"""Open both anew: through /proc/self/fd, where the owner of a pipe or terminal counts."""
SHELL = ("busybox", "sh", "-c")


@pytest.mark.parametrize("flags", [(), ("--rm",), ("-i",)], ids=["log", "rm", "input"])
def test_run(minirun: Program, flags: tuple[str, ...]) -> None:
    done = minirun("run", *flags, "-u", "1000", *SHELL, SCRIPT, input="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n1000\n", "err\n")


def test_run_reads_its_input(minirun: Program) -> None:
    done = minirun("run", "--rm", "-i", "-u", "1000", *SHELL, "cat </dev/stdin", input="word\n")
    assert (done.returncode, done.stdout) == (0, "word\n"), done.stderr


def test_run_with_a_terminal(minirun: Program) -> None:
    done = minirun("run", "--rm", "-t", "-u", "1000", *SHELL, SCRIPT)
    assert (done.returncode, done.stdout.split()) == (0, ["hi", "err", "1000"]), done.stderr


def test_run_detached_and_exec(minirun: Program) -> None:
    minirun("run", "-d", "--name", "c", "-u", "1000", *SHELL, f"{SCRIPT}; exec sleep 100")
    for flags in ((), ("-i",), ("-u", "1001")):
        done = minirun("exec", *flags, "c", "sh", "-c", SCRIPT, input="")
        uid = "1001" if flags == ("-u", "1001") else "1000"
        assert (done.returncode, done.stdout, done.stderr) == (0, f"hi\n{uid}\n", "err\n")
    done = minirun("exec", "-t", "c", "sh", "-c", SCRIPT)
    assert (done.returncode, done.stdout.split()) == (0, ["hi", "err", "1000"]), done.stderr
    done = minirun("logs", "c")
    assert (done.stdout, done.stderr) == ("hi\n1000\n", "err\n")


@pytest.mark.parametrize("ids", ["0:100000:65536", "0:100000:500"], ids=["mapped", "not mapped"])
def test_user_namespace(reachable: Program, ids: str) -> None:
    """The supervisor's pipes are the host's root's, a user that the container does not know."""
    uid = "1000" if ids.endswith("65536") else "400"
    done = reachable("run", "--rm", "--uidmap", ids, "-u", uid, *SHELL, SCRIPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hi\n{uid}\n", "err\n")
    reachable("run", "-d", "--name", "c", "--uidmap", ids, "busybox", "sleep", "100")
    done = reachable("exec", "-u", uid, "c", "sh", "-c", SCRIPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hi\n{uid}\n", "err\n")


def test_create_and_start_with_the_callers_pipes(runtime: Runtime) -> None:
    script = SCRIPT.replace("/dev/std", "/proc/self/fd/").replace("out", "1").replace("err", "2")
    runtime.config(args=["sh", "-c", script], user={"uid": 1000, "gid": 1000})
    read_fd, write_fd = os.pipe()
    done = subprocess.run(
        [*runtime.argv, "create", runtime.name], cwd=runtime.bundle, check=False, timeout=30,
        stdin=subprocess.DEVNULL, stdout=write_fd, stderr=write_fd,
    )  # fmt: skip
    assert done.returncode == 0
    assert runtime("start", "ID").returncode == 0
    os.close(write_fd)
    with os.fdopen(read_fd) as file:
        assert file.read() == "hi\n2\n1000\n"


def test_files_and_dev_null_keep_their_owner(minirun: Program, tmp_path: Path, layer: Path) -> None:
    """runc gives a file of the host away as well; here it stays whose it is."""
    null = os.stat("/dev/null")
    config = json.loads(minirun("spec", "-u", "1000", *SHELL, "echo hi").stdout)
    config.pop("annotations", None)
    config["root"]["path"] = str(layer)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with open(tmp_path / "out", "w") as out:
        argv = minirun.argv("run", "--bundle", str(tmp_path), f"owner-{os.getpid()}")
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, check=False,
            timeout=30,
        )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "out").read_text() == "hi\n"
    assert os.stat(tmp_path / "out").st_uid == os.geteuid()
    assert (os.stat("/dev/null").st_uid, os.stat("/dev/null").st_gid) == (null.st_uid, null.st_gid)
