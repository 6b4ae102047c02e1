"""seccomp.json: one program for init and for each exec, compiled once, beside init."""

import json

import pytest

from conftest import Program
from minirun.core.keeping import places

NAME = "kept"
NEW_SHELL = ("exec", NAME, "sh", "-c", "grep Seccomp_filters /proc/self/status; unshare -n true")
REFUSED = "unshare: unshare(0x40000000): Operation not permitted\n"


@pytest.fixture
def running(minirun: Program) -> Program:
    assert minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100").returncode == 0
    return minirun


def instructions(program: Program) -> list[object]:
    """How many instructions each filter had that was installed in the container."""
    found = [event for event in program.events(NAME) if event["name"] == "seccomp"]
    return [event["args"]["instructions"] for event in found]  # type: ignore[index]


def test_exec_installs_what_init_has(running: Program) -> None:
    done = running(*NEW_SHELL)
    assert (done.stdout.split(), done.stderr) == (["Seccomp_filters:", "1"], REFUSED)
    first, second = instructions(running)
    kept = json.loads((running.directory(NAME) / places.SECCOMP).read_text())
    assert first == second == len(kept["bpf"]) // 16 > 100


def test_a_container_of_an_older_minirun(running: Program) -> None:
    (running.directory(NAME) / places.SECCOMP).unlink()
    done = running(*NEW_SHELL)
    assert (done.stdout.split(), done.stderr) == (["Seccomp_filters:", "1"], REFUSED)
    first, second = instructions(running)
    assert first == second


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", '{"flags": 4, "allowed": 1, "bpf": "x"}',
        '{"flags": "x", "allowed": 1, "bpf": ""}',
    ],
)  # fmt: skip
def test_a_damaged_one_is_no_filter(running: Program, text: str) -> None:
    """Without a filter nothing runs."""
    (running.directory(NAME) / places.SECCOMP).write_text(text)
    done = running("exec", NAME, "echo", "ran")
    assert done.stdout == ""
    assert done.returncode != 0
    assert done.stderr == f"minirun: seccomp.json of {NAME} is damaged\n"


def test_one_that_cannot_be_compiled_leaves_nothing(minirun: Program) -> None:
    """It is found after clone; init ends with the runtime."""
    config = json.loads(minirun("spec", "busybox", "true").stdout)
    calls = [
        {"names": ["personality"], "action": "SCMP_ACT_ALLOW",
         "args": [{"index": 0, "value": value, "op": "SCMP_CMP_EQ"}]}
        for value in range(5000)  # in 32 bits one instruction each
    ]  # fmt: skip
    bundle = minirun.root.parent / "bundle"
    (bundle / "rootfs").mkdir(parents=True)
    config["root"]["path"] = "rootfs"
    config["linux"]["seccomp"]["syscalls"] += calls
    (bundle / "config.json").write_text(json.dumps(config))
    done = minirun("run", "-b", str(bundle), NAME)
    assert done.returncode == 1
    assert "linux.seccomp: " in done.stderr and "instructions" in done.stderr
    assert minirun.left() == []
