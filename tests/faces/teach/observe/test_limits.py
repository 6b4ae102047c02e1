"""`minirun observe` if it may not trace, and if it is killed: what it watches goes on unharmed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Program, wait_until
from faces.teach.observe.test_runtimes import Runtime, bundle_of
from required import installed

_UNDER = """
import os, sys
from minirun.core.kernel import process
from minirun.oci.seccomp import compiler, profile
rule = {"names": ["ptrace"], "action": "SCMP_ACT_ERRNO"}
filter = profile.load({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]})
process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
compiler.install(filter.bpf, filter.flags)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_ptrace_is_refused(minirun: Program, tmp_path: Path) -> None:
    """As in a container whose seccomp profile refuses it: one line says what would help."""
    installed("strace")
    made = tmp_path / "made"
    words = [sys.executable, "-c", _UNDER, *minirun.argv("observe", "--", "touch", str(made))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("minirun: ")]
    assert "strace could not follow the command" in line
    assert "--cap-add SYS_PTRACE" in line
    assert not made.exists()


def test_without_strace(minirun: Program, tmp_path: Path) -> None:
    done = minirun("observe", "--", "true", env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr == "minirun: strace is not installed (the package is called strace)\n"


@pytest.mark.parametrize("name", ["runc", "crun"])
def test_it_is_killed(
    name: str, minirun: Program, layer: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The container goes on: it is traced by none, its calls work, and its status is told."""
    runtime = Runtime(name, minirun, tmp_path)
    script = "while mkdir /tick; do rmdir /tick; echo tick; sleep 0.01; done"
    bundle = bundle_of(layer, lambda config: config["process"].update(args=["sh", "-c", script]))
    config = json.loads((bundle.path / "config.json").read_text())
    config["root"]["readonly"] = False
    (bundle.path / "config.json").write_text(json.dumps(config))
    container = f"goes-on-{os.getpid()}"
    runtime.names.append(container)
    request.addfinalizer(runtime.clean)
    words = runtime.argv("run", "--bundle", str(bundle.path), container)
    ticks = tmp_path / "ticks"
    with ticks.open("w") as file:
        observer = subprocess.Popen(
            runtime.apart(minirun.argv("observe", "--", *words)), stdout=file, stderr=file
        )
        try:
            wait_until(lambda: ticks.stat().st_size > 50)
        finally:
            observer.kill()
            observer.wait()
    pid = json.loads(runtime("state", container))["pid"]
    status = Path(f"/proc/{pid}/status")
    wait_until(lambda: "TracerPid:\t0\n" in status.read_text())
    size = ticks.stat().st_size
    wait_until(lambda: ticks.stat().st_size > size + 50)
    assert set(ticks.read_text().split()) == {"tick"}
    collected = minirun("gc")
    assert (collected.returncode, collected.stdout) == (0, "")
    assert json.loads(runtime("state", container))["status"] == "running"
    runtime("kill", container, "KILL")
    runtime.clean()
    deadline = time.monotonic() + 10
    while status.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not status.exists()


@pytest.mark.parametrize("name", ["runc", "crun"])
def test_a_signal_is_passed_on(name: str, minirun: Program, layer: Path, tmp_path: Path) -> None:
    """As without an observer: the container's command gets it, and its own status comes out."""
    runtime = Runtime(name, minirun, tmp_path)
    script = 'trap "echo got; exit 9" TERM; echo ready; while :; do sleep 0.01; done'
    bundle = bundle_of(layer, lambda config: config["process"].update(args=["sh", "-c", script]))
    container = f"signalled-{os.getpid()}"
    runtime.names.append(container)
    run = runtime.argv("run", "--bundle", str(bundle.path), container)
    out = tmp_path / "out"
    ended = []
    for words in (run, minirun.argv("observe", "--", *run)):
        with out.open("w") as file:
            process = subprocess.Popen(runtime.apart(words), stdout=file, stderr=subprocess.DEVNULL)
            wait_until(lambda: "ready" in out.read_text())
            process.send_signal(signal.SIGTERM)
            ended.append((process.wait(), out.read_text().split()))
    assert ended == [(9, ["ready", "got"])] * 2
