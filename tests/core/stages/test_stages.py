"""The seven stages as config.json drives them: namespaces, clocks, hooks, masked paths."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program

Bundle = Callable[..., Path]


@pytest.fixture
def bundle(minirun: Program, layer: Path, tmp_path: Path) -> Bundle:
    """Make a bundle on a copy of busybox; `change` edits its config.json."""

    def make(
        *args: str,
        change: Callable[[dict[str, Any]], None] | None = None,
        flags: tuple[str, ...] = (),
    ) -> Path:
        config = json.loads(minirun("spec", *flags, "busybox", *args).stdout)
        config["root"]["path"] = str(layer)
        if change:
            change(config)
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    return make


def run(minirun: Program, bundle: Path) -> subprocess.CompletedProcess[str]:
    return minirun("run", "--bundle", str(bundle), "c1")


def test_stage_1_every_namespace_is_another(minirun: Program, bundle: Bundle) -> None:
    script = "for n in mnt pid uts ipc net cgroup; do readlink /proc/self/ns/$n; done"
    inside = run(minirun, bundle("sh", "-c", script)).stdout.split()
    host = [
        os.readlink(f"/proc/self/ns/{n}") for n in ("mnt", "pid", "uts", "ipc", "net", "cgroup")
    ]
    assert [a.split(":")[0] for a in inside] == [b.split(":")[0] for b in host]
    assert not set(inside) & set(host)


def test_stage_7_environment_has_each_variable_once(minirun: Program, bundle: Bundle) -> None:
    def change(config: dict[str, Any]) -> None:
        config["process"]["env"] = ["PATH=/bin", "HOME=/", "A=1", "alone", "A=2=3", "EMPTY="]

    done = run(minirun, bundle("cat", "/proc/self/environ", change=change))
    assert done.stdout.split("\0") == ["PATH=/bin", "HOME=/", "A=2=3", "EMPTY=", ""]


def test_stage_1_clocks_are_shifted(minirun: Program, bundle: Bundle) -> None:
    def change(config: dict[str, Any]) -> None:
        config["linux"]["namespaces"].append({"type": "time"})
        config["linux"]["timeOffsets"] = {"boottime": {"secs": 1_000_000}}

    done = run(minirun, bundle("cat", "/proc/uptime", change=change))
    host = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 <= host + 1_000_000 - float(done.stdout.split()[0]) < 30


def test_stage_1_an_existing_namespace_is_joined(minirun: Program, bundle: Bundle) -> None:
    holder = subprocess.Popen(["unshare", "--uts", "sh", "-c", "hostname shared; exec sleep 60"])
    try:
        path = f"/proc/{holder.pid}/ns/uts"
        while os.readlink(path) == os.readlink("/proc/self/ns/uts"):
            pass

        def change(config: dict[str, Any]) -> None:
            config["linux"]["namespaces"] = [
                {"type": n["type"], **({"path": path} if n["type"] == "uts" else {})}
                for n in config["linux"]["namespaces"]
            ]
            del config["hostname"]

        done = run(minirun, bundle("readlink", "/proc/self/ns/uts", change=change))
        assert done.stdout.strip() == os.readlink(path)
    finally:
        holder.kill()
        holder.wait()


def hook(path: Path, script: str) -> dict[str, Any]:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"path": str(path)}


def test_stage_3_hooks_get_the_state_and_run_in_order(
    minirun: Program, bundle: Bundle, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    kinds = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")

    def change(config: dict[str, Any]) -> None:
        config["hooks"] = {
            kind: [
                hook(tmp_path / kind, f"echo {kind} $(cat) $(readlink /proc/self/ns/mnt) >>{marks}")
            ]
            for kind in kinds
        }

    assert run(minirun, bundle("true", change=change)).returncode == 0
    lines = marks.read_text().splitlines()
    assert [line.split()[0] for line in lines] == list(kinds)
    states = [json.loads(line[line.index("{") : line.rindex("}") + 1]) for line in lines]
    assert all(state["id"] == "c1" and state["bundle"] == str(tmp_path) for state in states)
    inside = ("createContainer",)  # runtime.md, State: the pid as the hook's namespace has it
    assert all((s["pid"] == 1) == (k in inside) for k, s in zip(kinds, states, strict=True))
    assert [state["status"] for state in states][-2:] == ["running", "stopped"]
    host = os.readlink("/proc/self/ns/mnt")
    namespaces = [line.split()[-1] for line in lines]
    assert namespaces[0] == namespaces[1] == host  # prestart, createRuntime: the runtime's
    assert namespaces[2] != host  # createContainer: the container's


def test_stage_7_only_their_owner_may_write_to_what_hooks_make(
    minirun: Program, bundle: Bundle, tmp_path: Path
) -> None:
    kinds = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")

    def change(config: dict[str, Any]) -> None:
        config["hooks"] = {
            kind: [hook(tmp_path / kind, f">{tmp_path}/{kind}.made")] for kind in kinds
        }

    assert run(minirun, bundle("true", change=change)).returncode == 0
    modes = {kind: (tmp_path / f"{kind}.made").stat().st_mode & 0o777 for kind in kinds}
    assert modes == dict.fromkeys(kinds, 0o644)


def test_stage_3_nvidias_hook_has_its_turn_among_the_others(
    minirun: Program, bundle: Bundle, tmp_path: Path
) -> None:
    def change(config: dict[str, Any]) -> None:
        before, after, last = (hook(tmp_path / name, "true") for name in ("a", "b", "c"))
        config["hooks"]["prestart"] = [before, *config["hooks"]["prestart"], after]
        config["hooks"]["createRuntime"] = [last]

    made = bundle("true", change=change, flags=("--gpus", "0", "--gpu-driver", "simulated"))
    argv = ("--gpu-driver=simulated", "run", "--bundle", str(made), "c1")
    assert minirun(*argv).returncode == 0
    order = [
        (e["stage"], os.path.basename(e["args"].get("path", "")) or e["kind"])  # type: ignore[attr-defined]
        for e in minirun.events("c1")
        if e["stage"] in (3, 4, 5) and (e["kind"] in ("begin", "end") or e["name"] == "hook ended")
    ]
    assert order == [
        (3, "begin"), (3, "a"), (3, "end"), (4, "begin"), (4, "end"), (5, "begin"), (5, "end"),
        (3, "begin"), (3, "b"), (3, "c"), (3, "end"),
    ]  # fmt: skip


def test_stage_3_nvidias_hook_as_podman_5_lists_it(minirun: Program, bundle: Bundle) -> None:
    """podman 5 writes what its hook directories call prestart into createRuntime."""

    def change(config: dict[str, Any]) -> None:
        config["hooks"] = {"createRuntime": config["hooks"]["prestart"]}

    made = bundle("true", change=change, flags=("--gpus", "0", "--gpu-driver", "simulated"))
    assert minirun("--gpu-driver=simulated", "run", "--bundle", str(made), "c1").returncode == 0
    stages = [event["stage"] for event in minirun.events("c1") if event["kind"] == "begin"]
    assert stages == [1, 2, 3, 4, 5, 6, 7]


def test_stage_3_a_failing_hook_ends_it_all(
    minirun: Program, bundle: Bundle, tmp_path: Path
) -> None:
    def change(config: dict[str, Any]) -> None:
        config["hooks"] = {"prestart": [hook(tmp_path / "bad", "echo went wrong >&2; exit 3")]}

    done = run(minirun, bundle("echo", "never", change=change))
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "error running prestart hook #0: " in done.stderr
    assert "exit status 3: went wrong" in done.stderr
    assert not list(minirun.root.glob("[!.]*"))


def test_stage_3_a_hook_that_takes_too_long(
    minirun: Program, bundle: Bundle, tmp_path: Path
) -> None:
    def change(config: dict[str, Any]) -> None:
        config["hooks"] = {"prestart": [hook(tmp_path / "slow", "sleep 60") | {"timeout": 1}]}

    done = run(minirun, bundle("true", change=change))
    assert "took longer than its timeout of 1 s" in done.stderr
    assert not list(minirun.root.glob("[!.]*"))


def test_stages_2_and_6_are_the_fifos(minirun: Program) -> None:
    minirun("run", "--rm", "busybox", "true")
    events = minirun.events()
    said = [(e["actor"], e["name"]) for e in events if e["kind"] == "message"]
    assert said == [
        ("init", "READY"),
        ("runtime", "YOUR_TURN"),
        ("init", "RUN_HOOKS"),
        ("init", "YOUR_TURN"),
        ("runtime", "HOOKS_DONE"),
        ("runtime", "YOUR_TURN"),
        ("init", "WAITING"),
    ]
    for pid in {e["pid"] for e in events}:  # two that act at once may write in the other order
        times = [e["t"] for e in events if e["pid"] == pid]
        assert times == sorted(times)
    turns = [e["t"] for e in events if e["kind"] in ("message", "begin")]
    assert turns == sorted(turns)


def test_stage_7_hidden_and_read_only_paths(minirun: Program) -> None:
    script = "head -c 1 /proc/keys | wc -c; ls -A /sys/firmware; echo x >/proc/sys/kernel/hostname"
    done = minirun("run", "--rm", "busybox", "sh", "-c", script)
    assert done.stdout == "0\n"
    assert "Read-only file system" in done.stderr


def test_stage_3_nvidias_hook_has_its_timeout(minirun: Program, bundle: Bundle) -> None:
    def change(config: dict[str, Any]) -> None:
        config["hooks"]["prestart"][0]["timeout"] = 1
        os.mkfifo(f"{config['root']['path']}/etc/ld.so.conf")  # ldconfig waits for its writer

    made = bundle("true", change=change, flags=("--gpus", "0", "--gpu-driver", "simulated"))
    done = minirun("--gpu-driver=simulated", "run", "--bundle", str(made), "c1")
    assert done.returncode != 0
    assert "nvidia-container-runtime-hook took longer than its timeout of 1 s" in done.stderr
    assert not list(minirun.root.glob("[!.]*"))
