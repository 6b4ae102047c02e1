"""Containers with GPUs of AMD, Intel and Intel Gaudi, on a faked /sys and with real nodes."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program
from gpu import images
from gpu.cdi.conftest import write
from toolkit.vendors.tree import KFD, RENDER, VIDEO, Host, amd_host, gaudi_host, intel_host

ENXIO, EPERM = "No such device or address", "Operation not permitted"


def root(path: Path) -> tuple[str, str]:
    return "--driver-root", str(path)


@pytest.fixture
def amd(nodes_path: Path) -> tuple[str, ...]:
    return ("--gpu-driver=amd", *root(amd_host(nodes_path / "amd", 4).root))


def run(program: Program, *words: str) -> list[str]:
    done = program("run", "--rm", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def bundle(program: Program, layer: Path, env: list[str]) -> str:
    """A bundle around a root filesystem, as an engine would write it."""
    config = json.loads(program("spec", "busybox", "sh", "-c", "ls /dev/dri; id -G").stdout)
    config["process"]["env"] += env
    config["root"] = {"path": str(layer)}
    folder = layer.parent / "bundle"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_the_cgroup_and_the_groups_of_amd_gpus(minirun_both: Program, amd: tuple[str, ...]) -> None:
    script = (
        "cat /dev/dri/renderD129; cat /dev/kfd; ls /dev/dri; stat -c '%t:%T %a %g' /dev/kfd; id -G;"
        " stat -c '%t:%T %g' /dev/dri/renderD129"
    )
    flags = ("--gpus", "device=1", *amd, "-u", "1000:1000")
    done = minirun_both("run", "--rm", *flags, "busybox", "sh", "-c", script)
    assert [line.rpartition(": ")[2] for line in done.stderr.splitlines()] == [ENXIO, ENXIO]
    assert done.stdout.splitlines() == [
        "card2", "renderD129", f"{KFD:x}:0 660 {RENDER}", f"1000 {VIDEO} {RENDER}",
        f"e2:81 {RENDER}",
    ]  # fmt: skip
    other = "mknod /tmp/r c 226 128 && cat /tmp/r"
    done = minirun_both("run", "--rm", "--gpus", "device=1", *amd, "busybox", "sh", "-c", other)
    assert done.stderr.rpartition(": ")[2].strip() == EPERM


def test_the_rules_that_are_in_force(minirun_both: Program, amd: tuple[str, ...]) -> None:
    minirun_both("run", "-d", "--name", "g", "--gpus", "0", *amd, "busybox", "sleep", "60")
    lines = minirun_both("inspect", "--devices", "g").stdout.splitlines()
    rules = [line.split("#")[0].strip() for line in lines]
    for rule in ("c 226:1 rwm", "c 226:128 rwm", f"c {KFD}:0 rwm"):
        assert rule in [" ".join(line.split()) for line in rules]


def test_the_gpus_are_in_config_json_before_stage_1(minirun: Program, amd: tuple[str, ...]) -> None:
    """As with ROCm's own wrapper: stages 4 and 5 are NVIDIA's."""
    minirun("run", "--name", "a", "--gpus", "0,1", *amd, "busybox", "true")
    events = minirun.events("a")
    assert [e["stage"] for e in events if e["kind"] == "begin"] == [1, 2, 3, 6, 7]
    config = json.loads((minirun.directory("a") / "config.json").read_text())
    paths = {row["path"] for row in config["linux"]["devices"]}
    assert {"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"} <= paths
    edits = json.loads((minirun.directory("a") / "edits.json").read_text())
    assert [gpu["uuid"] for gpu in edits["gpus"]] == ["0xabc0", "0xabc1"]
    assert edits["driver"] == "amdgpu 6.10.5" and not edits["simulated"]


@pytest.mark.parametrize(
    ("vendor", "host", "node"),
    [
        ("amd", amd_host, "/dev/dri/renderD129"), ("intel", intel_host, "/dev/dri/renderD129"),
        ("gaudi", gaudi_host, "/dev/accel/accel1"),
    ],
)  # fmt: skip
def test_a_missing_node_is_an_error(
    minirun: Program, nodes_path: Path, vendor: str, host: Callable[[Path], Host], node: str
) -> None:
    place = host(nodes_path / vendor).root
    Path(f"{place}{node}").unlink()
    flags = ("--gpus", "device=1", f"--gpu-driver={vendor}", *root(place))
    done = minirun("run", "--rm", *flags, "busybox", "true")
    text = f"minirun: {place}{node}: no such device (the driver is loaded, its node is missing"
    assert (done.returncode, done.stderr.startswith(text)) == (125, True), done.stderr


def test_intel_gpus_are_found_by_path_and_without_a_name(minirun: Program, tmp_path: Path) -> None:
    flags = ("--gpus", "device=1", *root(intel_host(tmp_path).root))
    script = "ls /dev/dri/by-path; stat -L -c %T /dev/dri/by-path/*; test ! -e /dev/kfd; id -G"
    names = ["pci-0000:03:00.0-card", "pci-0000:03:00.0-render"]
    lines = run(minirun, *flags, "busybox", "sh", "-c", script)
    assert lines == [*names, "1", "81", f"0 {VIDEO} {RENDER}"]


def test_gaudi_accelerators(minirun: Program, tmp_path: Path) -> None:
    flags = ("--gpus", "all", "--gpu-driver", "gaudi", *root(gaudi_host(tmp_path).root))
    lines = run(minirun, *flags, "busybox", "ls", "/dev/accel", "/dev/infiniband")
    assert lines == [
        "/dev/accel:", "accel0", "accel1", "accel_controlD0", "accel_controlD1", "",
        "/dev/infiniband:", "uverbs0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("device", "nodes"),
    [
        ("amd.com/gpu=0", ["card1", "renderD128"]),
        ("amd.com/gpu=all", ["card1", "card2", "renderD128", "renderD129"]),
    ],
)
def test_cdi_names_without_a_spec(
    minirun: Program, tmp_path: Path, device: str, nodes: list[str]
) -> None:
    flags = ("--device", device, *root(amd_host(tmp_path).root), "-u", "1000")
    lines = run(minirun, *flags, "busybox", "sh", "-c", "ls /dev/dri; stat -c %t /dev/kfd; id -G")
    assert lines == [*nodes, f"{KFD:x}", f"0 {VIDEO} {RENDER}"]


@pytest.mark.parametrize("name", ["0000-03-00-0-0xe20b", "card1", "1"])
def test_cdi_names_of_intels_own(minirun: Program, tmp_path: Path, name: str) -> None:
    flags = ("--device", f"intel.com/gpu={name}", *root(intel_host(tmp_path).root))
    lines = run(minirun, *flags, "busybox", "ls", "/dev/dri", "/dev/dri/by-path")
    assert lines[1:4] == ["by-path", "card1", "renderD129"] and len(lines) == 8


def test_a_spec_file_takes_precedence(minirun: Program, tmp_path: Path) -> None:
    edits = {"name": "0", "containerEdits": {"env": ["OF=file"]}}
    write(tmp_path / "cdi", "amd.json", {"cdiVersion": "0.6.0", "kind": "amd.com/gpu",
                                         "devices": [edits]})  # fmt: skip
    flags = ("--device", "amd.com/gpu=0", *root(amd_host(tmp_path / "amd").root))
    script = "echo $OF; ls /dev/dri 2>/dev/null || echo none"
    flags = (*flags, "--cdi-spec-dir", str(tmp_path / "cdi"))
    assert run(minirun, *flags, "busybox", "sh", "-c", script) == ["file", "none"]


def test_cdi_mode_gives_the_wider_rule_of_the_vendors(
    minirun: Program, amd: tuple[str, ...]
) -> None:
    flags = ("--gpus", "2,3", "--gpu-mode=cdi", *amd)
    minirun("run", "-d", "--name", "c", *flags, "busybox", "sleep", "60")
    config = json.loads((minirun.directory("c") / "config.json").read_text())
    rules = [r for r in config["linux"]["resources"]["devices"] if r.get("major") in (226, KFD)]
    assert {rule["access"] for rule in rules} == {"rwm"}
    assert {rule["minor"] for rule in rules} == {0, 3, 4, 130, 131}
    row = minirun("gpu", "ps").stdout.splitlines()[1].split()
    assert row[:4] == ["2", "dedicated", "c", "0xabc2"]


@pytest.mark.parametrize(
    ("env", "nodes"),
    [
        ("AMD_VISIBLE_DEVICES=1-2", ["card2", "card3", "renderD129", "renderD130"]),
        ("AMD_VISIBLE_DEVICES=0xABC3", ["card4", "renderD131"]),
        ("AMD_VISIBLE_DEVICES=none", []),
    ],
)
def test_the_environment_of_a_bundle(
    minirun: Program, tmp_path: Path, layer: Path, env: str, nodes: list[str]
) -> None:
    place = amd_host(tmp_path / "amd", 4).root
    folder = bundle(minirun, layer, [env])
    flags = ("--gpu-driver=amd", *root(place))
    done = minirun(*flags, "run", "--bundle", folder, f"b-{os.getpid()}")
    assert done.returncode == 0, done.stderr
    groups = ["0", str(VIDEO), str(RENDER)] if nodes else ["0"]
    assert done.stdout.split() == nodes + groups


@pytest.mark.parametrize(
    ("flags", "env", "by", "what"),
    [
        (["--gpu-driver=amd"], ["AMD_VISIBLE_DEVICES=1"],
         "environment in config.json, which --gpu-driver=amd obeys", "AMD_VISIBLE_DEVICES=1"),
        (["--gpu-driver=amd", "--gpus=2"], ["AMD_VISIBLE_DEVICES=1"], "engine's flag", "--gpus 2"),
    ],
)  # fmt: skip
def test_who_asked_for_a_bundles_gpus(
    minirun: Program, tmp_path: Path, layer: Path, flags: list[str], env: list[str], by: str,
    what: str,
) -> None:  # fmt: skip
    place = amd_host(tmp_path / "amd", 4).root
    folder, name = bundle(minirun, layer, env), f"w-{os.getpid()}"
    argv = minirun.argv(*flags, *root(place), "create", "--bundle", folder, name)
    null = subprocess.DEVNULL
    subprocess.run(argv, check=True, stdin=null, stdout=null)
    found = json.loads(minirun("gpu", "why", "--json", name).stdout)
    assert [(row["by"], row["what"]) for row in found["asked"]] == [(by, what)]
    assert [gpu["index"] for gpu in found["given"]["gpus"]] == [what[-1]]


@pytest.mark.parametrize(
    ("flags", "what"),
    [(("--gpus", "1"), "--gpus 1"), (("-e", "AMD_VISIBLE_DEVICES=1"), "-e AMD_VISIBLE_DEVICES=1")],
)
def test_who_asked_for_the_gpus_of_a_run(
    minirun: Program, amd: tuple[str, ...], flags: tuple[str, ...], what: str
) -> None:
    minirun("run", "-d", "--name", "w", *flags, *amd, "busybox", "sleep", "60")
    found = json.loads(minirun("gpu", "why", "--json", "w").stdout)
    assert [(row["by"], row["what"]) for row in found["asked"]] == [("command line", what)]
    assert [gpu["index"] for gpu in found["given"]["gpus"]] == ["1"]


def test_gaudi_in_the_environment_of_a_bundle(
    minirun: Program, tmp_path: Path, layer: Path
) -> None:
    place = gaudi_host(tmp_path / "gaudi").root
    folder = bundle(minirun, layer, ["HABANA_VISIBLE_DEVICES=1"])
    (tmp_path / "bundle/config.json").write_text(
        (tmp_path / "bundle/config.json").read_text().replace("/dev/dri", "/dev/accel")
    )
    flags = ("--gpu-driver=gaudi", *root(place))
    done = minirun("run", *flags, "--bundle", folder, f"h-{os.getpid()}")
    assert done.stdout.split() == ["accel1", "accel_controlD1", "0"]


def test_the_users_word_counts_and_the_images_does_not(
    minirun: Program, amd: tuple[str, ...], nodes_path: Path, tmp_path: Path
) -> None:
    script = "ls /dev/dri 2>/dev/null || echo none"
    place = root(nodes_path / "amd")
    (tmp_path / "env").write_text("AMD_VISIBLE_DEVICES=3\n")
    for flags in (("-e", "AMD_VISIBLE_DEVICES=3"), ("--env-file", f"{tmp_path}/env")):
        found = run(minirun, *flags, *place, "busybox", "sh", "-c", script)
        assert found == ["card4", "renderD131"]
    images.make(tmp_path / "store", "greedy", ("AMD_VISIBLE_DEVICES=all",))
    program = minirun.at(tmp_path / "store")
    assert run(program, *place, "greedy", "sh", "-c", script) == ["none"]


def test_a_bundle_asks_where_there_is_no_driver(
    minirun: Program, tmp_path: Path, layer: Path
) -> None:
    """AMD's own runtime fails here; under a general one the container runs, and it is said."""
    folder = bundle(minirun, layer, ["AMD_VISIBLE_DEVICES=all"])
    flags = ("--gpu-driver=amd", *root(tmp_path))
    done = minirun(*flags, "run", "--bundle", folder, f"n-{os.getpid()}")
    assert done.stdout == "0\n"
    text = "AMD_VISIBLE_DEVICES asks for gpus, and their driver is not loaded (the container"
    text = f"minirun: warning: config.json: {text}"
    assert done.stderr.startswith(text)


def test_the_list_and_who_uses_what(minirun: Program, amd: tuple[str, ...]) -> None:
    lines = minirun("gpu", "list", *amd[1:]).stdout.splitlines()
    assert lines[0] == "driver amdgpu 6.10.5 (amd.com/gpu)"
    assert lines[1].split() == ["GPU", "BUS", "UUID", "MODEL", "NODES"]
    assert lines[2].split()[:3] == ["0", "0000:0c:00.0", "0xabc0"]
    assert lines[2].endswith("/dev/dri/card1 /dev/dri/renderD128") and len(lines) == 6
    minirun("run", "-d", "--name", "x", "--gpus", "0,exclusive", *amd, "busybox", "sleep", "60")
    done = minirun("run", "--rm", "--gpus", "0", *amd, "busybox", "true")
    assert "gpu 0 is exclusive to container 'x'" in done.stderr
    lines = run(minirun, "--gpus", "count=1", *amd, "busybox", "ls", "/dev/dri")
    assert lines == ["card2", "renderD129"]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--gpus", "device=4"), "device error: 4: unknown device (this host has 0, 1, 2, 3)"),
        (("--gpus", "count=5"), "--gpus count=5: more than there are (this host has 4)"),
        (("--device", "amd.com/gpu=7"), "unresolvable CDI devices amd.com/gpu=7 (there is amd"),
        (("--device", "intel.com/gpu=0"), "no intel gpu driver is loaded"),
        (("--gpus", "0", "--gpu-mode", "hook"), "--gpu-mode hook: amd has no such hook"),
    ],
)
def test_one_line_and_nothing_stays(
    minirun: Program, amd: tuple[str, ...], flags: tuple[str, ...], text: str
) -> None:
    done = minirun("run", "--rm", *flags, *amd, "busybox", "true")
    assert done.returncode == 125
    assert done.stderr.startswith(f"minirun: {text}")
    assert done.stderr.count("\n") == 1
    assert not list(minirun.root.glob("[!.]*"))


def test_a_missing_node_is_told_and_nothing_stays(
    minirun: Program, amd: tuple[str, ...], nodes_path: Path
) -> None:
    (nodes_path / "amd/dev/dri/renderD128").unlink()
    done = minirun("run", "--rm", "--gpus", "0", *amd, "busybox", "true")
    assert done.returncode == 125
    assert "/dev/dri/renderD128: no such device" in done.stderr
    assert "udevadm trigger" in done.stderr and done.stderr.count("\n") == 1
    assert not list(minirun.root.glob("[!.]*"))


def test_in_a_user_namespace_the_groups_have_no_number(command: str, amd: tuple[str, ...]) -> None:
    flags = ("--gpus", "0", *amd, "--uidmap", "0:100000:65536")
    with tempfile.TemporaryDirectory() as place:  # pytest's tmp_path is root's alone
        os.chmod(place, 0o711)
        program = Program(command, Path(place) / "containers")
        done = program("run", "--rm", *flags, "busybox", "sh", "-c", "ls /dev/dri; id -G")
        program.clean()
    assert done.stdout.split() == ["card1", "renderD128", "0"], done.stderr
