"""Containers with CDI devices, of hand-written specs and of the simulated driver."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import STORE, Program, skip
from gpu.cdi.conftest import KIND, spec, write
from minirun.core.kernel.architecture import NATIVE
from minirun.gpu import driverroot
from minirun.gpu.drivers import inventory
from minirun.gpu.nvidia.specs import generate, recipe

CDI = ("--gpu-mode", "cdi", "--gpu-driver", "simulated")
DEVICE = f"{KIND}=a"
CUDA = f"/usr/lib/{NATIVE.triplet}/libcuda.so"


def thing(folder: Path) -> dict[str, Any]:
    """A device with all that CDI can give; its hook writes into `folder`."""
    (folder / "data").write_text("from the host\n")
    script = f'cat >{folder}/state; env >{folder}/env; echo "$0" >{folder}/args'
    edits = {
        "deviceNodes": [
            {"path": "/dev/renamed", "hostPath": "/dev/zero"},
            {"path": "/dev/r", "type": "c", "major": 195, "minor": 77, "permissions": "r"},
        ],
        "mounts": [
            {
                "hostPath": f"{folder}/data", "containerPath": "/opt/data",
                "options": ["ro", "rbind", "rprivate"],
            }
        ],
        "hooks": [
            {
                "hookName": "createContainer", "path": "/bin/sh",
                "args": ["sh", "-c", script, "zero"], "env": ["HOOK=yes"],
            }
        ],
        "additionalGids": [1234],
        "env": ["FROM=a"],
    }  # fmt: skip
    document = spec("a", "b", containerEdits={"env": ["FROM=spec"]})
    document["devices"][0]["containerEdits"] = edits
    return document


def run(program: Program, folder: Path, *words: str, flags: tuple[str, ...] = ()) -> list[str]:
    """Run a command with specs of `folder`; return the lines that it printed."""
    done = program("run", "--rm", "--cdi-spec-dir", str(folder), *flags, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["thing.json", "thing.yaml"])
@pytest.mark.parametrize("how", [("--device", DEVICE), ("--annotation", f"cdi.k8s.io/x={DEVICE}")])
def test_a_container_with_all_that_a_spec_can_give(
    minirun: Program, tmp_path: Path, name: str, how: tuple[str, ...]
) -> None:
    specs = tmp_path / "specs"
    write(specs, name, thing(tmp_path))
    script = (
        "stat -c '%F %t:%T' /dev/renamed; head -c 3 /dev/renamed | od -An -tx1; cat /opt/data;"
        " echo x 2>/dev/null >/opt/data || echo read-only; echo $FROM; id -G"
    )
    lines = run(minirun, specs, *how, "busybox", "sh", "-c", script)
    assert lines == [
        "character special file 1:5", " 00 00 00", "from the host", "read-only", "a", "0 1234",
    ]  # fmt: skip
    state = json.loads((tmp_path / "state").read_text())
    assert (state["status"], state["pid"]) == ("creating", 1)
    env = (tmp_path / "env").read_text().split()
    assert "HOOK=yes" in env
    assert not [entry for entry in env if entry.startswith(("FROM=", "PATH=/usr/local"))]
    assert (tmp_path / "args").read_text() == "zero\n"


def test_the_rule_of_a_node_is_in_force(minirun_both: Program, tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    write(specs, "thing.json", thing(tmp_path))
    script = "cat /dev/r; : >/dev/r"
    flags = ("run", "--rm", "--cdi-spec-dir", str(specs), "--device", DEVICE)
    done = minirun_both(*flags, "busybox", "sh", "-c", script)
    assert [line.rpartition(": ")[2] for line in done.stderr.splitlines()] == [
        "No such device or address",  # ENXIO: allowed, but no driver is there
        "Operation not permitted",  # EPERM
    ]


def test_nodes_belong_to_the_user(minirun: Program, tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    write(specs, "thing.json", thing(tmp_path))
    flags = ("--device", DEVICE, "-u", "1000:1001")
    assert run(minirun, specs, *flags, "busybox", "stat", "-c", "%u:%g", "/dev/r") == ["1000:1001"]


def test_two_folders_and_two_ways_to_ask(minirun: Program, tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    write(low, "x.json", spec("a", "b", containerEdits={"env": ["FROM=low"]}))
    write(high, "x.yaml", spec("a", containerEdits={"env": ["FROM=high"]}))
    more = ("--cdi-spec-dir", str(high), "--device", DEVICE, "--device", "/dev/null:/dev/n")
    assert run(minirun, low, *more, "busybox", "sh", "-c", "echo $FROM; ls /dev/n") == [
        "high", "/dev/n",
    ]  # fmt: skip
    flags = ("--device", DEVICE, "--annotation", f"cdi.k8s.io/x={KIND}=b,{DEVICE}")
    assert run(minirun, low, *flags, "busybox", "sh", "-c", "echo $FROM $THING") == ["low b"]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--device", "nvidia.com/gpu=9"), "unresolvable CDI devices nvidia.com/gpu=9 (there is "),
        (("--device", f"{KIND}=twice"), f"unresolvable CDI devices {KIND}=twice ({KIND}=twice is"),
        (("--device", "a=b"), "--device a=b: invalid CDI device name (as in"),
        (("--annotation", "cdi.k8s.io/x=9"), "annotation cdi.k8s.io/x: invalid CDI device name"),
        (("--device", f"{KIND}=net"), "a CDI device has netDevices: minirun run cannot do that"),
        (("--device", f"{KIND}=gone"), 'failed to stat CDI host device "/dev/none-such": no such'),
        (("--gpus", "all", "--gpu-mode", "both"), "invalid --gpu-mode 'both' (legacy"),
        (
            ("--gpus", "device=9", *CDI),
            "unresolvable CDI devices nvidia.com/gpu=9 (there is nvidia",
        ),
        (("--gpus", "count=9", *CDI), "--gpus count=9: more than there are (the CDI specs have 4)"),
        (("--gpus", "0", *CDI, "--uidmap", "0:100000:65536"), "no simulated gpu in a user"),
    ],
)
def test_one_line_and_nothing_stays(
    minirun: Program, tmp_path: Path, flags: tuple[str, ...], text: str
) -> None:
    specs = tmp_path / "specs"
    document = spec("net", "gone", "twice")
    device = {"hostInterfaceName": "none-such", "name": "eth0"}
    document["devices"][0]["containerEdits"] = {"netDevices": [device]}
    document["devices"][1]["containerEdits"] = {"deviceNodes": [{"path": "/dev/none-such"}]}
    write(specs, "x.json", document)
    write(specs, "y.json", spec("twice"))
    done = minirun("run", "--rm", "--cdi-spec-dir", str(specs), *flags, "busybox", "true")
    assert done.returncode == 125
    assert done.stderr.startswith(f"minirun: {text}")
    assert done.stderr.count("\n") == 1
    assert not list(minirun.root.glob("[!.]*"))


@pytest.fixture
def simulated_specs(minirun: Program, tmp_path: Path) -> str:
    """The file that nvidia-ctk makes, with the simulated driver."""
    words = ("nvidia-ctk", "cdi", "generate", f"--output={tmp_path}/nvidia/x.json")
    (tmp_path / "nvidia").mkdir()
    assert minirun(*words, env={"MINIRUN_SIM": "count=4"}).returncode == 0
    return str(tmp_path / "nvidia")


@pytest.mark.parametrize("way", [("--gpus", "device=1"), ("-e", "NVIDIA_VISIBLE_DEVICES=1")])
@pytest.mark.parametrize(
    "device",
    [("--device", "nvidia.com/gpu=0"), ("--annotation", "cdi.k8s.io/x=nvidia.com/gpu=0")],
)
def test_gpus_in_two_ways(
    minirun: Program, simulated_specs: str, way: tuple[str, ...], device: tuple[str, ...]
) -> None:
    """CDI's files say NVIDIA_VISIBLE_DEVICES=void: the GPU of the other way would be missing."""
    words = (*way, "--gpu-driver=simulated", "--cdi-spec-dir", simulated_specs, *device)
    done = minirun("run", "--rm", *words, "busybox", "true")
    assert done.returncode == 125
    assert "and the CDI device nvidia.com/gpu=0 are two ways to ask for" in done.stderr
    assert [line for line in done.stderr.splitlines() if "SIMULATED" not in line][1:] == []


def test_gpus_in_two_ways_that_add_up(minirun: Program, simulated_specs: str) -> None:
    words = ("--cdi-spec-dir", simulated_specs, "--device", "nvidia.com/gpu=0")
    script = ("busybox", "sh", "-c", "ls -d /dev/nvidia[0-9]")
    for more in (("--gpus", "device=1", "--gpu-mode=cdi"), ("--device", "nvidia.com/gpu=1")):
        done = minirun("run", "--rm", *words, *more, *script)
        assert done.stdout.split() == ["/dev/nvidia0", "/dev/nvidia1"], done.stderr
    done = minirun("run", "--rm", *words, "--gpus", "none", *script)
    assert done.stdout.split() == ["/dev/nvidia0"], done.stderr


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (("run", "--rm", "--device", "nvidia.com/gpu=all", "busybox", "true"), "--gpus all"),
        (("nvidia-ctk", "cdi", "generate"), "MINIRUN_SIM=count=4 in the environment"),
        (("nvidia-container-cli", "info"), "--gpu-driver=simulated"),
        (("nvidia-container-cli", "list"), "MINIRUN_SIM=count=4 in the environment"),
        (("nvidia-container-cli", "configure", "--pid=1", "--device=0", "/x"), "MINIRUN_SIM="),
        (("gpu", "list", "--gpu-driver=nvidia"), "--gpu-driver=simulated"),
    ],
)
def test_without_a_driver_each_says_how_to_simulate_one(
    minirun: Program, words: tuple[str, ...], way: str
) -> None:
    if driverroot.is_loaded():
        skip("a driver is loaded")
    done = minirun(*words)
    assert done.returncode != 0
    assert way in done.stderr


def test_a_broken_file_is_warned_of_and_passed_over(minirun: Program, tmp_path: Path) -> None:
    bad = write(tmp_path / "specs", "bad.yaml", "cdiVersion: 0.5.0\nkind: [\n")
    write(tmp_path / "specs", "good.json", spec("a"))
    flags = ("--cdi-spec-dir", f"{tmp_path}/specs", "--device", DEVICE)
    done = minirun("run", "--rm", *flags, "busybox", "sh", "-c", "echo $THING")
    assert (done.returncode, done.stdout) == (0, "a\n")
    assert done.stderr.startswith(f"minirun: warning: {bad}: ")
    assert "line 3" in done.stderr
    assert done.stderr.count("\n") == 1
    assert minirun("run", "--rm", *flags[:2], "busybox", "true").stderr == "", "not asked for"


# --- --gpu-mode cdi ----------------------------------------------------------------------------


def test_what_a_container_in_cdi_mode_sees(minirun: Program) -> None:
    script = (
        "ls /dev | grep nvidia | sort; nvidia-smi -L; env | grep NVIDIA | sort;"
        " grep Modify /proc/driver/nvidia/params; ls /proc/driver/nvidia/gpus | wc -l;"
        " ldconfig -p | grep -c 'libcuda.so.1 '; readlink /usr/lib/*/libcuda.so;"
        " touch /proc/driver/nvidia/params /proc/driver/nvidia/version 2>/dev/null || echo kept;"
        " ls /run /proc/driver/nvidia"
    )
    done = minirun("run", "--rm", "--gpus", "1,3", *CDI, "debian", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    nodes = ["nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidia1", "nvidia3", "nvidiactl"]
    assert lines[:6] == nodes
    assert "SIMULATED" in lines[6] and "000000000001)" in lines[6]
    assert "SIMULATED" in lines[7] and "000000000003)" in lines[7]
    assert lines[8:14] == [
        f"NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/{NATIVE.triplet}",
        "NVIDIA_VISIBLE_DEVICES=void",
        "ModifyDeviceFiles: 0",
        "4",  # all GPUs are in /proc, as with the real driver in this mode
        "1",
        "libcuda.so.1",
    ]
    assert lines[14] == "kept"
    assert not [name for name in lines[15:] if "hook" in name], "no scratch folder stays"


def test_device_rules_are_rwm_and_in_force(minirun_both: Program) -> None:
    flags = ("--gpus", "0", *CDI)
    minirun_both("run", "-d", "--name", "g", *flags, "busybox", "sleep", "60")
    lines = minirun_both("inspect", "--devices", "g").stdout.splitlines()
    rules = sorted(line.split() for line in lines if "nvidia" in line)
    assert rules == sorted(
        ["c", number, "rwm", "#", f"/dev/{name}"]
        for number, name in (
            ("195:0", "nvidia0"), ("195:255", "nvidiactl"), ("195:254", "nvidia-modeset"),
            ("510:0", "nvidia-uvm"), ("510:1", "nvidia-uvm-tools"),
        )
    )  # fmt: skip
    script = "cat /dev/nvidia0; mknod /n1 c 195 1; cat /n1"
    said = minirun_both("exec", "g", "sh", "-c", script).stderr.splitlines()
    assert [line.rpartition(": ")[2] for line in said] == [
        "No such device or address", "Operation not permitted",
    ]  # fmt: skip


def test_gpu_ps_knows_both_modes(minirun: Program) -> None:
    for name, flags in (("a", ("0,1", *CDI)), ("b", ("1", *CDI[2:]))):
        minirun("run", "-d", "--name", name, "--gpus", *flags, "busybox", "sleep", "60")
    rows = {line.split()[0]: line.split()[1:3] for line in minirun("gpu", "ps").stdout.splitlines()}
    assert (rows["0"], rows["1"]) == (["dedicated", "a"], ["shared", "a,"])


def test_no_stage_4_and_5_and_no_prestart_hook(minirun: Program) -> None:
    minirun("run", "--name", "c", "--gpus", "0", *CDI, "busybox", "true")
    config = json.loads((minirun.directory("c") / "config.json").read_text())
    assert list(config["hooks"]) == ["createContainer"]
    assert all(os.access(h["path"], os.X_OK) for h in config["hooks"]["createContainer"])
    events = minirun.events("c")
    assert {e["stage"] for e in events if e["kind"] == "begin"} == {1, 2, 3, 6, 7}
    ended = [e["args"] for e in events if e["name"] == "hook ended"]
    assert [row["status"] for row in ended] == [0] * 7
    assert "SIMULATED" in (minirun.directory("c") / "edits.json").read_text()


def test_none_is_the_control_nodes_alone(minirun: Program) -> None:
    script = "ls /dev | grep nvidia; ls /usr/bin | grep nvidia-smi; echo $NVIDIA_VISIBLE_DEVICES"
    done = minirun("run", "--rm", "--gpus", "none", *CDI, "busybox", "sh", "-c", script)
    assert done.stdout.split() == [
        "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl", "void",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "gpus", ["count=2", "device=0,1", "GPU-aaaaaaaa-0000-4000-8000-000000000001,0"]
)
def test_the_ways_to_name_gpus(minirun: Program, gpus: str) -> None:
    done = minirun(
        "run", "--rm", "--gpus", gpus, *CDI, "busybox", "sh", "-c", "ls /dev/nvidia[0-9]"
    )
    assert done.stdout.split() == ["/dev/nvidia0", "/dev/nvidia1"]


def test_the_fallback_says_so_and_capabilities_do_not_count(minirun: Program) -> None:
    if os.path.exists("/proc/driver/nvidia/version"):
        skip("this machine has a driver: nothing falls back")
    flags = ("--gpus", 'device=0,"capabilities=utility"', "--gpu-mode", "cdi")
    done = minirun("run", "--rm", *flags, "busybox", "ls", "/usr/bin/nvidia-cuda-mps-server")
    assert done.returncode == 0
    warning, fallback = done.stderr.splitlines()
    assert "capabilities" in warning
    assert "SIMULATED" in fallback


def test_a_spec_in_the_folders_is_used(minirun: Program, tmp_path: Path) -> None:
    """The simulated spec, written down, with one change; --device finds it, too."""
    document = simulated_spec(minirun)
    document["containerEdits"]["env"].append("WRITTEN=yes")
    write(tmp_path / "specs", "nvidia.yaml", document)
    script = "echo $WRITTEN; nvidia-smi -L | wc -l"
    for flags in (("--gpus", "0,2", *CDI), ("--device", "nvidia.com/gpu=2", *CDI[2:])):
        lines = run(minirun, tmp_path / "specs", *flags, "busybox", "sh", "-c", script)
        assert lines == ["yes", "2" if "--gpus" in flags else "1"]
    flags = ("--gpus", "0", "--gpu-mode", "cdi", "--gpu-driver", "nvidia")
    done = minirun("run", "--rm", "--cdi-spec-dir", f"{tmp_path}/specs", *flags, "busybox", "true")
    assert done.returncode == 125 and done.stderr.count("\n") == 1


def simulated_spec(program: Program) -> dict[str, Any]:
    hook = recipe.HookProgram(program.path, (program.path, "nvidia-cdi-hook"))
    assert stat.S_IMODE(os.stat(program.path).st_mode) & 0o111
    return generate.spec(inventory("simulated", STORE), recipe.CdiRecipe(hook))


def test_the_interpreter_runs_the_hooks_where_minirun_is_a_module(minirun: Program) -> None:
    argv = [sys.executable, "-m", "minirun", *minirun.argv()[1:]]
    words = ("run", "--rm", "--gpus", "0", *CDI, "busybox", "readlink", CUDA)
    program = Program(sys.executable, minirun.root)
    program.argv = lambda *args: [*argv, *args]  # type: ignore[method-assign]
    done = program(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "libcuda.so.1\n", "")
