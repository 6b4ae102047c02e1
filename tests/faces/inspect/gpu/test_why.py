"""`minirun gpu why`: asked, given, and what the kernel says now; then something is changed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from gpu import images
from minirun import cgroups
from minirun.cgroups.rules import DeviceRule
from minirun.core.kernel.architecture import NATIVE
from minirun.faces.inspect.gpu import why
from minirun.faces.inspect.gpu.observed import ObservedGpus, ObservedNode
from minirun.gpu.edits import DeviceNode, Edits, GivenGpu

GPUS = ("--gpus", "0,1", "--gpu-driver", "simulated")
UNKNOWN = "Failed to initialize NVML: Unknown Error"


def start(program: Program, *flags: str, image: str = "debian") -> None:
    done = program("run", "-d", "--name", "g", *flags, image, "sleep", "60")
    assert done.returncode == 0, done.stderr


def document(program: Program) -> dict[str, Any]:
    done = program("gpu", "why", "--json", "g")
    found = json.loads(done.stdout)
    assert done.returncode == bool(found["differences"]), done.stderr
    return found


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


def test_rules_that_were_never_given(minirun_both: Program, tmp_path: Path) -> None:
    """no-cgroups: nothing was rewritten since the start, so no daemon-reload is to blame."""
    config = tmp_path / "config.toml"
    config.write_text("[nvidia-container-cli]\nno-cgroups = true\n")
    words = ("run", "-d", "--name", "g", *GPUS, "debian", "sleep", "60")
    done = minirun_both(*words, env={"NVIDIA_CTK_CONFIG_FILE_PATH": str(config)})
    assert done.returncode == 0, done.stderr
    assert read(minirun_both, "/dev/nvidia0") == "Operation not permitted"
    rows = document(minirun_both)["differences"]
    assert len(rows) == 5
    for row in rows:
        assert row["what"].endswith("the cgroup denies rw; no rule was given for it")
        assert "no-cgroups = true" in row["reason"] and UNKNOWN in row["reason"]
        assert "rewritten" not in row["reason"]
        assert "no-cgroups = false" in row["advice"]


def of_a_spec(tmp_path: Path, *rows: dict[str, Any]) -> tuple[str, ...]:
    """Flags for a CDI device with these nodes."""
    device = {"name": "0", "containerEdits": {"deviceNodes": [*rows]}}
    spec = {"cdiVersion": "0.6.0", "kind": "example.com/gpu", "devices": [device]}
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec/x.json").write_text(json.dumps(spec))
    return "--cdi-spec-dir", str(tmp_path / "spec"), "--device", "example.com/gpu=0"


@pytest.mark.parametrize(
    ("user", "mode", "closed"),
    [
        ("1000:1000", 0o660, True), ("1000:105", 0o660, False), ("0:0", 0o660, False),
        ("1000:1000", 0o666, False), ("7:1", 0o060, True), ("1000:105", 0o640, True),
    ],
)  # fmt: skip
def test_a_user_outside_of_a_nodes_group(
    minirun: Program, tmp_path: Path, user: str, mode: int, closed: bool
) -> None:
    """AMD and Intel: /dev/dri/renderD128 belongs to the group render. As the kernel sees it."""
    node = {"path": "/dev/dri/r", "type": "c", "major": 1, "minor": 3, "fileMode": mode,
            "uid": 7, "gid": 105}  # fmt: skip
    start(minirun, *of_a_spec(tmp_path, node), "-u", user, image="busybox")
    shell = minirun("exec", "g", "sh", "-c", "true <>/dev/dri/r")
    assert (shell.returncode != 0) is closed
    rows = [row["what"] for row in document(minirun)["differences"]]
    uid, gid = user.split(":")
    said = f"/dev/dri/r: mode {mode:o}, user 7, group 105; the command is user {uid} of {gid}"
    assert rows == ([said] if closed else [])


def test_nodes_that_were_not_given(minirun: Program, tmp_path: Path) -> None:
    """A CDI file that was made before nvidia-modprobe: every program misses nvidiactl."""
    node = {"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}
    start(minirun, *of_a_spec(tmp_path, node), image="busybox")
    rows = document(minirun)["differences"]
    assert [row["what"] for row in rows] == [
        "/dev/nvidiactl was not given", "/dev/nvidia-uvm was not given",
    ]  # fmt: skip
    assert all("nvidia-modprobe" in row["advice"] for row in rows)


def test_utility_alone(minirun: Program) -> None:
    """It needs no nvidia-uvm; but CUDA programs find no libcuda."""
    start(minirun, "--gpus", 'device=0,"capabilities=utility"', "--gpu-driver=simulated")
    (row,) = document(minirun)["differences"]
    assert row["what"] == "libcuda was not given: capabilities are utility"


LIBCUDA = f"/usr/lib/{NATIVE.triplet}/libcuda.so.1"


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
@pytest.mark.parametrize(("script", "what"), [
    (f"rm {LIBCUDA}", f"{LIBCUDA} is not there"),
    ("mount -o remount,nodev /dev", "on /dev no node can be opened"),
    ("mkdir -p /old; echo x > /old/libcuda.so.1", "/old/libcuda.so.1 is found first"),
    (f"mkdir -p /old; ln -s {LIBCUDA} /old/libcuda.so.1", None),
], ids=["no link", "nodev", "another", "the same"])  # fmt: skip
def test_what_programs_do_not_find(
    minirun: Program, script: str, what: str | None, mode: str
) -> None:
    flags = ("--cap-add=SYS_ADMIN", f"--gpu-mode={mode}", "-e", "LD_LIBRARY_PATH=/none:/old")
    start(minirun, *GPUS, *flags)
    assert document(minirun)["differences"] == []
    done = minirun("exec", "g", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert [row["what"] for row in document(minirun)["differences"]] == ([what] if what else [])


def test_a_library_that_ld_so_cache_does_not_list(minirun: Program, tmp_path: Path) -> None:
    """In an image whose loader has not Debian's folders: there the cache alone leads to it."""
    images.make(tmp_path / "store", "plain")
    minirun.store = str(tmp_path / "store")
    start(minirun, *GPUS, "--gpu-mode=cdi", image="plain")
    assert document(minirun)["differences"] == []
    cache = tmp_path / "ld.so.cache"
    subprocess.run(["/sbin/ldconfig", "-X", "-C", cache], check=True)
    assert minirun("cp", str(cache), "g:/etc/ld.so.cache").returncode == 0
    whats = [row["what"] for row in document(minirun)["differences"]]
    assert f"{LIBCUDA} is not in ld.so.cache" in whats


@pytest.mark.parametrize(("value", "hides"), [
    ("-1", True), ("", True), ("2", True), ("2,0", True), ("none", True), ("0", False),
    ("1,0", False), ("GPU-aaaaaaaa", False),
])  # fmt: skip
def test_cuda_visible_devices(value: str, hides: bool) -> None:
    edits = Edits(gpus=(GivenGpu("0", 0, "GPU-a", "m"), GivenGpu("1", 1, "GPU-b", "m")))
    rows = why.of_variables(edits, {"CUDA_VISIBLE_DEVICES": value}, None)
    said = [f"CUDA_VISIBLE_DEVICES={value}: CUDA programs see no GPU"]
    assert [row.what for row in rows] == (said if hides else [])


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_the_drivers_files_in_proc_are_hidden(minirun: Program, mode: str) -> None:
    start(minirun, *GPUS, f"--gpu-mode={mode}", "--cap-add", "SYS_ADMIN", image="busybox")
    assert document(minirun)["differences"] == []
    minirun("exec", "g", "mount", "-t", "tmpfs", "none", "/proc/driver")
    (row,) = document(minirun)["differences"]
    assert row["what"] == "/proc/driver/nvidia cannot be seen in the container"


@pytest.mark.parametrize("value", ["void", "", "0,void"])
def test_a_variable_that_asks_for_none(minirun: Program, layer: Path, value: str) -> None:
    start(minirun, "-e", f"NVIDIA_VISIBLE_DEVICES={value}", image="busybox")
    said = f"NVIDIA_VISIBLE_DEVICES={value}, which asks for no GPU"
    (row,) = document(minirun)["asked"]
    assert (row["what"], row["counts"]) == (said, False)
    assert f"environment: {said} (does not count)" in minirun("gpu", "why", "g").stdout


def test_a_hook_whose_variable_asks_for_none(minirun: Program, layer: Path) -> None:
    """As docker's runtime "nvidia" adds it to every container."""
    document_ = json.loads(minirun("spec", "-e", "NVIDIA_VISIBLE_DEVICES=void", "busybox").stdout)
    document_["root"]["path"] = str(layer)
    document_["process"] |= {"args": ["sleep", "60"], "terminal": False}
    hook = {"path": "/usr/bin/nvidia-container-runtime-hook", "args": ["x", "prestart"]}
    document_["hooks"] = {"prestart": [hook]}
    (layer.parent / "config.json").write_text(json.dumps(document_))
    nothing = subprocess.DEVNULL
    words = minirun.argv("run", "--detach", "--bundle", str(layer.parent), "g")
    subprocess.run(words, stdin=nothing, stdout=nothing, stderr=nothing, check=True)
    (row,) = document(minirun)["asked"]
    said = "NVIDIA_VISIBLE_DEVICES=void, which asks for no GPU"
    assert (row["what"], row["counts"]) == (said, False)


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
    minirun.store = str(tmp_path / "store")
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
    minirun.store = str(tmp_path / "store")
    done = minirun("run", "-d", "--name", "g", *GPUS, "old", "sleep", "60")
    assert done.returncode == 0, done.stderr
    text = f"minirun: warning: the image has its own /usr/lib64/{name}, which hides the driver's ("
    assert done.stderr.startswith(text) and done.stderr.count("\n") == 1, done.stderr
    (row,) = document(minirun)["differences"]
    assert row["what"] == f"/usr/lib64/{name} hides the driver's library"


@pytest.mark.parametrize("mode", ("legacy", "cdi"))
@pytest.mark.parametrize(
    "loader", ("lib/ld-musl-{}.so.1", "usr/lib/ld-musl-{}.so.1", NATIVE.loader[1:])
)
def test_an_image_of_musl(minirun: Program, tmp_path: Path, loader: str, mode: str) -> None:
    """Its loader is there and glibc's is not; with neither, as in busybox, nothing is said."""
    layer = images.make(tmp_path / "store", "alpine")
    path = layer / loader.format(NATIVE.musl)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("a loader")
    minirun.store = str(tmp_path / "store")
    words = (*GPUS, f"--gpu-mode={mode}")
    done = minirun("run", "-d", "--name", "g", *words, "alpine", "sleep", "60")
    assert done.returncode == 0, done.stderr
    differences = document(minirun)["differences"]
    if "musl" not in loader:
        assert (done.stderr, differences) == ("", [])
        return
    text = "the image is made for musl, the driver's files for glibc: programs cannot load them"
    advice = "take an image with glibc, such as debian or ubuntu"
    assert done.stderr == f"minirun: warning: {text} ({advice})\n"
    assert minirun("explain", done.stderr).stdout.startswith(
        "warning: the image is made for musl: "
    )
    assert [(row["what"], row["advice"]) for row in differences] == [(text, advice)]


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


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_bundle_of_docker_swarm(minirun: Program, layer: Path, mode: str) -> None:
    """Its own variable chooses the GPUs: config.toml names it, NVIDIA's does not count then."""
    bundle, uuid = layer.parent, "GPU-aaaaaaaa-0000-4000-8000-000000000001"
    runtime = f'nvidia-container-runtime = {{mode = "{mode}", runtimes = ["{bundle}/simulated"]}}'
    (bundle / "config.toml").write_text(f'swarm-resource = "DOCKER_RESOURCE_GPU"\n{runtime}\n')
    (bundle / "simulated").write_text(
        f'#!/bin/sh\nexec {minirun.path} --gpu-driver=simulated "$@"\n'
    )
    (bundle / "simulated").chmod(0o755)
    config = minirun.spec("sleep", "60")
    config["process"]["env"] += ["NVIDIA_VISIBLE_DEVICES=0", f"DOCKER_RESOURCE_GPU={uuid}"]
    (bundle / "config.json").write_text(json.dumps(config))
    toml = {"NVIDIA_CTK_CONFIG_FILE_PATH": f"{bundle}/config.toml"}
    (bundle / "bin").mkdir()
    (bundle / "bin/nvidia-container-runtime-hook").symlink_to(minirun.path)
    path = f"{bundle}/bin:{os.environ['PATH']}"
    create = (*minirun.argv()[1:], "create", "--bundle", str(bundle), "g")
    null = subprocess.DEVNULL
    subprocess.run(
        minirun.argv("nvidia-container-runtime", *create), stdin=null, stdout=null, stderr=null,
        env=os.environ | toml | {"MINIRUN_SIM": "count=2", "PATH": path}, check=True,
    )  # fmt: skip
    found = json.loads(minirun("gpu", "why", "--json", "g", env=toml).stdout)
    asked = {row["what"]: row["counts"] for row in found["asked"]}
    assert asked.pop(f"DOCKER_RESOURCE_GPU={uuid}") and not any("VISIBLE" in what for what in asked)
    if mode == "legacy":
        assert found["devices"] == [uuid] and [g["minor"] for g in found["given"]["gpus"]] == [1]
        (note,) = [e for e in minirun.events("g") if e["name"] == "environment"]
        assert next(iter(note["args"].items())) == ("DOCKER_RESOURCE_GPU", uuid)
    else:
        assert any("/dev/nvidia1" in what for what in asked)
    assert "  1 SIMULATED" in minirun("timeline").stdout


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
