"""The spec of a host: names, hooks, versions. Whole specs: ../test_golden_toolkit.py."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpu.cdi.conftest import recorded
from minirun.core.errors import GPUError
from minirun.core.kernel.architecture import NATIVE
from minirun.gpu.cdi import check, registry
from minirun.gpu.edits import Edits
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.shared.find import Finder, matches
from minirun.gpu.nvidia.specs import generate, modes
from minirun.gpu.nvidia.specs.recipe import HOOKS, CdiRecipe, HookProgram

HOOK = HookProgram("/usr/bin/nvidia-cdi-hook", ("nvidia-cdi-hook",))
RECIPE = CdiRecipe(HOOK)


def at_root(document: dict[str, Any], host: Inventory) -> dict[str, Any]:
    """A document as it would be with the driver in the host's own root."""
    found = json.loads(json.dumps(document).replace(f'"{host.root}/', '"/'))
    rows = [row["containerEdits"] for row in found["devices"]] + [found["containerEdits"]]
    for node in (node for row in rows for node in row.get("deviceNodes", [])):
        assert node.pop("hostPath") == node["path"]
    return found


def hooks(edits: dict[str, Any]) -> list[str]:
    return [row["args"][1] for row in edits.get("hooks", [])]


def test_a_driver_root_is_taken_off_what_the_container_sees(host: Inventory) -> None:
    text = json.dumps(recorded("host4-vendor-v1.20.0")["containerEdits"])
    real = json.loads(text.replace("x86_64-linux-gnu", NATIVE.triplet))
    made = generate.spec(host, RECIPE)
    ours = at_root(made, host)["containerEdits"]
    assert made["cdiVersion"] == "0.5.0"
    files = [row for row in real["mounts"] if not row["hostPath"].endswith("socket")]
    assert (ours["mounts"], ours["env"]) == (files, real["env"])
    assert ours["hooks"] == real["hooks"]
    assert ours["deviceNodes"] == real["deviceNodes"]


def test_names_of_mig_devices(mig_host: Inventory) -> None:
    names = [row["name"] for row in generate.spec(mig_host, RECIPE)["devices"]]
    assert names[:6] == ["0", "1", "2", "3:0", "3:1", "3:2"]
    assert "MIG-bbbbbbbb-0000-4000-8000-000000000000" in names and names[-1] == "all"
    assert "GPU-aaaaaaaa-0000-4000-8000-000000000003" not in names, "a GPU in MIG mode is no device"
    typed = generate.spec(mig_host, RECIPE._replace(names=("type-index",)))
    names = [row["name"] for row in typed["devices"]]
    assert names == ["all", "gpu0", "gpu1", "gpu2", "mig3:0", "mig3:1", "mig3:2"]
    nodes = [node["path"] for node in typed["devices"][0]["containerEdits"]["deviceNodes"]]
    assert nodes.count("/dev/nvidia3") == 1 and len(nodes) == 4 + 6


def test_mig_devices_keep_the_index_of_nvml(mig_host: Inventory) -> None:
    *others, gpu = mig_host.gpus
    holed = gpu._replace(migs=(gpu.migs[0], gpu.migs[2]))
    made = generate.spec(mig_host._replace(gpus=(*others, holed)), RECIPE)
    assert [row["name"] for row in made["devices"]][3:5] == ["3:0", "3:2"]


def test_a_gpu_that_is_split_into_nothing_is_no_device(mig_host: Inventory) -> None:
    *others, gpu = mig_host.gpus
    empty = mig_host._replace(gpus=(*others, gpu._replace(migs=())))
    names = [row["name"] for row in generate.spec(empty, RECIPE)["devices"]]
    assert names[:3] == ["0", "1", "2"] and gpu.uuid not in names


@pytest.mark.parametrize("name", ["2", "GPU-aaaaaaaa-0000-4000-8000-000000000002"])
def test_one_device(host: Inventory, name: str) -> None:
    made = generate.spec(host, RECIPE._replace(devices=(name,), every=False))
    names = [row["name"] for row in made["devices"]]
    assert names == ["2", "GPU-aaaaaaaa-0000-4000-8000-000000000002"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("9", "failed to get device handle from index: Invalid Argument"),
        ("9:0", "failed to get parent device handle: Invalid Argument"),
        ("3:9", "failed to get MIG handle by index: Not Found"),
        ("GPU-x", "failed to get device handle from UUID: Not Found"),
        ("x", 'identifier is not a valid UUID or index: "x"'),
    ],
)
def test_a_device_that_there_is_not(mig_host: Inventory, name: str, what: str) -> None:
    with pytest.raises(GPUError) as caught:
        generate.spec(mig_host, RECIPE._replace(devices=(name,)))
    assert str(caught.value).endswith(what)


def test_hooks_can_be_left_out_and_made_after_all(mig_host: Inventory) -> None:
    assert not hooks(generate.spec(mig_host, RECIPE._replace(without=HOOKS))["containerEdits"])
    made = generate.spec(mig_host, RECIPE._replace(without=("update-ldcache",)))
    assert "update-ldcache" not in hooks(made["containerEdits"])
    (device,) = [row for row in made["devices"] if row["name"] == "3:0"]
    (hook,) = device["containerEdits"]["hooks"]
    assert hook["args"][1:] == ["chmod", "--mode", "755", "--path", "/dev/nvidia-caps"]


def test_ldconfig_of_the_host_is_named_where_it_is_asked_for(host: Inventory) -> None:
    edits = generate.spec(host, RECIPE._replace(ldconfig="/sbin/ldconfig.real"))["containerEdits"]
    (hook,) = [row["args"] for row in edits["hooks"] if "update-ldcache" in row["args"]]
    assert hook[2:4] == ["--ldconfig-path", "/sbin/ldconfig.real"]


def test_groups_of_nodes_that_not_everybody_may_use(host: Inventory) -> None:
    os.chmod(f"{host.root}/dev/nvidia0", 0o660)
    os.chown(f"{host.root}/dev/nvidia0", 0, 44)
    made = generate.spec(host, RECIPE)
    assert (made["devices"][0]["containerEdits"]["additionalGids"], made["cdiVersion"]) == (
        [44],
        "0.7.0",
    )
    made = generate.spec(host, RECIPE._replace(gids=False))
    assert "additionalGids" not in json.dumps(made) and made["cdiVersion"] == "0.5.0"


def test_a_spec_of_the_simulated_driver_says_so(simulated: Inventory) -> None:
    document = generate.spec(simulated, RECIPE)
    assert check.check(document) == document
    assert registry.CdiSpec("", 0, document).simulated
    assert "MINIRUN_GPUS=SIMULATED" in document["containerEdits"]["env"]
    assert document["cdiVersion"] == "0.5.0"  # which podman 4.3 can read
    nodes = [n for row in document["devices"] for n in row["containerEdits"]["deviceNodes"]]
    assert all((node["type"], node["major"]) == ("c", 195) for node in nodes)


def test_libraries_of_another_release_are_told(host: Inventory) -> None:
    with pytest.raises(GPUError) as caught:
        generate.spec(host._replace(driver="560.35.03"), RECIPE)
    assert "libcuda.so.560.35.03: not found" in str(caught.value)
    assert "libcuda.so.550.163.01: driver and libraries are of different" in caught.value.hint


def test_imex_channels(tmp_path: Path) -> None:
    folder = tmp_path / "dev/nvidia-caps-imex-channels"
    folder.mkdir(parents=True)
    for number in (0, 2):
        os.mknod(folder / f"channel{number}", 0o020666, os.makedev(507, number))
        (folder / f"channel{number}").chmod(0o666)
    finder = Finder(str(tmp_path))
    made = modes.spec("imex", None, RECIPE, finder)
    assert [row["name"] for row in made["devices"]] == ["0", "2", "all"]
    nodes = [node for row in made["devices"] for node in row["containerEdits"]["deviceNodes"]]
    assert [{*node} for node in nodes] == [{"path", "hostPath"}] * 4, "the injection adds a mode"
    assert list(modes.channels(finder, ("channel2",))) == ["2"]
    with pytest.raises(GPUError):
        modes.channels(finder, ("x",))


def test_an_absolute_link_in_a_driver_root_means_that_root(tmp_path: Path) -> None:
    root = tmp_path / "driver"
    for folder in ("usr/lib64", "opt"):
        (root / folder).mkdir(parents=True)
    (root / "opt/libx.so.1.2").touch()
    (root / "usr/lib64/libx.so.1.2").symlink_to("/opt/libx.so.1.2")
    (root / "usr/lib64/liby.so.1.2").symlink_to("/etc/passwd")  # which is not in there
    (tmp_path / "link").symlink_to(root)
    for way in ("driver", "link"):
        finder = Finder(str(tmp_path / way))
        assert finder.libraries("libx.so.*.*") == ["/opt/libx.so.1.2"]
        assert finder.libraries("liby.so.*.*") == []


def test_gds_brings_its_files_only_with_its_nodes(tmp_path: Path) -> None:
    for folder in ("dev", "etc", "run/udev"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/cufile.json").write_text("{}")
    finder = Finder(str(tmp_path))
    assert modes.companion_edits("gds", finder) == Edits()
    os.mknod(tmp_path / "dev/nvidia-fs0", 0o020666, os.makedev(240, 0))
    edits = modes.companion_edits("gds", finder)
    assert [mount.path for mount in edits.mounts] == ["/run/udev", "/etc/cufile.json"]


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("libx.so.1.2", "libx.so.*.*", True), ("libx.so.1", "libx.so.*.*", False),
        ("nvidia0", "nvidia*", True), ("gsp_a.bin", "gsp*.bin", True), ("a", "b", False),
        ("gsp.txt", "gsp*.bin", False), ("x", "*", True),
    ],
)  # fmt: skip
def test_patterns(name: str, pattern: str, fits: bool) -> None:
    assert matches(name, pattern) == fits
