"""Stage 4: the argument lists of the real nvidia-container-runtime-hook, case by case."""

import json
import tomllib
from typing import Any

import pytest

from gpu.sandbox import DATA
from minirun.errors import GPUError
from minirun.gpu import cli_args, hook
from minirun.gpu.environment import DEFAULTS, Settings, environment_request

CASES = json.loads((DATA / "hook-env-to-cli-v1.17.2.json").read_text())
ELSEWHERE = {"config-bad-supported": "an error of config.toml's reader, not of the hook"}
OWN_WORDS = {"mode-cdi": "the real text names docker's flags"}
FIELDS = {
    "supported-driver-capabilities": "supported_capabilities",
    "disable-require": "disable_require",
    "accept-nvidia-visible-devices-envvar-when-unprivileged": "accept_env_unprivileged",
    "accept-nvidia-visible-devices-as-volume-mounts": "accept_volume_mounts",
    "swarm-resource": "swarm_resources",
}


def settings(case: dict[str, Any]) -> Settings:
    """The case's lines of config.toml as Settings."""
    lines = tomllib.loads(case.get("config", ""))
    values: dict[str, Any] = {FIELDS[key]: lines[key] for key in lines if key in FIELDS}
    for key, value in lines.get("cli", {}).items():
        if key != "environment":  # of nvidia-container-cli's process, not of its arguments
            values[key.replace("-", "_")] = value
    values |= lines.get("rt", {})
    for key in ("supported_capabilities", "swarm_resources"):
        if key in values:
            values[key] = tuple(values[key].split(","))
    if "-debug" in case.get("hookflags", []):
        values["debug"] = "/dev/stderr"
    return DEFAULTS._replace(**values)


def config(env: dict[str, str], caps: list[str], mounts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "root": {"path": "rootfs"},
        "process": {
            "env": [f"{key}={value}" for key, value in env.items()],
            "capabilities": {"bounding": caps},
        },
        "mounts": mounts,
    }


@pytest.mark.parametrize("name", [name for name in CASES if name not in ELSEWHERE])
def test_same_argument_list(name: str) -> None:
    case = CASES[name]
    document = config(case["container_env"], case.get("caps", []), case.get("mounts", []))
    state = {"pid": 4242, "bundle": "/bundle"}
    if case["rc"] == 0:
        assert hook.command_line(document, state, settings(case)) == case["cli_args"]
        return
    with pytest.raises(GPUError) as caught:
        hook.command_line(document, state, settings(case))
    if name not in OWN_WORDS:
        assert str(caught.value) == case["stderr"]


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["cli_args"]])
def test_stage_5_reads_what_stage_4_wrote(name: str) -> None:
    case = CASES[name]
    request = cli_args.parse(case["cli_args"])
    assert (request.pid, request.rootfs) == (4242, "/bundle/rootfs")
    again = hook.arguments(
        request,
        DEFAULTS._replace(
            root=request.root, load_kmods=request.load_kmods, no_pivot=request.no_pivot,
            debug=request.debug, ldcache=request.ldcache, user=request.user,
            no_cgroups=request.no_cgroups,
        ),
    )  # fmt: skip
    assert again == [word.replace("=,", "=") for word in case["cli_args"]]


@pytest.mark.parametrize(
    ("visible", "devices"),
    (
        (None, None), ("", None), ("void", None), ("0,void", None), (" ", None), (",,", None),
        ("none", ()), ("0,none", ()), ("none,all", ()), ("all,none", ("all",)), ("0,all", ("all",)),
        (" 0 , 1 ", ("0", "1")), (",,0,,", ("0",)), ("GPU-x", ("GPU-x",)), ("0:1", ("0:1",)),
    ),
)  # fmt: skip
def test_visible_devices(visible: str | None, devices: tuple[str, ...] | None) -> None:
    env = {} if visible is None else {"NVIDIA_VISIBLE_DEVICES": visible}
    request = environment_request(env)
    assert (request.devices if request else None) == devices


@pytest.mark.parametrize("name", ("nvidia.com/gpu=0", "0,vendor.com/gpu=all"))
def test_the_name_of_a_cdi_device_is_refused(name: str) -> None:
    with pytest.raises(GPUError, match="is the name of a cdi device"):
        environment_request({"NVIDIA_VISIBLE_DEVICES": name})


@pytest.mark.parametrize(("value", "checked"), (("1", False), ("true", False), ("yes", True)))
def test_disable_require_is_a_go_bool(value: str, checked: bool) -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_REQUIRE_CUDA": "cuda>=99"}
    request = environment_request(env | {"NVIDIA_DISABLE_REQUIRE": value})
    assert request is not None and bool(request.requirements) == checked


def test_jetpack_requirements_are_ignored() -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_REQUIRE_JETPACK": "x", "CUDA_VERSION": ""}
    request = environment_request(env)
    assert request is not None and request.requirements == ()


@pytest.mark.parametrize("value", ("none", "UTILITY", "compute,foo"))
def test_an_unknown_capability_is_an_error(value: str) -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_DRIVER_CAPABILITIES": value}
    with pytest.raises(GPUError, match=f"unsupported capabilities found in '{value}'"):
        environment_request(env)


def test_what_the_image_puts_into_the_environment_goes_nowhere_else() -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "LD_PRELOAD": "/evil.so", "PYTHONPATH": "/evil"}
    argv = hook.command_line(config(env, [], []), {"pid": 1, "bundle": "/b"})
    assert argv is not None and not any("evil" in word for word in argv)


def test_a_bad_cuda_version_of_a_legacy_image() -> None:
    with pytest.raises(GPUError, match="CUDA_VERSION=latest"):
        environment_request({"CUDA_VERSION": "latest"})
