"""The lines that people paste to start GPU containers, with `docker` read as `minirun`.

tests/data/gpu-lines.txt has them, collected from READMEs, guides and issues. Each runs in a shell,
on a terminal, on a host of its own (its own store and network), without an NVIDIA driver: the GPUs
are simulated, and the first is split by MIG. It ends as docker would, or is in REASONS with what it
says instead.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun.core.kernel.architecture import NATIVE
from net.hosts import Host, host
from required import installed

ROOT = Path(__file__).parents[2]
LINES = [
    line
    for line in (ROOT / "data/gpu-lines.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
PROGRAMS = ("docker", "podman", "nerdctl")
WRAPPER = (
    'nvidia-docker() { shift; docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=$NV_GPU "$@"; }'
)
"""What NVIDIA's nvidia-docker of that time does with a line: nvidia-docker(1)."""
SIMULATION = "mig=0"
LIMITS = "CAP_SYS_RESOURCE"
REASONS = {
    "--group-add render": ("render", "Ubuntu's image has no such group; docker says the same"),
    "--entrypoint python3": ("python3", "Ubuntu's image has no python3"),
    "-v /dev:/dev": (
        "would be made on the host",
        "the host has no nodes of a driver, and gets none",
    ),
    "--device=/dev/kfd": ("/dev/kfd", "this machine has no AMD GPU; docker says the same"),
    "--device /dev/dri": ("/dev/dri", "this machine has no /dev/dri; docker says the same"),
    "--device=/dev/infiniband": ("/dev/infiniband", "there is no such device here"),
    "--runtime=habana": ("habanalabs", "this machine has no Gaudi; docker has no such runtime"),
}
"""Words of a line → what is said instead, and why."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """$W of the lines: what they mount."""
    made = tmp_path_factory.mktemp("lines")
    for name in ("data", "models", "hf", "out", "labs", "results", "src"):
        (made / name).mkdir()
    (made / "env.list").write_text("KEY=value\n")
    made.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def lines_host(command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    for program in ("ip", "nft", "script"):
        installed(program)
    with host(command, tmp_path_factory.mktemp("host")) as made:
        made.run("network", "create", "ollama-network")
        specs = made.store.parent / "etc/cdi"
        specs.mkdir(parents=True)
        (made.store.parent / "work").mkdir()
        words = ("nvidia-ctk", "cdi", "generate", f"--output={specs}/n.yaml")
        made.run("--gpu-driver", "simulated", *words, env={"MINIRUN_SIM": SIMULATION})
        yield made


def pasted(made: Host, line: str, folder: Path) -> tuple[int, str]:
    """Run a line on a terminal; return its status, and all that was shown."""
    minirun = f'"{made.path}" --root "{made.root}" --store "{made.store}" "$@"'
    script = folder / "pasted.sh"
    functions = "".join(f"{name}() {{ {minirun}; }}\n" for name in PROGRAMS)
    functions += f"{WRAPPER}\n"
    script.write_text(f'{functions}sudo() {{ "$@"; }}\nexport W="{folder}"\n{line}\n')
    argv = [*made.inside(), *with_specs(made), "script", "-qec", f"bash {script}", "/dev/null"]
    environment = {**os.environ, "DISPLAY": ":0", "TERM": "xterm", "MINIRUN_SIM": SIMULATION}
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False,
        env=environment, errors="replace",
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def with_specs(made: Host) -> list[str]:
    """Return the beginning of a command line that sees a CDI spec of the simulated GPUs in /etc.

    It has a mount namespace of its own: /etc of this machine stays as it is.
    """
    place = made.store.parent
    mount = f"mount -t overlay -o lowerdir=/etc,upperdir={place}/etc,workdir={place}/work etc /etc"
    return ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]


def reason(line: str) -> str:
    """Return what a line says on this machine instead of running; "" if it is to run."""
    for words, (text, _) in REASONS.items():
        if (
            words in line
            and not os.path.exists(text)
            and ("/dev:/dev" not in words or "--gpus" in line)
        ):
            return text
    elsewhere = {"linux/amd64": "this machine executes", "x86_64-linux-gnu": "No such file"}
    for words, text in elsewhere.items():
        if words in line and NATIVE.go != "amd64":
            return text
    bounding = Path("/proc/self/status").read_text().partition("CapBnd:")[2].split()[0]
    if re.search(r"--ulimit[ =](memlock|nproc)", line) and not int(bounding, 16) >> 24 & 1:
        return LIMITS
    return ""


@pytest.mark.parametrize("number", range(len(LINES)), ids=lambda n: LINES[n][:70])
def test_a_line_that_is_pasted(lines_host: Host, folder: Path, number: int) -> None:
    line = LINES[number]
    try:
        status, shown = pasted(lines_host, line, folder)
        if said := reason(line):
            assert status != 0 and said in shown, shown
            return
        assert status == 0, shown
        check(lines_host, line, shown)
    finally:
        names = [name for name in os.listdir(lines_host.root) if name[0] != "."]
        if names:
            lines_host.run("rm", "-f", *names)


def check(made: Host, line: str, shown: str) -> None:
    """Look whether a line has done what it is for."""
    flags = line.partition(" ubuntu")[0]
    background = re.search(r" -(d|di) ", f"{flags} ")
    if background:
        name = re.search(r"--name[ =](\S+)", line)
        listed = made.run("ps", "-a", "--format", "{{.Names}} {{.Status}}").splitlines()
        assert len(listed) == 1 and (not name or listed[0].startswith(name[1])), listed
        return
    for words, expected in (
        ("nvidia-smi -L", "GPU 0: NVIDIA"), ("device=MIG-", "MIG"),
        ("grep CapEff", "CapEff"), ("df -h /dev/shm", "shm"), ("touch /tmp/x", ""),
        ("ls /models", ""), ("-V", "Python 3"), (" id", "uid="),
        ("cat /proc/1/comm", "docker-init" if "--init" in line else ""),
        ("tcp_keepalive_time'", "600"), ("-w /workspace", "/workspace"),
    ):  # fmt: skip
        if words in line:
            assert expected in shown, (words, shown)


def test_each_reason_is_needed() -> None:
    for words in REASONS:
        assert any(words in line for line in LINES), words
