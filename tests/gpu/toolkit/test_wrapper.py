"""nvidia-container-runtime: what it makes of config.json, and whom it calls afterwards."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu.sandbox import DATA
from minirun.gpu.toolkit import wrapper

CASES = {path.stem: json.loads(path.read_text()) for path in (DATA / "runtime").glob("*.json")}
NVML = "1.20 asks NVML for the GPU and passes on its error; the text here is 1.18's"
TEGRA = "csv is the mode of Tegra boards, which have no driver as in Figure 3; it is refused"
DIFFERENT = {"auto-bad-dev-v1.20.0": NVML, "csv-nofiles-v1.20.0": TEGRA}
"""Case → why it differs."""
GRAPHICS = {"auto-0-allcaps-v1.17.2", "auto-0-graphics-v1.17.2"}
"""They need a host with such files: test_graphics.py."""
EDITED = {name for name, case in CASES.items() if "mounts" in case["changed_sections"]} - GRAPHICS
"""Cases with the files of a whole driver: compared below, device by device.

minirun follows 1.20 there; the same four requests in 1.18 (not copied here) differ from 1.20's in
the environment's order, in mounts and in hooks, so no program can equal both.
"""


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

    def configure(self, mode: str, more: str = "") -> None:
        (self.path / "etc/nvidia-container-runtime/config.toml").write_text(
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


def document(env: dict[str, str], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """The config.json that the golden cases began with."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["sh"],
            "env": ["PATH=/usr/bin", *(f"{name}={value}" for name, value in env.items())],
            "cwd": "/",
            "capabilities": {"bounding": ["CAP_CHOWN"]},
        },
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "namespaces": [{"type": "mount"}, {"type": "pid"}],
        },
        "annotations": annotations or {},
    }


def played(runtime: Wrapper, name: str) -> subprocess.CompletedProcess[str]:
    """Run a golden case."""
    case = CASES[name]
    before_jit = case["mode"] == "auto" and case["version"] == "v1.17.2"
    runtime.configure("legacy" if before_jit else case["mode"])  # auto meant legacy in 1.17
    host = "count=4,mig=3" if "mig" in name else "count=4"
    return runtime.create(document(case["env"], case["annotations"]), MINIRUN_SIM=host)


@pytest.mark.parametrize("name", sorted(set(CASES) - EDITED - GRAPHICS - set(DIFFERENT)))
def test_the_same_as_the_real_runtime(runtime: Wrapper, name: str) -> None:
    case = CASES[name]
    done = played(runtime, name)
    assert (done.returncode, without_time(done.stderr)) == (
        case["rc"],
        without_time(case["stderr"]),
    )
    expected = document(case["env"], case["annotations"]) | case["changed_sections"]
    assert runtime.config == expected
    called = case["low_level_runtime_args"]
    assert runtime.called.exists() == bool(called)
    if called:
        words = called.replace("/tmp/rtw/b", str(runtime.bundle))
        assert runtime.called.read_text() == f"runc {words}\n"


def without_time(lines: str) -> list[str]:
    return [line.partition(" ")[2] for line in lines.splitlines()]


@pytest.mark.parametrize("name", sorted(EDITED))
def test_gpus_and_environment_in_mode_auto_are_the_real_ones(runtime: Wrapper, name: str) -> None:
    """The driver's files are compared where the spec is made: tests/gpu/cdi."""
    case = CASES[name]["changed_sections"]
    assert played(runtime, name).returncode == 0
    assert runtime.config["process"] == case["process"]
    linux = runtime.config["linux"]
    theirs = {(row["path"], row["major"], row["minor"]) for row in case["linux"]["devices"]}
    ours = {(row["path"], row["major"], row["minor"]) for row in linux["devices"]}
    assert ours == {row for row in theirs if row[1] in (195, 508, 510)}
    rules = {(r["major"], r["minor"], r["access"]) for r in linux["resources"]["devices"][1:]}
    assert rules == {(major, minor, "rwm") for _, major, minor in ours}


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_what_differs_fails_and_starts_nothing(runtime: Wrapper, name: str) -> None:
    done = played(runtime, name)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "level=error" in done.stderr
    assert not runtime.called.exists()


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
    (runtime.path / "cdi").mkdir()
    edits = {"env": ["FOO=1"], "deviceNodes": [{"path": "/dev/null"}]}
    device = {"name": "a", "containerEdits": edits}
    spec = {"cdiVersion": "0.5.0", "kind": "vendor.com/class", "devices": [device]}
    (runtime.path / "cdi/v.json").write_text(json.dumps(spec))
    asked = document({}, {"cdi.k8s.io/x": "vendor.com/class=a"})
    assert runtime.create(asked).returncode == 0
    assert runtime.config["process"]["env"][-1] == "FOO=1"
    assert runtime.config["linux"]["devices"][0]["path"] == "/dev/null"


def test_none_gives_control_nodes_and_no_library(runtime: Wrapper) -> None:
    runtime.configure("auto")
    assert (
        runtime.create(
            document({"NVIDIA_VISIBLE_DEVICES": "none"}), MINIRUN_SIM="count=4"
        ).returncode
        == 0
    )
    paths = {row["path"] for row in runtime.config["linux"]["devices"]}
    assert "/dev/nvidiactl" in paths and "/dev/nvidia0" not in paths
    assert len(runtime.config["mounts"]) == 1


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
