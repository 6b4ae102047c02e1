"""Stage 4: the argument lists of the real nvidia-container-runtime-hook, case by case."""

import json
import time
from typing import Any

import pytest

from gpu.nvidia.toolkit_cases import of_this_host, toml
from gpu.recorded import DATA
from minirun.core.errors import GPUError
from minirun.gpu.nvidia import hook
from minirun.gpu.nvidia.shared import config as toolkit_config
from minirun.gpu.nvidia.shared import environment
from minirun.gpu.nvidia.shared.environment import DEFAULTS, HookSettings, environment_request

CASES = json.loads((DATA / "hook-env-to-cli-v1.17.2.json").read_text())
"""The same cases through the whole program: tests/gpu/nvidia/hook/test_prestart.py."""
OF_THE_PROGRAM = ("config-bad-supported", "mode-cdi")
"""Errors of config.toml and of the mode, not of the argument list."""


def settings(case: dict[str, Any]) -> HookSettings:
    """The case's lines of config.toml as the hook's settings."""
    found = toolkit_config.parse(toml(case), "config.toml").hook
    options = found.options._replace(debug="/dev/stderr")
    return found._replace(options=options) if "-debug" in case.get("hookflags", []) else found


def config(env: dict[str, str], caps: list[str], mounts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "root": {"path": "rootfs"},
        "process": {
            "env": [f"{key}={value}" for key, value in env.items()],
            "capabilities": {"bounding": caps},
        },
        "mounts": mounts,
    }


@pytest.mark.parametrize("name", [name for name in CASES if name not in OF_THE_PROGRAM])
def test_same_argument_list(name: str) -> None:
    case = CASES[name]
    document = config(case["container_env"], case.get("caps", []), case.get("mounts", []))
    state = {"pid": 4242, "bundle": "/bundle"}
    if case["rc"] == 0:
        assert hook.command_line(document, state, settings(case)) == of_this_host(case["cli_args"])
        return
    with pytest.raises(GPUError) as caught:
        hook.command_line(document, state, settings(case))
    assert str(caught.value) == case["stderr"]


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["cli_args"]])
def test_stage_5_reads_what_stage_4_wrote(name: str) -> None:
    case = CASES[name]
    request = hook.read(case["cli_args"])
    assert (request.pid, request.rootfs) == (4242, "/bundle/rootfs")
    words = [word.replace("=,", "=") for word in case["cli_args"]]
    assert hook.arguments(request) == words


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


@pytest.mark.parametrize("visible", ("none", "0", "all", "nvidia.com/gpu=0"))
def test_the_environment_of_the_unprivileged_can_be_ignored(visible: str) -> None:
    """`none` asks for the driver's files: that is a request as any other."""
    asked = DEFAULTS._replace(accept_env_unprivileged=False)
    assert environment_request({"NVIDIA_VISIBLE_DEVICES": visible}, asked) is None
    if visible == "none":
        assert environment_request({"NVIDIA_VISIBLE_DEVICES": visible}, asked, True) is not None


def test_an_old_name_of_a_mig_device_is_none_of_cdi() -> None:
    """Drivers before 470 call MIG devices so; stage 5 knows whether there is such a one."""
    name = "MIG-GPU-b1028956-cfa2-0990-bf4a-5da9abb51763/3/0"
    request = environment_request({"NVIDIA_VISIBLE_DEVICES": name})
    assert request is not None and request.devices == (name,)


def test_a_bad_cuda_version_of_a_legacy_image() -> None:
    for text in ("latest", "9.0.176.1", "09.0", "9.", "12.x", "9.4294967296", "11.6-rc1", "+9",
                 f"9.{'1' * 5000}", "9.0.116foo", ".5.10", "9..0", "-9"):  # fmt: skip
        with pytest.raises(GPUError) as caught:
            environment_request({"CUDA_VERSION": text})
        what = {"9.4": "minor version", "9.1": "minor version"}.get(text[:3], "version string")
        assert str(caught.value).endswith(f": invalid CUDA version {text}: invalid {what}")
        assert f"CUDA_VERSION={text}:" in caught.value.hint


@pytest.mark.parametrize(
    ("version", "required"),
    [("9.0.176", "cuda>=9.0"), ("v10.2", "cuda>=10.2"), ("11", "cuda>=11.0"),
     ("12.4.1-devel", "cuda>=12.4"), ("12.4.1+b.2", "cuda>=12.4"),
     ("4294967295.4294967295.1", "cuda>=4294967295.4294967295")],
)  # fmt: skip
def test_the_version_of_a_legacy_image(version: str, required: str) -> None:
    """An empty NVIDIA_REQUIRE_CUDA counts as none."""
    for env in ({}, {"NVIDIA_REQUIRE_CUDA": ""}):
        request = environment_request({"CUDA_VERSION": version, **env})
        assert request is not None and request.devices == ("all",)
        assert [text for text in request.requirements if text] == [required]


def test_an_empty_variable_of_swarm_counts_before_the_usual_one() -> None:
    settings = DEFAULTS._replace(swarm_resources=("DOCKER_RESOURCE_GPU",))
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "DOCKER_RESOURCE_GPU": ""}
    assert environment_request(env, settings) is None


def test_capabilities_that_name_none() -> None:
    request = environment_request(
        {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_DRIVER_CAPABILITIES": ","}
    )
    assert request is not None and request.capabilities == ()
    with pytest.raises(GPUError, match="found in 'bar,compute,foo'"):
        env = {"NVIDIA_DRIVER_CAPABILITIES": "foo, compute,bar", "NVIDIA_VISIBLE_DEVICES": "0"}
        environment_request(env)


def mount(name: str) -> dict[str, str]:
    return {"source": "/dev/null", "destination": f"/var/run/nvidia-container-devices/{name}"}


def test_mounts_name_gpus_and_imex_channels_and_beat_the_environment() -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_IMEX_CHANNELS": "7"}
    mounts = [mount("./1/"), mount("imex/3"), mount("cdi/vendor.com/class/x"), mount("0")]
    state = {"pid": 1, "bundle": "/b"}
    asked = DEFAULTS._replace(accept_volume_mounts=True)
    argv = hook.command_line(config(env, [], mounts), state, asked)
    assert argv is not None and {"--device=1,0", "--imex-channel=3"} <= set(argv)
    argv = hook.command_line(config(env, [], mounts), state)
    assert argv is not None and {"--device=all", "--imex-channel=7"} <= set(argv)


@pytest.mark.parametrize(
    ("value", "mounts", "more", "channels"),
    (
        ("3,4,3", (), {}, ("4", "3")), ("all", (), {}, ()), ("none", (), {}, ()),
        ("7", ("imex/3",), {}, ("7",)),
        ("7", ("imex/3", "0", "imex/3"), {"accept_volume_mounts": True}, ("3",)),
        ("7", (), {"accept_env_unprivileged": False}, ()),
        ("7", (), {"ignore_imex_channels": True}, ()),
    ),
)  # fmt: skip
def test_the_imex_channels_that_edits_on_the_spot_get(
    value: str, mounts: tuple[str, ...], more: dict[str, Any], channels: tuple[str, ...]
) -> None:
    document = config({"NVIDIA_IMEX_CHANNELS": value}, [], [mount(name) for name in mounts])
    assert environment.asked_channels(document, DEFAULTS._replace(**more)) == channels


def test_imex_channels_can_be_ignored_or_not_made() -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_IMEX_CHANNELS": "7"}
    document, state = config(env, [], []), {"pid": 1, "bundle": "/b"}
    argv = hook.command_line(document, state, DEFAULTS._replace(ignore_imex_channels=True))
    assert argv is not None and not any("imex" in word for word in argv)
    options = DEFAULTS.options._replace(no_create_imex_channels=True)
    argv = hook.command_line(document, state, DEFAULTS._replace(options=options))
    assert argv is not None and argv[:3] == [
        "--load-kmods",
        "--no-create-imex-channels",
        "configure",
    ]


def test_the_compat_mode_of_config_toml_is_passed_on() -> None:
    text = 'nvidia-container-runtime.modes.legacy.cuda-compat-mode = "ldconfig"'
    asked = toolkit_config.parse(text, "x").hook
    document = config({"NVIDIA_VISIBLE_DEVICES": "0"}, [], [])
    argv = hook.command_line(document, {"pid": 1, "bundle": "/b"}, asked)
    assert argv is not None and argv[1:3] == ["configure", "--cuda-compat-mode=ldconfig"]
    assert hook.read(argv).cuda_compat_mode == "ldconfig"


def test_long_lists_of_an_image_are_read_in_time() -> None:
    """A variable may be 128 KiB long, and there may be many: each is read once."""
    count = 60_000
    start = time.monotonic()
    names = ",".join(map(str, range(count)))
    found = environment.visible({"NVIDIA_VISIBLE_DEVICES": f"{names},7"})
    assert found is not None and found[7] == "" and found[-1] == "7" and len(found) == count + 1
    asked = hook.read([*(f"--require=cuda>={n}" for n in range(count)), "/"])
    assert len(asked.requirements) == count
    assert time.monotonic() < start + 5
