"""`minirun gpu why`: asked, given, and what the kernel says now; then something is changed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from gpu import images
from minirun import cgroups
from minirun.cgroups.rules import DeviceRule
from minirun.gpu.edits import DeviceNode, Edits
from minirun.inspect.gpu import why
from minirun.inspect.gpu.observed import ObservedGpus, ObservedNode

GPUS = ("--gpus", "0,1", "--gpu-driver", "simulated")
UNKNOWN = "Failed to initialize NVML: Unknown Error"


def start(program: Program, *flags: str, image: str = "debian") -> None:
    done = program("run", "-d", "--name", "g", *flags, image, "sleep", "60")
    assert done.returncode == 0, done.stderr


def document(program: Program) -> dict[str, Any]:
    done = program("gpu", "why", "--json", "g")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rewrite(program: Program, major: int) -> None:
    """What a daemon does that knows nothing of the hook: set the rules without those of `major`."""
    record = json.loads(program("inspect", "--json", "g").stdout)["cgroup"]
    cgroup = cgroups.from_record(record)
    rules = [rule for rule in cgroup.effective_device_rules() if rule.major != major]
    cgroup.set_device_rules(rules)
    cgroup.close()


def read(program: Program, path: str) -> str:
    """What opening a node in the container says."""
    said = program("exec", "g", "cat", path).stderr
    return said.strip().rpartition(": ")[2]


def test_asked_given_and_now(minirun_both: Program) -> None:
    start(minirun_both, *GPUS)
    text = minirun_both("gpu", "why", "g").stdout
    assert text.startswith("container g: running, mode legacy, driver 550.163.01, SIMULATED\n")
    assert "  command line: --gpus 0,1\n" in text
    assert "  capabilities: compute, utility\n" in text
    assert "  GPU 1: GPU-aaaaaaaa-0000-4000-8000-000000000001 " in text
    assert text.endswith("differences\n  none: all is as it was given\n")
    found = document(minirun_both)
    assert (found["devices"], found["differences"]) == (["0", "1"], [])
    given = found["given"]["mounts"]
    assert found["now"]["mounts"] == len(given) > 20
    nodes = {row["path"]: (row["found"], row["access"]) for row in found["now"]["nodes"]}
    assert nodes["/dev/nvidia1"] == ("c 195:1", "rwm")  # m: minirun run lets any node be made
    libraries = sum(".so" in row["containerPath"].rpartition("/")[2] for row in given)
    assert f"  5 device nodes, {libraries} libraries, {len(given) - libraries} other mounts" in text


def test_rules_that_were_rewritten_behind_its_back(minirun_both: Program) -> None:
    """Toolkit #48: all was well, then a daemon reload; nvidia-smi says Unknown Error."""
    start(minirun_both, *GPUS)
    assert read(minirun_both, "/dev/nvidia0") == "No such device or address"
    rewrite(minirun_both, 195)
    assert read(minirun_both, "/dev/nvidia0") == "Operation not permitted"
    rows = document(minirun_both)["differences"]
    assert [row["what"] for row in rows] == [
        f"/dev/{name}: the cgroup denies rw; given was rw"
        for name in ("nvidiactl", "nvidia0", "nvidia1")
    ]
    assert all(UNKNOWN in row["reason"] for row in rows)
    text = minirun_both("gpu", "why", "g").stdout
    assert "try: minirun gpu why --repair g puts the rules back" in text
    done = minirun_both("gpu", "why", "--repair", "g")
    assert done.stderr == "minirun: 3 device rules put back\n"
    assert "none: all is as it was given" in done.stdout
    last = minirun_both.events("g")[-1]["name"]
    assert last in ("write", "bpf"), "the repair is in the log"
    assert read(minirun_both, "/dev/nvidia0") == "No such device or address"


def test_a_rule_that_was_not_given(minirun_both: Program) -> None:
    start(minirun_both, *GPUS)
    record = json.loads(minirun_both("inspect", "--json", "g").stdout)["cgroup"]
    cgroup = cgroups.from_record(record)
    cgroup.allow_devices([DeviceRule(True, "c", 195, 2, "rw")])
    cgroup.close()
    (row,) = document(minirun_both)["differences"]
    assert row["what"] == "the cgroup allows c 195:2 rw, which was not given"


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("rm /dev/nvidia0", "/dev/nvidia0 is not in the container"),
        (
            "rm /dev/nvidia0; mknod /dev/nvidia0 c 1 3",
            "/dev/nvidia0 is c 1:3 in the container, not c 195:0",
        ),
        ("rm /dev/nvidia0; ln -s /dev/null /dev/nvidia0", "/dev/nvidia0 is no device in the"),
    ],
    ids=("removed", "another device", "a link"),
)
def test_nodes_that_the_container_changed(minirun: Program, script: str, what: str) -> None:
    start(minirun, *GPUS)
    minirun("exec", "g", "sh", "-c", script)
    (row,) = document(minirun)["differences"]
    assert row["what"].startswith(what)


def test_mounts_that_are_gone(minirun: Program) -> None:
    start(minirun, *GPUS, "--cap-add", "SYS_ADMIN")
    minirun("exec", "g", "umount", "/usr/bin/nvidia-smi")
    (row,) = document(minirun)["differences"]
    assert "mounts are gone, such as /usr/bin/nvidia-smi" in row["what"]


def test_cdi_and_who_asked(minirun: Program, tmp_path: Path) -> None:
    spec = {"cdiVersion": "0.5.0", "kind": "example.com/thing", "devices": [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/zero"}]}} for name in "ab"
    ]}  # fmt: skip
    (tmp_path / "thing.json").write_text(json.dumps(spec))
    flags = ("--cdi-spec-dir", str(tmp_path), "--device", "example.com/thing=a")
    start(minirun, *flags, "--annotation", "cdi.k8s.io/x=example.com/thing=b", image="busybox")
    found = document(minirun)
    assert found["mode"] == "cdi"
    assert {(row["by"], row["what"]) for row in found["asked"]} == {
        ("annotation (CDI)", "cdi.k8s.io/x=example.com/thing=b"),
        ("command line (CDI)", "--device example.com/thing=a"),
    }
    assert found["differences"] == []


@pytest.mark.parametrize(
    ("flags", "by", "what", "counts"),
    [
        ((), "image", "the image cuda:latest asks for GPUs by its own environment", False),
        (("-e", "NVIDIA_VISIBLE_DEVICES=1"), "command line", "-e NVIDIA_VISIBLE_DEVICES=1", True),
        (("--gpus", "0", "--gpu-mode", "cdi"), "command line", "--gpus 0", True),
    ],
)
def test_who_asked(
    minirun: Program, tmp_path: Path, flags: tuple[str, ...], by: str, what: str, counts: bool
) -> None:
    images.make(tmp_path / "store", "cuda", ("NVIDIA_VISIBLE_DEVICES=all",))
    minirun.flags = (*minirun.flags, "--store", str(tmp_path / "store"))
    start(minirun, "--gpu-driver", "simulated", *flags, image="cuda")
    (row,) = document(minirun)["asked"]
    assert (row["by"], row["counts"]) == (by, counts)
    assert row["what"].startswith(what)


@pytest.mark.parametrize("name", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_a_library_of_the_image_that_hides_the_drivers(
    minirun: Program, tmp_path: Path, name: str
) -> None:
    """ldconfig makes no link where a file is: the loader takes the image's own."""
    layer = images.make(tmp_path / "store", "old")
    (layer / "usr/lib64").mkdir()
    (layer / "usr/lib64" / name).write_text("of another driver")
    minirun.flags = (*minirun.flags, "--store", str(tmp_path / "store"))
    done = minirun("run", "-d", "--name", "g", *GPUS, "old", "sleep", "60")
    assert done.returncode == 0, done.stderr
    text = f"minirun: warning: the image has its own /usr/lib64/{name}, which hides the driver's ("
    assert done.stderr.startswith(text) and done.stderr.count("\n") == 1, done.stderr
    (row,) = document(minirun)["differences"]
    assert row["what"] == f"/usr/lib64/{name} hides the driver's library"


def test_a_bundle_whose_environment_asked(minirun: Program, layer: Path) -> None:
    done = minirun("spec", *GPUS, "busybox", "sleep", "60")
    config = json.loads(done.stdout)
    (layer.parent / "config.json").write_text(json.dumps(config))
    flags = ("--gpu-driver=simulated", "create", "--bundle", str(layer.parent))
    argv = minirun.argv(*flags, "g")
    null = subprocess.DEVNULL
    subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=True)
    (row,) = document(minirun)["asked"]
    assert row["by"] == "environment in config.json, read by the hook"
    assert row["what"] == "NVIDIA_VISIBLE_DEVICES=0,1"


def test_without_gpus_and_after_the_end(minirun: Program) -> None:
    start(minirun)
    text = minirun("gpu", "why", "g").stdout
    assert "asked\n  nothing: --gpus all asks for GPUs\n" in text
    assert "given\n  nothing\n" in text
    minirun("kill", "g", "KILL")
    wait_until(lambda: "stopped" in minirun("state", "g").stdout)
    assert "it does not run" in minirun("gpu", "why", "g").stdout
    done = minirun("gpu", "why", "--repair", "g")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert minirun("gpu", "why", "nosuch").returncode == 1


def test_what_only_a_real_driver_can_do() -> None:
    """After an update: another version, another major, files that the host has deleted."""
    node = ObservedNode("/dev/nvidia-uvm", "c", 510, 0, "rw", "c 510:0", "c 511:0", "rw")
    path = "/usr/lib/libcuda.so.550.1"
    now = ObservedGpus((node,), [], (path,), frozenset((path,)), frozenset((path,)))
    edits = Edits((DeviceNode("/dev/nvidia-uvm", "c", 510, 0),), driver="550.1")
    said = [row.what for row in why.differences(edits, now, host_driver="560.2")]
    assert said == [
        "/dev/nvidia-uvm is c 511:0 on the host now, not c 510:0",
        f"1 mounted files are deleted on the host, such as {path}",
        "the driver is 560.2 now; the container got files of 550.1",
    ]


def test_a_program_of_another_runtime_gives_no_verdict() -> None:
    """Rules that cannot be read are no rules that deny."""
    node = ObservedNode("/dev/nvidia0", "c", 195, 0, "rw", "c 195:0", "", None)
    now = ObservedGpus((node,), None, (), frozenset(), frozenset())
    assert why.differences(Edits(), now) == []
    assert why.missing_rules(now) == []
