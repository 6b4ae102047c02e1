"""What the command gets as standard input, output and error."""

import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from containers import container
from minirun.__main__ import open_stdio
from minirun.core.container import Console
from minirun.core.process import streams
from minirun.core.rootfs.inroot import Root


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_streams_land_whatever_numbers_they_come_from(
    tmp_path: Path, order: tuple[int, int, int]
) -> None:
    """stdin may come as 2, stdout as 0: no dup2 overwrites what is still needed."""
    names = ("in", "out", "err")
    (tmp_path / "in").write_text("input")
    made = container(tmp_path)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            high = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in names]
            for fd, number in zip(high, order, strict=True):
                os.dup2(fd, number)
            root = Root.at("/")
            streams.connect(made, Console(*order), root)
            streams.lead_session(made)
            assert os.read(0, 100) == b"input"
            os.write(1, b"output")
            os.write(2, b"error")
            assert os.getsid(0) == os.getpid()
            assert all(os.get_inheritable(fd) for fd in range(3))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "out").read_text() == "output"
    assert (tmp_path / "err").read_text() == "error"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_closed_streams_become_dev_null(closed: tuple[int, ...]) -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for fd in closed:
                os.close(fd)
            before = os.listdir("/proc/self/fd")
            open_stdio()
            null = os.stat("/dev/null")
            assert all(os.path.samestat(os.fstat(fd), null) for fd in closed)
            assert all(os.get_inheritable(fd) for fd in closed)
            assert len(os.listdir("/proc/self/fd")) == len(before) + len(closed)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("flags", [("--rm",), (), ("-i",)])
def test_run_with_closed_streams(
    minirun: Program, tmp_path: Path, closing: str, flags: tuple[str, ...]
) -> None:
    """No file of the runtime lands on 0, 1 or 2, where the command would find it."""
    links = " ".join(f"$(readlink /proc/$$/fd/{number})" for number in range(3))
    script = f"set -- {links}; echo $* > /data/found"
    (tmp_path / "data").mkdir()
    argv = minirun.argv(
        "run", *flags, "-v", f"{tmp_path}/data:/data", "busybox", "sh", "-c", script
    )
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *argv], capture_output=True, text=True,
        timeout=30, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = (tmp_path / "data/found").read_text().split()
    assert len(found) == 3
    assert all(target == "/dev/null" or target.startswith("pipe:") for target in found)
    assert found[0] == "/dev/null" or (found[0].startswith("pipe:") and "-i" in flags)


def test_a_full_device_under_our_output(minirun: Program) -> None:
    """The caller's stdout takes nothing: the command goes on and gives its own status."""
    full = os.open("/dev/full", os.O_WRONLY)
    argv = minirun.argv("run", "busybox", "sh", "-c", "echo x; exit 5")
    done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, timeout=30, check=False)
    os.close(full)
    assert done.returncode == 5


def test_input_that_nobody_wants_stays_with_the_caller(minirun: Program) -> None:
    """Without -i the command's stdin is empty; the caller's pipe is not drained."""
    shell = f"{' '.join(minirun.argv('run', '--rm', 'busybox', 'cat'))}; cat"
    done = subprocess.run(
        ["sh", "-c", shell], input="kept\n", capture_output=True, text=True, check=False
    )
    assert done.stdout == "kept\n"


@pytest.mark.parametrize("flags", [("--rm",), ()])
def test_much_output_arrives_whole(minirun: Program, flags: tuple[str, ...]) -> None:
    script = "head -c 1000000 /dev/zero | tr '\\0' x; echo done >&2"
    done = minirun("run", *flags, "busybox", "sh", "-c", script)
    assert done.stdout == "x" * 1_000_000
    assert done.stderr == "done\n"


def test_the_commands_output_outlives_a_reader_that_leaves(minirun: Program) -> None:
    """`minirun run … | head -1`: what it writes is read on, also more than pipes hold."""
    argv = minirun.argv("run", "--rm", "busybox", "sh", "-c", "'yes | head -n 500000; exit 3'")
    shell = f"{{ {' '.join(argv)}; echo $? >&2; }} | head -1"
    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "y\n"
    assert done.stderr == "3\n"


def test_the_hosts_dev_null_stays_outside(minirun: Program) -> None:
    """chmod of /proc/self/fd/0 would change the host's node for all who use it."""
    script = "stat -L -c %d /proc/self/fd/0 /dev/null"
    done = minirun("run", "--name", "own-null", "busybox", "sh", "-c", script)
    assert len(done.stdout.split()) == 2 and len(set(done.stdout.split())) == 1, done
    assert minirun("run", "-d", "--name", "runs", "busybox", "sleep", "60").returncode == 0
    done = minirun("exec", "runs", "sh", "-c", script)
    assert len(done.stdout.split()) == 2 and len(set(done.stdout.split())) == 1, done


def test_the_hosts_dev_null_stays_outside_of_a_bundle(
    minirun: Program, layer: Path, tmp_path: Path
) -> None:
    """As an engine has it: the streams are the container's own, and /dev/null among them."""
    config = json.loads(minirun("spec", "busybox", "sh").stdout)
    script = "stat -L -c %d /proc/self/fd/0 /dev/null"
    config["process"]["args"] = ["sh", "-c", script]
    config["root"] = {"path": str(layer), "readonly": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    argv = minirun.argv("run", "-b", str(tmp_path), "own-null")
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert len(done.stdout.split()) == 2 and len(set(done.stdout.split())) == 1, done


def test_an_empty_input_is_as_docker_has_it(minirun: Program) -> None:
    """Open for reading and writing, and no more: O_NONBLOCK is minirun's own, open(2)."""
    done = minirun("run", "--rm", "busybox", "grep", "flags", "/proc/self/fdinfo/0")
    assert int(done.stdout.split()[1], 8) & os.O_NONBLOCK == 0, done
