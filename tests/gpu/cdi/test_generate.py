"""The same spec and the same config.json as the real tools make of the same host.

What minirun's does not have is listed here by name; in everything else the two are equal, order
and all.
"""

import json
from typing import Any

from gpu.cdi.conftest import recorded
from minirun.gpu.cdi import check, generate, inject, registry
from minirun.gpu.inventory import Inventory

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ABSENT = {
    "/etc/OpenCL/vendors/nvidia.icd",
    "/etc/vulkan/icd.d/nvidia_icd.json",
    "/etc/vulkan/implicit_layer.d/nvidia_layers.json",
    f"{LIBRARIES}/libnvidia-egl-gbm.so.1.1.2",
    f"{LIBRARIES}/libnvidia-egl-wayland.so.1.1.18",
    "/usr/share/nvidia/nvoptix.bin",
    "/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
    "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "/usr/lib/xorg/modules/drivers/nvidia_drv.so",
    "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.550.163.01",
}
"""Files of Vulkan, EGL, OpenCL and X11: minirun's inventory has none of them."""
ABSENT_HOOKS = ("enable-cuda-compat", "update-application-profile")
ABSENT_LINKS = ("/dev/dri/by-path/", "gbm/nvidia-drm_gbm.so")
HOOK = generate.Program(
    "/usr/bin/nvidia-cdi-hook", ("nvidia-cdi-hook",), ("NVIDIA_CTK_DEBUG=false",)
)


def is_there(hook: dict[str, Any]) -> bool:
    words = " ".join(hook["args"])
    return not any(name in words for name in (*ABSENT_HOOKS, *ABSENT_LINKS))


def without_absent(edits: dict[str, Any]) -> dict[str, Any]:
    """The real tool's edits, less what minirun's does not have."""
    kept = {
        "deviceNodes": [n for n in edits.get("deviceNodes", []) if "/dri/" not in n["path"]],
        "mounts": [m for m in edits.get("mounts", []) if m["containerPath"] not in ABSENT],
        "hooks": [hook for hook in edits.get("hooks", []) if is_there(hook)],
        "env": edits.get("env", []),
    }
    return {key: value for key, value in kept.items() if value}


def at_root(document: dict[str, Any], host: Inventory) -> dict[str, Any]:
    """A document as it would be with the driver in the host's own root."""
    text = json.dumps(document).replace(f'"{host.root}/', '"/')
    found = json.loads(text)
    rows = [row["containerEdits"] for row in found["devices"]] + [found["containerEdits"]]
    for node in (node for row in rows for node in row.get("deviceNodes", [])):
        assert node.pop("hostPath") == node["path"]
    return found


def test_the_same_spec(host: Inventory) -> None:
    real = recorded("host4-vendor-v1.20.0")
    ours = at_root(generate.spec(host, HOOK, real["kind"]), host)
    assert ours["containerEdits"] == without_absent(real["containerEdits"])
    assert ours["devices"] == [
        {"name": row["name"], "containerEdits": without_absent(row["containerEdits"])}
        for row in real["devices"]
    ]
    assert (ours["cdiVersion"], ours["kind"]) == (real["cdiVersion"], real["kind"])


def jit(host: Inventory, document: dict[str, Any], *names: str) -> dict[str, Any]:
    """What nvidia-container-runtime does to a config.json, by its own words for the hook."""
    ctk = generate.Program(
        "/usr/bin/nvidia-ctk", ("nvidia-ctk", "hook"), ("NVIDIA_CTK_DEBUG=false",)
    )
    found = registry.Registry()
    found.add(registry.Spec("", 0, check.check(generate.spec(host, ctk))))
    edits = inject.complete(inject.join(found.edits([f"nvidia.com/gpu={n}" for n in names])))
    inject.apply(document, edits)
    return json.loads(json.dumps(document).replace(f'"{host.root}/', '"/'))


def before(visible: str) -> dict[str, Any]:
    """The config.json that the real runtime was given."""
    return {
        "process": {"env": ["PATH=/usr/bin", f"NVIDIA_VISIBLE_DEVICES={visible}"]},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"resources": {"devices": [{"allow": False, "access": "rwm"}]}},
    }


def test_the_same_config_as_jit_cdi(host: Inventory) -> None:
    real = recorded("auto-0,1-v1.20.0")["changed_sections"]
    ours = jit(host, before("0,1"), "0", "1")
    assert ours["process"]["env"] == real["process"]["env"]
    assert ours["mounts"] == [m for m in real["mounts"] if m["destination"] not in ABSENT]
    assert ours["hooks"]["createContainer"] == [
        hook for hook in real["hooks"]["createContainer"] if is_there(hook)
    ]
    nodes = [row for row in real["linux"]["devices"] if "/dri/" not in row["path"]]
    assert ours["linux"]["devices"] == nodes
    rules = [r for r in real["linux"]["resources"]["devices"] if r.get("major") != 226]
    assert ours["linux"]["resources"]["devices"] == rules


def test_the_same_mig_nodes(mig_host: Inventory) -> None:
    real = recorded("auto-mig-all-v1.20.0-mighost")["changed_sections"]["linux"]
    ours = jit(mig_host, before("all"), "all")["linux"]
    assert ours["devices"] == [row for row in real["devices"] if "/dri/" not in row["path"]]
    rules = [rule for rule in real["resources"]["devices"] if rule.get("major") != 226]
    assert ours["resources"]["devices"] == rules


def test_names_of_mig_devices(mig_host: Inventory) -> None:
    names = [row["name"] for row in generate.spec(mig_host, HOOK)["devices"]]
    assert names[:6] == ["0", "1", "2", "3:0", "3:1", "3:2"]
    assert "MIG-bbbbbbbb-0000-4000-8000-000000000000" in names and names[-1] == "all"
    assert "GPU-aaaaaaaa-0000-4000-8000-000000000003" not in names, "a GPU in MIG mode is no device"


def test_a_spec_of_the_simulated_driver_says_so(simulated: Inventory) -> None:
    document = generate.spec(simulated, HOOK)
    assert check.check(document) == document
    assert registry.Spec("", 0, document).simulated
    assert "SIMULATED" in str(document["annotations"])
    nodes = [n for row in document["devices"] for n in row["containerEdits"]["deviceNodes"]]
    assert all((node["type"], node["major"]) == ("c", 195) for node in nodes)


def test_a_host_without_libraries(host: Inventory) -> None:
    edits = generate.spec(host._replace(libraries=()), HOOK)["containerEdits"]
    assert edits["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert [hook["args"][1] for hook in edits["hooks"]] == ["disable-device-node-modification"]
