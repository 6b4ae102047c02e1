"""--gpu-mps and `minirun gpu mps`.

There is no GPU here, so no MPS either. A shell script stands in for NVIDIA's control daemon: it
shows what minirun tells that program, and that container and daemon meet; not that kernels run.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, wait_until
from minirun.core.errors import UsageError
from minirun.toolkit import mps
from minirun.toolkit.mps import Share

GPUS = ("--gpus", "0,2", "--gpu-driver", "simulated")
STAND_IN = """#!/bin/sh
echo "args=$* visible=$CUDA_VISIBLE_DEVICES log=$CUDA_MPS_LOG_DIRECTORY" >>"$0.calls"
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -d ]; then
    rm -f control; mkfifo control
    (read -r line <control; rm nvidia-cuda-mps-control.pid) >/dev/null 2>&1 &
    echo $! >nvidia-cuda-mps-control.pid
    exit 0
fi
while read -r line; do
    case $line in
    quit) echo >control ;;
    get_server_list) echo 4242 ;;
    "get_client_list 4242") printf '11\\n12\\n' ;;
    get_default_active_thread_percentage) echo 100.0 ;;
    *) echo "unknown: $line" >&2; exit 1 ;;
    esac
done
"""


@pytest.fixture
def daemon(minirun: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-in, in PATH; it is stopped where a test has left it.

    The state root is a short one: the daemon's sockets lie below it (unix(7): 107 characters).
    """
    minirun.named = Path(tempfile.mkdtemp(prefix="minirun-"))
    path = tmp_path / "bin/nvidia-cuda-mps-control"
    path.parent.mkdir()
    path.write_text(STAND_IN)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    yield path
    if mps.daemon(str(minirun.root)):
        mps.stop(str(minirun.root))
    minirun.clean()
    shutil.rmtree(minirun.root)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("on", Share()), ("25%", Share(25)), ("100%", Share(100)), ("4g", Share(0, 4096)),
        ("512M", Share(0, 512)), ("50%,1024k", Share(50, 1)), ("2g,10%", Share(10, 2048)),
    ],
)  # fmt: skip
def test_what_gpu_mps_means(text: str, share: Share) -> None:
    assert mps.parse(text) == share


@pytest.mark.parametrize(
    "text",
    ["0%", "101%", "25", "%", "g", "25%,", "1%,2%", "4g,4g", "1023k", "-1%", "4t", "x", "²%", ""],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid --gpu-mps"):
        mps.parse(text)


def test_a_limit_for_each_gpu_as_the_client_counts_them() -> None:
    assert Share(25, 512).environment(2) == [
        "CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=512M,1=512M",
    ]


def test_start_status_stop(minirun: Program, daemon: Path) -> None:
    done = minirun("gpu", "mps", "start", "--gpus", "1,3", "--gpu-driver", "simulated")
    pid = mps.daemon(str(minirun.root))
    assert (done.stdout, done.stderr) == (f"mps daemon started: pid {pid}\n", "")
    uuid = "GPU-aaaaaaaa-0000-4000-8000-00000000000"
    log = f"{minirun.root}/.mps/log"
    said = Path(f"{daemon}.calls").read_text().splitlines()
    assert said == [f"args=-d visible={uuid}1,{uuid}3 log={log}"]
    assert minirun("gpu", "mps", "status").stdout.splitlines() == [
        f"mps daemon: pid {pid}", f"pipes: {minirun.root}/.mps/pipe", f"logs: {log}",
        "default active thread percentage: 100.0", "server 4242: clients 11 12",
    ]  # fmt: skip
    again = minirun("gpu", "mps", "start")
    assert again.returncode == 125
    assert f"the mps daemon runs already, with pid {pid}" in again.stderr
    assert minirun("gpu", "mps", "stop").stdout == "mps daemon stopped\n"
    done = minirun("gpu", "mps", "status")
    assert (done.returncode, done.stdout) == (1, "the mps daemon does not run\n")
    assert "the mps daemon does not run" in minirun("gpu", "mps", "stop").stderr


def test_a_container_is_a_client(minirun: Program, daemon: Path) -> None:
    assert minirun("gpu", "mps", "start").returncode == 0
    script = (
        "env | grep MPS | sort; ls /run/nvidia-mps; readlink /proc/self/ns/ipc; stat -c %d /dev/shm"
    )
    args = ("run", "--rm", *GPUS, "--gpu-mps=30%,1g", "busybox", "sh", "-c", script)
    done = minirun(*args)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1024M,1=1024M",
        "CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps",
        "control", "nvidia-cuda-mps-control.pid",
        os.readlink("/proc/self/ns/ipc"), str(os.stat("/dev/shm").st_dev),
    ]  # fmt: skip
    words = minirun(*args[:2], *GPUS, "busybox", *args[-3:]).stdout.split()
    assert os.readlink("/proc/self/ns/ipc") not in words and not any("MPS" in w for w in words)


def test_all_gpus_and_cdi_count_as_many_as_there_are(minirun: Program, daemon: Path) -> None:
    minirun("gpu", "mps", "start")
    for flags in (("all",), ("all", "--gpu-mode", "cdi"), ("count=2", "--gpu-mode", "cdi")):
        done = minirun("run", "--rm", "--gpus", *flags, "--gpu-driver", "simulated",
                       "--gpu-mps=1g", "busybox", "env")  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        line = next(line for line in done.stdout.splitlines() if "PINNED" in line)
        assert line.count("1024M") == (4 if flags[0] == "all" else 2)


def test_what_is_missing_is_said(minirun: Program, daemon: Path) -> None:
    def line(*args: str) -> str:
        done = minirun("run", "--rm", *args, "busybox", "true")
        assert (done.returncode, done.stderr.count("\n")) == (125, 1)
        return done.stderr

    assert "the mps daemon does not run (minirun gpu mps start)" in line(*GPUS, "--gpu-mps")
    assert "--gpu-mps needs a GPU" in line("--gpu-mps")
    assert "--gpu-mps needs a GPU" in line("--gpus", "none", *GPUS[2:], "--gpu-mps")
    assert "invalid --gpu-mps '7'" in line(*GPUS, "--gpu-mps=7")
    assert "invalid --gpu-mps ''" in line(*GPUS, "--gpu-mps=")
    daemon.unlink()
    done = minirun("gpu", "mps", "start")
    assert "no nvidia-cuda-mps-control in PATH or /usr/bin" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_daemon_that_died_is_no_daemon(minirun: Program, daemon: Path) -> None:
    minirun("gpu", "mps", "start")
    root = str(minirun.root)
    pid_file = Path(mps.pipes(root), "nvidia-cuda-mps-control.pid")
    pid = mps.daemon(root)
    Path(mps.pipes(root), "control").write_text("\n")  # it ends without a word
    wait_until(lambda: not mps.daemon(root))
    pid_file.write_text(str(pid))
    assert mps.daemon(root) == 0, "nobody has this pid"
    pid_file.write_text(str(os.getpid()))
    assert mps.daemon(root) == 0, "somebody else has it"
    assert minirun("gpu", "mps", "start").returncode == 0


def test_the_pid_file_is_one_that_containers_may_have_made(tmp_path: Path) -> None:
    """They write to the pipe directory: a link to the host, a FIFO or a huge file is no daemon."""
    folder = Path(mps.pipes(str(tmp_path)))
    folder.mkdir(parents=True)
    file = folder / "nvidia-cuda-mps-control.pid"
    process = subprocess.Popen(["sleep", "60"], executable=_named(tmp_path))
    try:
        wait_until(lambda: _comm(process.pid).startswith("nvidia"))
        file.write_text(f"{process.pid}\n")
        assert mps.daemon(str(tmp_path)) == process.pid
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        assert mps.daemon(str(tmp_path)) == 0
        file.unlink()
        os.mkfifo(file)
        assert mps.daemon(str(tmp_path)) == 0
        file.unlink()
        file.write_text(" " * 40 + str(process.pid))
        assert mps.daemon(str(tmp_path)) == 0
    finally:
        process.kill()
        process.wait()


def _named(folder: Path) -> str:
    """A program with the daemon's name, which sleeps."""
    path = folder / mps.PROGRAM
    shutil.copy2(shutil.which("sleep") or "/bin/sleep", path)
    return str(path)


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


def test_a_daemon_that_does_not_start(minirun: Program, daemon: Path) -> None:
    daemon.write_text("#!/bin/sh\necho 'cannot find the device' >&2\nexit 1\n")
    done = minirun("gpu", "mps", "start")
    assert "nvidia-cuda-mps-control: cannot find the device (" in done.stderr
    assert f"{minirun.root}/.mps/log/control.log" in done.stderr
    daemon.write_text("#!/bin/sh\n")
    assert "has started no daemon" in minirun("gpu", "mps", "start").stderr
