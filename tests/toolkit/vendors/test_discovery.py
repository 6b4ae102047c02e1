"""What sysfs says of GPUs that are not NVIDIA's, by the rules of each vendor's own tools."""

from pathlib import Path

import pytest

from minirun.core.errors import GPUError, UsageError
from minirun.gpu import drivers
from minirun.gpu.steps import DeviceNode, Link
from minirun.gpu.vendors import discovery
from minirun.gpu.vendors.discovery import Cards
from minirun.gpu.vendors.signs import KINDS
from toolkit.vendors.tree import DRM, KFD, RENDER, VIDEO, Host, amd_host, gaudi_host, intel_host


def paths(found: Cards, number: int) -> list[str]:
    return [node.path for node in found.cards[number].nodes]


def test_amd(tmp_path: Path) -> None:
    found = discovery.find_cards("amd", str(amd_host(tmp_path).root))
    assert (found.driver, found.kind) == ("amdgpu 6.10.5", "amd.com/gpu")
    assert [(c.number, c.uuid, c.bus_id) for c in found.cards] == [
        (0, "0xabc0", "0000:0c:00.0"), (1, "0xabc1", "0000:0d:00.0"),
    ]  # fmt: skip
    assert paths(found, 0) == ["/dev/dri/card1", "/dev/dri/renderD128"]
    render = found.cards[1].nodes[1]
    source = f"{tmp_path}/dev/dri/renderD129"
    assert render == DeviceNode(
        "/dev/dri/renderD129", "c", DRM, 129, 0o660, 0, RENDER, host_path=source
    )
    assert [(n.path, n.major, n.minor) for n in found.common] == [("/dev/kfd", KFD, 0)]


def test_amd_partitions_lie_next_to_their_gpu(tmp_path: Path) -> None:
    """A GPU and its partitions have one unique id; the partitions are platform devices."""
    host = Host(tmp_path)
    host.amdgpu()
    host.amd("0000:0c:00.0", 1, 128, 7)
    host.amd("0000:0d:00.0", 2, 129, 8)
    host.amd("amdgpu_xcp_1", 3, 131, 7)
    host.amd("amdgpu_xcp_0", 4, 130, 7)
    found = discovery.find_cards("amd", str(tmp_path))
    assert [paths(found, n)[1][-3:] for n in range(4)] == ["128", "130", "131", "129"]
    assert [card.uuid for card in found.cards] == ["0x7", "0x7", "0x7", "0x8"]
    assert [card.number for card in discovery.choose(found, ("0x7",))] == [0, 1, 2]


def test_amd_leaves_out_what_kfd_does_not_know(tmp_path: Path) -> None:
    host = amd_host(tmp_path, 1)
    host.amd("0000:01:00.0", 0, 140, kfd=False)
    found = discovery.find_cards("amd", str(tmp_path))
    assert [card.bus_id for card in found.cards] == ["0000:0c:00.0"]


def test_intel(tmp_path: Path) -> None:
    found = discovery.find_cards("intel", str(intel_host(tmp_path).root))
    assert found.driver == "i915 and xe"
    assert [card.uuid for card in found.cards] == ["0000-00-02-0-0x4680", "0000-03-00-0-0xe20b"]
    assert paths(found, 1) == ["/dev/dri/card1", "/dev/dri/renderD129"]
    assert found.cards[1].links == (
        Link("../card1", "/dev/dri/by-path/pci-0000:03:00.0-card"),
        Link("../renderD129", "/dev/dri/by-path/pci-0000:03:00.0-render"),
    )


def test_gaudi(tmp_path: Path) -> None:
    found = discovery.find_cards("gaudi", str(gaudi_host(tmp_path).root))
    assert [(c.number, c.model, c.bus_id) for c in found.cards] == [
        (0, "Gaudi 2", "0000:0f:00.0"), (1, "Gaudi 2", "0000:17:00.0"),
    ]  # fmt: skip
    verbs = ["/dev/infiniband/uverbs0"]
    assert paths(found, 0) == ["/dev/accel/accel0", "/dev/accel/accel_controlD0", *verbs]
    assert paths(found, 1) == ["/dev/accel/accel1", "/dev/accel/accel_controlD1"]


@pytest.mark.parametrize("vendor", KINDS)
def test_without_a_driver(vendor: str, tmp_path: Path) -> None:
    with pytest.raises(GPUError, match="driver is loaded") as caught:
        discovery.find_cards(vendor, str(tmp_path))
    assert "modprobe" in caught.value.hint
    assert discovery.present_vendors(str(tmp_path)) == []


@pytest.mark.parametrize("vendor", KINDS)
def test_a_driver_without_a_card(vendor: str, tmp_path: Path) -> None:
    for folder in ("module/amdgpu/drivers", "bus/pci/drivers/xe", "bus/pci/drivers/habanalabs"):
        (tmp_path / "sys" / folder).mkdir(parents=True)
    found = discovery.find_cards(vendor, str(tmp_path))
    assert found.cards == ()
    with pytest.raises(GPUError, match="device error: 0: unknown device") as caught:
        discovery.choose(found, ("0",))
    assert caught.value.hint == f"this host has no {vendor} gpu"
    assert drivers.which_driver("auto", str(tmp_path)) == "simulated"


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ("all", [0, 1, 2, 3]), ("ALL", [0, 1, 2, 3]), ("0", [0]), ("2,0", [0, 2]),
        ("1-3", [1, 2, 3]), ("0xabc2", [2]), ("0XABC2", [2]), ("abc2", [2]),
        ("0000:0d:00.0", [1]), ("", []), ("none", []), ("void", []), (" 1 ,1", [1]),
    ],
)  # fmt: skip
def test_the_ways_to_name_cards(tmp_path: Path, asked: str, numbers: list[int]) -> None:
    found = discovery.find_cards("amd", str(amd_host(tmp_path, 4).root))
    chosen = discovery.choose(found, tuple(asked.split(",")))
    assert [card.number for card in chosen] == numbers


@pytest.mark.parametrize("asked", ["4", "2-4", "3-1", "-1", "0xdead", "card1", "gpu", "1-"])
def test_a_name_of_no_card(tmp_path: Path, asked: str) -> None:
    found = discovery.find_cards("amd", str(amd_host(tmp_path, 4).root))
    with pytest.raises(GPUError, match=f"device error: {asked}: unknown device") as caught:
        discovery.choose(found, (asked,))
    assert caught.value.hint == "this host has 0, 1, 2, 3"


def test_the_edits(tmp_path: Path) -> None:
    found = discovery.find_cards("amd", str(amd_host(tmp_path).root))
    edits = discovery.plan(found, ("1",))
    assert [str(rule) for rule in edits.device_rules()] == [
        "c 226:2 rw", "c 226:129 rw", f"c {KFD}:0 rw",
    ]  # fmt: skip
    assert edits.groups == (VIDEO, RENDER)
    assert [(g.name, g.uuid) for g in edits.gpus] == [("1", "0xabc1")]
    assert discovery.plan(found, ()).steps == (), "kfd alone is no use"


def test_which_driver(tmp_path: Path) -> None:
    assert drivers.which_driver("auto", str(amd_host(tmp_path / "a").root)) == "amd"
    assert drivers.which_driver("auto", str(intel_host(tmp_path / "i").root)) == "intel"
    assert drivers.which_driver("auto", str(gaudi_host(tmp_path / "g").root)) == "gaudi"
    host = amd_host(tmp_path / "both")
    host.intel("i915", "0000:00:02.0", 0, 140, "0x4680")
    with pytest.raises(UsageError, match="gpus of amd and intel"):
        drivers.which_driver("auto", str(host.root))


def test_a_node_that_udev_did_not_make(tmp_path: Path) -> None:
    """sysfs alone knows its number: it can be listed, and binding it says what is missing."""
    host = amd_host(tmp_path, 1)
    (tmp_path / "dev/dri/renderD128").unlink()
    found = discovery.find_cards("amd", str(host.root))
    assert [(n.major, n.minor) for n in found.cards[0].nodes] == [(DRM, 1), (DRM, 128)]
    (tmp_path / "sys/module/amdgpu/drivers/pci:amdgpu/0000:0c:00.0/drm/renderD128/dev").unlink()
    with pytest.raises(GPUError, match="renderD128: no such device"):
        discovery.find_cards("amd", str(host.root))


def test_the_cdi_spec(tmp_path: Path) -> None:
    from minirun.gpu.cdi.check import check

    spec = check(discovery.spec(discovery.find_cards("intel", str(intel_host(tmp_path).root))))
    assert spec["kind"] == "intel.com/gpu"
    assert [device["name"] for device in spec["devices"]] == [
        "0", "0000-00-02-0-0x4680", "card0", "1", "0000-03-00-0-0xe20b", "card1", "all",
    ]  # fmt: skip
    edits = spec["devices"][0]["containerEdits"]
    assert edits["deviceNodes"][0] == {
        "path": "/dev/dri/card0", "hostPath": f"{tmp_path}/dev/dri/card0", "type": "c",
        "major": DRM, "fileMode": 0o660, "permissions": "rwm", "uid": 0, "gid": VIDEO,
    }  # fmt: skip
    assert edits["additionalGids"] == [VIDEO, RENDER]
    assert "mounts" not in edits
    assert edits["deviceNodes"][2] == edits["deviceNodes"][0] | {
        "path": "/dev/dri/by-path/pci-0000:00:02.0-card"
    }
    assert len(spec["devices"][-1]["containerEdits"]["deviceNodes"]) == 8
