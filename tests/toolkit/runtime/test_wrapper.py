"""nvidia-container-runtime: what it makes of config.json, and the program that it calls then."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import STORE, Program
from gpu.nvidia.toolkit_cases import document
from minirun.gpu.edits import Edits
from minirun.gpu.nvidia.shared import config
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.runtime import jit, wrapper


class Wrapper:
    """The wrapper over a runtime that writes down how it was called."""

    def __init__(self, program: Program, path: Path) -> None:
        self.program = program
        self.path = path
        self.called = path / "called"
        self.bundle = path / "b"
        for folder in ("b", "bin", "etc/nvidia-container-runtime"):
            (path / folder).mkdir(parents=True)
        self.add_runtime("runc")
        self.env = {"XDG_CONFIG_HOME": f"{path}/etc", "PATH": f"{path}/bin:{os.environ['PATH']}"}
        self.log = path / "log"

    def add_runtime(self, name: str) -> None:
        runtime = self.path / "bin" / name
        runtime.write_text(f'#!/bin/sh\necho {name} "$@" > {self.called}\n')
        runtime.chmod(0o755)

    def configure(self, mode: str, more: str = "", version: str = "1.20", top: str = "") -> None:
        (self.path / "etc/nvidia-container-runtime/config.toml").write_text(
            f'{top}\nminirun.toolkit-version = "{version}"\n'
            f'[nvidia-container-runtime]\nmode = "{mode}"\ndebug = "{self.log}"\n{more}\n'
            f'modes.cdi.spec-dirs = ["{self.path}/cdi"]\n'
            '[nvidia-container-runtime-hook]\npath = "/usr/bin/nvidia-container-runtime-hook"\n'
        )

    def __call__(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.program("nvidia-container-runtime", *args, env={**self.env, **env})

    def create(self, config: dict[str, Any], **env: str) -> subprocess.CompletedProcess[str]:
        (self.bundle / "config.json").write_text(json.dumps(config))
        return self("create", "--bundle", str(self.bundle), "c1", **env)

    @property
    def config(self) -> dict[str, Any]:
        return json.loads((self.bundle / "config.json").read_text())


@pytest.fixture
def runtime(minirun: Program, tmp_path: Path) -> Wrapper:
    found = Wrapper(minirun, tmp_path)
    found.configure("legacy")
    return found


def test_everything_but_create_passes_through(runtime: Wrapper) -> None:
    (runtime.bundle / "config.json").write_text("{}")
    for words in (["--root", "create", "state", "c"], ["kill", "create", "9"], ["--nosuchflag"]):
        assert runtime(*words).returncode == 0
        assert runtime.called.read_text() == f"runc {' '.join(words)}\n"
    assert runtime.config == {}


def test_create_is_found_behind_global_flags(runtime: Wrapper) -> None:
    (runtime.bundle / "config.json").write_text(json.dumps(document({})))
    words = ["--log", f"{runtime.path}/l.json", "--log-format=json", "create"]
    assert runtime(*words, "-b", str(runtime.bundle), "c").returncode == 0
    assert runtime.config["hooks"]["prestart"]
    lines = [json.loads(line) for line in (runtime.path / "l.json").read_text().splitlines()]
    assert {line["level"] for line in lines} == {"info"}
    assert any("prestart hook" in line["msg"] for line in lines)
    assert "level=info" in runtime.log.read_text()


def test_an_existing_hook_is_left_as_it_is(runtime: Wrapper) -> None:
    rows = [{"path": "/opt/nvidia-container-runtime-hook", "args": ["x", "prestart"]}]
    config = document({}) | {"hooks": {"prestart": rows}}
    assert runtime.create(config).returncode == 0
    assert runtime.config["hooks"]["prestart"] == rows


@pytest.mark.parametrize("visible", ("void", "vendor.com/class=a"))
@pytest.mark.parametrize("name", ("nvidia-container-runtime-hook", "nvidia-container-toolkit"))
def test_mode_cdi_takes_the_hook_of_docker_away(runtime: Wrapper, visible: str, name: str) -> None:
    """Else `docker run --gpus` with this runtime would do the work twice, or fail."""
    runtime.configure("cdi")
    write_spec(runtime)
    other = {"path": "/hook/a", "args": ["a"]}
    rows = [other, {"path": f"/usr/bin/{name}", "args": [name, "prestart"]}]
    asked = document({"NVIDIA_VISIBLE_DEVICES": visible}) | {"hooks": {"prestart": rows}}
    assert runtime.create(asked).returncode == 0
    assert runtime.config["hooks"]["prestart"] == [other]
    assert ("FOO=1" in runtime.config["process"]["env"]) == (visible != "void")


def test_the_next_runtime_of_the_list_and_none_at_all(runtime: Wrapper) -> None:
    runtime.configure("legacy", 'runtimes = ["nosuch", "other"]')
    done = runtime("state", "c")
    assert done.returncode == 1
    assert "no runtime binary found from candidate list: [nosuch other]" in done.stderr
    runtime.add_runtime("other")
    assert runtime("state", "c").returncode == 0
    assert runtime.called.read_text() == "other state c\n"


def test_annotations_name_devices_of_the_spec_folders(runtime: Wrapper) -> None:
    runtime.configure("auto")
    write_spec(runtime)
    asked = document({}, {"cdi.k8s.io/x": "vendor.com/class=a"})
    assert runtime.create(asked).returncode == 0
    assert runtime.config["process"]["env"][-1] == "FOO=1"
    assert runtime.config["linux"]["devices"][0]["path"] == "/dev/null"


@pytest.mark.parametrize(
    ("asked", "version", "said"),
    [
        ("none", "1.18", "none"), ("none", "1.20", ""), ("0", "1.18", ""), ("all", "1.18", ""),
        ("0,9", "1.18", "0, runtime.nvidia.com/gpu=9"),
    ],
)  # fmt: skip
def test_devices_by_their_full_names(runtime: Wrapper, asked: str, version: str, said: str) -> None:
    """1.18 looked for those that it could not make in the folders of specs: all, or none, of them.

    Toolkit v1.18.0, internal/modifier/cdi.go and pkg/nvcdi/lib-nvml.go: `none` is no index there.
    """
    runtime.configure("auto", version=version)
    names = ",".join(f"runtime.nvidia.com/gpu={name}" for name in asked.split(","))
    done = runtime.create(document({"NVIDIA_VISIBLE_DEVICES": names}), MINIRUN_SIM="count=2")
    assert (done.returncode == 0) is not bool(said)
    if said:
        what = f"unresolvable CDI devices runtime.nvidia.com/gpu={said}"
        assert what in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("version", "gpus"), [("1.20", 0), ("1.18", 4)])
def test_none_gives_the_driver_and_no_gpu(runtime: Wrapper, version: str, gpus: int) -> None:
    """1.18 took it for all: nvidia-container-toolkit #1555."""
    runtime.configure("auto", version=version)
    asked = document({"NVIDIA_VISIBLE_DEVICES": "none"})
    assert runtime.create(asked, MINIRUN_SIM="count=4").returncode == 0
    paths = {row["path"] for row in runtime.config["linux"]["devices"]}
    assert "/dev/nvidiactl" in paths
    assert len([path for path in paths if path[len("/dev/nvidia") :].isdigit()]) == gpus
    assert any("libcuda.so" in row["destination"] for row in runtime.config["mounts"])
    empty = [entry for entry in runtime.config["process"]["env"] if entry.startswith("NVCT_")]
    assert empty == (["NVCT_EMPTY_DEVICE="] if gpus == 0 else [])


@pytest.mark.parametrize(
    ("visible", "changed"), [("vendor.com/class=a", "process"), ("0,vendor.com/class=a", "hooks")]
)
def test_auto_of_1_17_is_legacy_but_for_names_of_cdi(
    runtime: Wrapper, visible: str, changed: str
) -> None:
    runtime.configure("auto", version="1.17")
    write_spec(runtime)
    before = document({"NVIDIA_VISIBLE_DEVICES": visible})
    assert runtime.create(before).returncode == 0
    after = runtime.config
    assert ("prestart" in after.get("hooks", {})) == (changed == "hooks")
    assert ("FOO=1" in after["process"]["env"]) == (changed == "process")


def test_what_stands_beside_gpus_is_asked_for_by_name(runtime: Wrapper) -> None:
    runtime.configure("auto")
    asked = document({"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_GDS": "enabled"})
    assert runtime.create(asked, MINIRUN_SIM="count=1").returncode == 0
    assert runtime.config["process"]["env"].count("NVIDIA_VISIBLE_DEVICES=void") == 2


def write_spec(runtime: Wrapper, **more: Any) -> None:
    (runtime.path / "cdi").mkdir()
    edits = {"env": ["FOO=1"], "deviceNodes": [{"path": "/dev/null"}]}
    other = {"env": ["BAR=1"], "deviceNodes": [{"path": "/dev/zero"}]}
    devices = [{"name": "a", "containerEdits": edits}, {"name": "b", "containerEdits": other}]
    spec = {"cdiVersion": "0.5.0", "kind": "vendor.com/class", "devices": devices, **more}
    (runtime.path / "cdi/v.json").write_text(json.dumps(spec))


UNPRIVILEGED = "accept-nvidia-visible-devices-envvar-when-unprivileged = false"
MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts = true"
SWARM = 'swarm-resource = "DOCKER_RESOURCE_GPU"'
KIND = 'modes.cdi.default-kind = "vendor.com/class"'
ADMIN = {"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}
A = "vendor.com/class=a"


def asking(
    visible: str | None = None,
    annotations: dict[str, str] | None = None,
    mounts: tuple[str, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    """A config.json that asks for devices in one or several ways; `more` is of its process."""
    env = {} if visible is None else {"NVIDIA_VISIBLE_DEVICES": visible}
    config = document(env | more.pop("env", {}), annotations)
    folder = "/var/run/nvidia-container-devices"
    config["mounts"] += [{"source": "/dev/null", "destination": f"{folder}/{m}"} for m in mounts]
    return {**config, "process": {**config["process"], **more}}


@pytest.mark.parametrize(
    ("top", "config", "times"),
    (
        (UNPRIVILEGED, asking(A), 0), (UNPRIVILEGED, asking(A, **ADMIN), 1),
        (UNPRIVILEGED, asking(A, {"cdi.k8s.io/x": A}), 1),
        (SWARM, asking("0", env={"DOCKER_RESOURCE_GPU": A}), 1),
        ("", asking(None, {"cdi.k8s.io/x": A, "cdi.k8s.io/y": A}), 1),
        ("", asking(f"{A},{A}"), 1), ("", asking(None, {"cdi.k8s.io/x": "a"}), 1),
        (MOUNTS, asking("void", mounts=("cdi/vendor.com/class/a",)), 1),
        (MOUNTS, asking("void", mounts=("cdi/vendor.com/class=a",)), 1),
        (MOUNTS, asking("void", mounts=("cdi/bad", "imex/0")), 0),
        (MOUNTS, asking("void", mounts=("a", "cdi/vendor.com/class/b")), 2),
        (MOUNTS, asking("void", {"cdi.k8s.io/x": A}, ("cdi/vendor.com/class/b",)), 1),
        ("", asking("void", mounts=("cdi/vendor.com/class/a",)), 0),
    ),
)  # fmt: skip
def test_who_may_ask_for_devices_and_how(
    runtime: Wrapper, top: str, config: dict[str, Any], times: int
) -> None:
    runtime.configure("cdi", KIND, top=top)
    write_spec(runtime)
    done = runtime.create(config)
    assert (done.returncode, done.stderr) == (0, "")
    env = [row for row in runtime.config["process"]["env"] if row in ("FOO=1", "BAR=1")]
    assert len(env) == times
    rules = runtime.config["linux"]["resources"]["devices"]
    assert len(rules) == len(config["linux"]["resources"]["devices"]) + times


@pytest.mark.parametrize("mode", ("auto", "cdi"))
def test_some_names_of_cdi_mean_gpus_made_on_the_spot(runtime: Wrapper, mode: str) -> None:
    runtime.configure(mode)
    asked = asking("runtime.nvidia.com/gpu=1", env={"CUDA_VERSION": "latest"})
    done = runtime.create(asked, MINIRUN_SIM="count=2")
    assert (done.returncode, done.stderr) == (0, "")
    paths = [row["path"] for row in runtime.config["linux"]["devices"]]
    assert "/dev/nvidia1" in paths and "/dev/nvidia0" not in paths


def test_annotations_count_in_mode_auto_by_full_names_alone(runtime: Wrapper) -> None:
    runtime.configure("auto")
    asked = asking("1", {"cdi.k8s.io/x": "0"})
    assert runtime.create(asked, MINIRUN_SIM="count=2").returncode == 0
    paths = [row["path"] for row in runtime.config["linux"]["devices"]]
    assert "/dev/nvidia1" in paths and "/dev/nvidia0" not in paths


def test_devices_of_files_and_made_on_the_spot_cannot_be_mixed(runtime: Wrapper) -> None:
    runtime.configure("auto")
    write_spec(runtime)
    done = runtime.create(asking(f"0,{A}"))
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "vendor 'runtime.nvidia.com' is not supported when requesting other" in done.stderr


def test_a_stale_spec_is_told_in_the_log(runtime: Wrapper) -> None:
    runtime.configure("auto")
    gone = {"hostPath": "/nosuch/libcuda.so.1", "containerPath": "/x"}
    write_spec(runtime, containerEdits={"mounts": [gone, {**gone, "hostPath": "/nosuch/2"}]})
    asked = document({}, {"cdi.k8s.io/x": "vendor.com/class=a"})
    assert runtime.create(asked).returncode == 0
    (line,) = [text for text in runtime.log.read_text().splitlines() if "level=warning" in text]
    assert "cdi/v.json is stale: /nosuch/2 is not there, nor are 1 more; make it anew" in line


def test_without_a_driver_nothing_is_simulated_unasked(runtime: Wrapper) -> None:
    if os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("this machine has a driver")
    runtime.configure("auto")
    before = document({"NVIDIA_VISIBLE_DEVICES": "0"})
    done = runtime.create(before)
    assert (done.returncode, runtime.config) == (1, before)
    assert "level=error" in done.stderr and not runtime.called.exists()


def test_a_bundle_without_config_json(runtime: Wrapper) -> None:
    done = runtime("create", "--bundle", f"{runtime.path}/nosuch", "c")
    assert done.returncode == 1
    assert "nosuch/config.json" in done.stderr and "level=error" in done.stderr


@pytest.mark.parametrize("flag", ("--bundle", "-bundle", "-b"))
def test_a_bundle_that_is_not_named_is_not_the_working_directory(
    runtime: Wrapper, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    before = document({"NVIDIA_VISIBLE_DEVICES": "0"})
    (runtime.bundle / "config.json").write_text(json.dumps(before))
    monkeypatch.chdir(runtime.bundle)
    done = runtime("create", flag)
    assert done.returncode == 1 and "bundle option requires an argument" in done.stderr
    assert runtime.config == before and not runtime.called.exists()


def test_a_broken_config_json_is_told_by_its_path(runtime: Wrapper) -> None:
    done = runtime.create(document({}) | {"hooks": {"prestart": ["x"]}})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "hooks.prestart[0]: expected an object" in done.stderr
    assert not runtime.called.exists()


@pytest.mark.parametrize(
    ("words", "name"),
    (
        ([], ""), (["--debug", "create", "x"], "create"), (["-root", "create", "ps"], "ps"),
        (["--root=create", "list"], "list"), (["--log-format", "json", "create"], "create"),
    ),
)  # fmt: skip
def test_which_word_is_the_command(words: list[str], name: str) -> None:
    assert wrapper.command(words) == name


def test_a_hook_of_the_linked_program_can_be_called(runtime: Wrapper) -> None:
    """As an engine calls it: by its path, with its environment alone."""
    runtime.configure("jit-cdi")
    link = runtime.path / wrapper.NAME
    link.symlink_to(runtime.program.path)
    runtime.env |= {"MINIRUN_SIM": "count=1"}
    (runtime.bundle / "config.json").write_text(
        json.dumps(document({"NVIDIA_VISIBLE_DEVICES": "0"}))
    )
    argv = [link, "create", "--bundle", runtime.bundle, "c1"]
    subprocess.run(argv, env=os.environ | runtime.env, check=True)
    hooks = runtime.config["hooks"]["createContainer"]
    for hook in hooks:
        argv = [*hook["args"], "--help"]
        done = subprocess.run(argv, executable=hook["path"], env={}, capture_output=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flags", ([], ["no-additional-gids-for-device-nodes"]))
def test_feature_flags_of_edits_that_are_made_on_the_spot(
    monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setattr(jit.modes, "companion_edits", lambda mode, finder: Edits(groups=(44,)))
    monkeypatch.setenv("MINIRUN_SIM", "count=1")
    toolkit = config.parse(
        f"nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags = {flags}\n", ""
    )
    found = document({"NVIDIA_GDS": "enabled"})
    jit.apply(found, ("0",), toolkit, ToolkitLog("error"), STORE)
    assert found["process"]["user"].get("additionalGids", []) == ([] if flags else [44])
