"""The six kinds of hooks: when, where, with which state, and what becomes of their failure."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spec.conftest import Bundle

KINDS = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip
Hook = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("late", [False, True])
def test_a_hook_inside_runs_under_the_filter(bundle: Bundle, late: bool) -> None:
    """As with runc; with noNewPrivileges the filter comes last, and init's own calls escape it."""
    (bundle.rootfs / "seen").mkdir()
    words = ["sh", "-c", "grep Seccomp: /proc/self/status >/seen/it; mkdir /seen/made 2>&1; true"]
    rows = [{"names": ["mkdir", "clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]
    bundle.says(
        "true",
        process__noNewPrivileges=late,
        linux__seccomp={"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rows[0:1] if late else [
            rows[0] | {"names": ["mkdir"]}
        ]},
        hooks={"startContainer": [{"path": "/bin/sh", "args": words, "env": ["PATH=/bin"]}]},
    )  # fmt: skip
    assert (bundle.rootfs / "seen/it").read_text().split()[1] == "2"
    assert not (bundle.rootfs / "seen/made").exists()


@pytest.fixture
def recorded(bundle: Bundle, hook: Hook, tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Runs a container with a hook of each kind; returns what they saw, in order."""

    def run() -> list[dict[str, Any]]:
        inside = bundle.rootfs / "seen"
        inside.mkdir()
        rows = {}
        for kind in KINDS:
            place = "/seen" if kind == "startContainer" else str(inside)
            script = (
                f"n=$(ls {place} | wc -l); "
                f'echo "{{\\"kind\\": \\"{kind}\\", \\"args\\": \\"$*\\", \\"A\\": \\"$A\\", '
                f'\\"cwd\\": \\"$(pwd)\\", \\"mnt\\": \\"$(readlink /proc/self/ns/mnt)\\", '
                f'\\"state\\": $(cat)}}" >{place}/$n-{kind}'
            )
            rows[kind] = [hook(script, f"hook-{kind}", args=["h", kind, "x"])]
            rows[kind][0]["env"].append("A=b c")
            if kind == "startContainer":
                (bundle.rootfs / "hook").write_text((tmp_path / f"hook-{kind}").read_text())
                (bundle.rootfs / "hook").chmod(0o755)
                rows[kind][0]["path"] = "/hook"
        others = "ls /seen | grep -vc poststart"  # which runs while the command does
        before = bundle.says(others, hooks=rows, annotations={"a": "b"})
        assert before == "4", "four kinds come before the command"
        return [json.loads(next(inside.glob(f"{n}-*")).read_text()) for n in range(len(KINDS))]

    return run


def test_order_state_environment_and_place(
    recorded: Callable[[], list[dict[str, Any]]], bundle: Bundle
) -> None:
    seen = recorded()
    assert [row["kind"] for row in seen] == list(KINDS)
    for row in seen:
        assert row["args"] == f"{row['kind']} x"
        assert row["A"] == "b c"
        assert row["state"]["id"] == bundle.name
        assert row["state"]["bundle"] == str(bundle.path)
        assert row["state"]["annotations"] == {"a": "b"}
        inside = row["kind"] in ("createContainer", "startContainer")
        assert (row["mnt"] != os.readlink("/proc/self/ns/mnt")) == inside
        places = {"startContainer": "/", "createContainer": str(bundle.rootfs)}
        assert row["cwd"] == places.get(row["kind"], str(bundle.path))
    states = [(row["state"]["status"], row["state"]["pid"]) for row in seen]
    pid = states[0][1]
    assert pid > 1
    assert states[:2] == [("creating", pid)] * 2
    assert states[2:5] == [("creating", 1), ("created", 1), ("running", pid)]
    assert states[5][0] == "stopped"


@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_hook_that_fails_before_the_start(bundle: Bundle, hook: Hook, kind: str) -> None:
    row = {"path": "/bin/false"} if kind == "startContainer" else hook("echo no >&2; exit 7")
    rest = {"poststop": [hook(f"cat >{bundle.path}/stopped", "stop")]}
    said = bundle.refuses("echo ran", hooks={kind: [row], **rest})
    assert f"error running {kind} hook #0: {row['path']} failed with exit status" in said
    stopped = json.loads((bundle.path / "stopped").read_text())
    assert (stopped["status"], stopped["pid"]) == ("stopped", 0), "another may have its number"


def test_a_hook_in_the_container_has_the_commands_environment(bundle: Bundle) -> None:
    """If it has none of its own; as in runc. On the host it has none then."""
    row = {"path": "/bin/sh", "args": ["sh", "-c", "env >/dev/shm/env"]}
    hooks, env = {"startContainer": [row]}, ["PATH=/bin", "A=of the command"]
    said = bundle.says("cat /dev/shm/env", hooks=hooks, process__env=env)
    assert "A=of the command" in said.splitlines()
    hooks["startContainer"][0]["env"] = ["PATH=/bin"]
    said = bundle.says("cat /dev/shm/env", hooks=hooks, process__env=env)
    assert "A=" not in said


def test_a_hook_in_the_container_is_under_its_seccomp(bundle: Bundle) -> None:
    """Where noNewPrivileges is false, the filter is there before the hook; as in runc."""
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    row = {"path": "/bin/sh", "args": ["sh", "-c", "mkdir /dev/shm/a 2>/dev/shm/said || true"]}
    said = bundle.says(
        "cat /dev/shm/said", hooks={"startContainer": [row]},
        linux__seccomp=seccomp, process__noNewPrivileges=False,
    )  # fmt: skip
    assert "Operation not permitted" in said


def test_a_poststart_hook_that_fails_ends_the_container(bundle: Bundle, hook: Hook) -> None:
    """runtime.md, Lifecycle, of 1.3: an error, and the container is destroyed."""
    pid = bundle.create("sleep 100", hooks={"poststart": [hook("exit 3")]})["pid"]
    done = bundle.program("start", bundle.name)
    assert done.returncode == 1
    assert "error running poststart hook #0: " in done.stderr
    assert "does not exist" in bundle.program("state", bundle.name).stderr
    assert not os.path.exists(f"/proc/{pid}/root/bin")


def test_a_poststop_hook_that_fails_is_a_warning(bundle: Bundle, hook: Hook) -> None:
    rows = {"poststop": [hook("exit 3", "one"), hook(f"touch {bundle.path}/second", "two")]}
    done = bundle.run("true", hooks=rows)
    assert done.returncode == 0
    assert done.stderr.startswith("minirun: warning: error running poststop hook #0: ")
    assert (bundle.path / "second").exists()


def test_a_hook_that_takes_too_long(bundle: Bundle, hook: Hook) -> None:
    rows = {"createRuntime": [hook("sleep 100", timeout=1)]}
    assert "took longer than its timeout of 1 s" in bundle.refuses(hooks=rows)
