"""MPS: several containers use one GPU at the same time, through one process that has it.

Without MPS the processes on a GPU take turns. With it they are clients of a server, which has one
context on the GPU and runs their kernels side by side; each can be limited to a part of the GPU's
threads and memory. The parts are NVIDIA's and come with the driver:

    nvidia-cuda-mps-control -d     the control daemon; starts a server for the first client
    nvidia-cuda-mps-control        reads a command on stdin: quit, get_server_list, …
    CUDA_MPS_PIPE_DIRECTORY        the daemon's socket; a client finds the daemon by this variable
    CUDA_MPS_LOG_DIRECTORY         control.log, server.log

minirun runs one daemon for a state root, in ROOT/.mps, away from /tmp/nvidia-mps: that place is
put into every container that has a GPU, whether it asked for MPS or not. Client and server share
memory, so a container with `--gpu-mps` is in the host's IPC namespace (docker's --ipc=host), and
the server serves one user at a time: containers of the same user. The stages know nothing of all
this: it is a mount, three variables and a missing namespace in config.json.

Simplified: NVIDIA advises to set the GPUs to EXCLUSIVE_PROCESS (`nvidia-smi -c`), so that nothing
gets past the daemon; that changes the host for everybody, and is left to its owner.
Source: NVIDIA Multi-Process Service, "Tools and Interface Reference", "Environment Variables".
"""

from __future__ import annotations

import os

from minirun.common.waiting import until
from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import GPUError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import Root
from minirun.gpu import drivers
from minirun.gpu.nvidia.shared import lookup

with lazy:
    import subprocess
    import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.oci.run_config import RunOptions

PROGRAM = "nvidia-cuda-mps-control"
INSIDE = "/run/nvidia-mps"
"""Where a container finds the pipe directory."""
_FOLDER = ".mps"
"""Of a state root."""
_PID_FILE = "nvidia-cuda-mps-control.pid"
_PID_BYTES = 32
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_HINT = "it comes with the driver: nvidia-compute-utils, or xorg-x11-drv-nvidia-cuda"
_LONGEST = 107
"""Bytes in the path of a Unix socket: unix(7)."""
_SECONDS = 30
"""A command may take so long; a GPU that wakes up takes some seconds."""


class Share(Record):
    """What one container gets of its GPUs: --gpu-mps=THREADS%,MEMORY."""

    threads: int = 0
    """Per cent of a GPU's threads, 1 to 100; 0 for no limit."""
    memory: int = 0
    """MiB of each GPU; 0 for no limit."""

    def environment(self, gpus: int) -> list[str]:
        """Return what a client reads; `gpus` is how many GPUs it has, which it counts from 0."""
        env = [f"CUDA_MPS_PIPE_DIRECTORY={INSIDE}"]
        if self.threads:
            env.append(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={self.threads}")
        if self.memory:
            limits = ",".join(f"{number}={self.memory}M" for number in range(gpus))
            env.append(f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT={limits}")
        return env


def parse(text: str) -> Share:
    """Parse the value of --gpu-mps: on, 25%, 4g, or 25%,4g. Raises UsageError."""
    threads = memory = 0
    for part in text.split(",") if text != "on" else ():
        number, unit = part[:-1], part[-1:].lower()
        count = whole(number, 1, 10**9) or 0
        if unit == "%" and 0 < count <= 100 and not threads:
            threads = count
        elif unit in _UNITS and count * _UNITS[unit] >= 1 << 20 and not memory:
            memory = count * _UNITS[unit] >> 20
        else:
            hint = "as in --gpu-mps, --gpu-mps=25%, --gpu-mps=4g, --gpu-mps=25%,4g"
            raise UsageError(f"invalid --gpu-mps {text!r}", hint)
    return Share(threads, memory)


def pipes(root: str) -> str:
    """The daemon's pipe directory, for the containers of a state root."""
    return f"{root}/{_FOLDER}/pipe"


def logs(root: str) -> str:
    """The daemon's log directory."""
    return f"{root}/{_FOLDER}/log"


def daemon(root: str) -> int:
    """Return the pid of the running daemon, 0 where there is none.

    It writes its pid file itself. That a process has this pid is not enough: it may be another's.
    """
    try:
        pid = _written_pid(pipes(root))
        name = state.read_text(f"/proc/{pid}/comm").strip()
    except (OSError, ValueError):
        return 0
    return pid if name and PROGRAM.startswith(name) and state.start_time(pid) else 0


def _written_pid(folder: str) -> int:
    """Return what the pid file says; containers write to its folder. Raises OSError, ValueError."""
    pipe = Root.at(folder)
    try:
        data = pipe.read(_PID_FILE, _PID_BYTES + 1)
    finally:
        pipe.close()
    if len(data) > _PID_BYTES:
        raise ValueError("too long for a pid")
    return int(data)


def join(options: RunOptions, text: str, settings: Settings) -> RunOptions:
    """Make a container with GPUs a client: --gpu-mps=`text`. Raises UsageError, GPUError."""
    share = parse(text)
    devices = options.gpu_env[0].partition("=")[2] if options.gpu_env else ""
    if options.cdi:
        count = len(options.cdi.edits.gpus)
    elif devices == "all":
        count = len(drivers.inventory(options.choices.gpu_driver, settings.store).gpus)
    else:
        count = len([name for name in devices.split(",") if name not in ("", "none", "void")])
    if not count:
        raise UsageError("--gpu-mps needs a GPU of NVIDIA", "as in --gpus 0 --gpu-mps")
    if not daemon(settings.root):
        raise GPUError("--gpu-mps: the mps daemon does not run", "minirun gpu mps start")
    mount = (pipes(settings.root), INSIDE, ("nosuid", "nodev", "noexec"))
    return options._replace(
        env=(*share.environment(count), *options.env),
        mounts=(*options.mounts, mount),
        ipc="host", shm="",
    )  # fmt: skip


def start(root: str, visible: tuple[str, ...] = ()) -> int:
    """Start the daemon, for the GPUs with these UUIDs (none of them: for all); return its pid.

    Raises GPUError, OSError.
    """
    program = lookup.need(PROGRAM, _HINT)
    if pid := daemon(root):
        raise GPUError(f"the mps daemon runs already, with pid {pid}", "minirun gpu mps status")
    if len(f"{pipes(root)}/control_privileged") > _LONGEST:
        raise GPUError(f"{pipes(root)} is too long for a socket", "choose a shorter --root")
    for folder in (pipes(root), logs(root)):
        os.makedirs(folder, mode=0o755, exist_ok=True)
    _run(root, [program, "-d"], visible=visible)
    pid = daemon(root)
    if not pid:
        hint = f"{logs(root)}/control.log says why"
        raise GPUError(f"{PROGRAM} -d has started no daemon", hint)
    return pid


def stop(root: str) -> None:
    """Let the daemon and its servers end; it waits for their clients. Raises GPUError, OSError."""
    if not daemon(root):
        raise GPUError("the mps daemon does not run", "minirun gpu mps start")
    command(root, "quit")
    if not until(lambda: not daemon(root), _SECONDS):
        raise GPUError("the mps daemon waits for its clients", "minirun gpu ps shows them")


def command(root: str, text: str) -> list[str]:
    """Give the daemon a command; return the lines of its answer. Raises GPUError, OSError."""
    return _run(root, [lookup.need(PROGRAM, _HINT)], text + "\n").splitlines()


def status(root: str) -> list[str]:
    """Return the lines of `minirun gpu mps status`. Raises GPUError, OSError."""
    lines = [f"mps daemon: pid {daemon(root)}", f"pipes: {pipes(root)}", f"logs: {logs(root)}"]
    percentage = command(root, "get_default_active_thread_percentage")
    lines.append(f"default active thread percentage: {' '.join(percentage)}")
    servers = [word for line in command(root, "get_server_list") for word in line.split()]
    for server in servers:
        clients = " ".join(command(root, f"get_client_list {server}"))
        lines.append(f"server {server}: clients {clients or 'none'}")
    return lines if servers else [*lines, "no server: the first client will start one"]


def _run(root: str, argv: list[str], text: str = "", *, visible: tuple[str, ...] = ()) -> str:
    """Run the program with the directories of this state root; return what it prints.

    A daemon keeps the descriptors that it is started with, so its output is no pipe.
    Raises GPUError with its first line, OSError.
    """
    env = {
        "PATH": DEFAULT_PATH,
        "CUDA_MPS_PIPE_DIRECTORY": pipes(root),
        "CUDA_MPS_LOG_DIRECTORY": logs(root),
    }
    if visible:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(visible)
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        try:
            done = subprocess.run(
                argv, input=text, stdout=said, stderr=said, env=env, cwd="/", text=True,
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            text = f"{PROGRAM} has not answered within {_SECONDS} s"
            raise GPUError(text, f"{logs(root)}/control.log may say why") from None
        said.seek(0)
        answer = said.read()
    if done.returncode:
        line = answer.strip().partition("\n")[0] or f"exit status {done.returncode}"
        raise GPUError(f"{PROGRAM}: {line}", f"{logs(root)}/control.log may say more")
    return answer
