"""nvidia-ctk cdi generate and list as programs: flags, formats, files, mistakes."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Program
from gpu.cdi.conftest import spec, write

SIMULATED = {"MINIRUN_SIM": "count=2"}


def generate(minirun: Program, *flags: str, **env: str) -> Any:
    return minirun("nvidia-ctk", "cdi", "generate", *flags, env=SIMULATED | env)


def test_yaml_and_json_say_the_same(minirun: Program, tmp_path: Path) -> None:
    done = generate(minirun)
    assert done.returncode == 0 and done.stdout.startswith("---\n")
    assert "level=warning" in done.stderr and "SIMULATED" in done.stderr
    found = yaml.safe_load(done.stdout)
    assert "MINIRUN_GPUS=SIMULATED" in found["containerEdits"]["env"]
    for name in ("new/a.yaml", "new/a.json"):
        assert generate(minirun, f"--output={tmp_path}/{name}").stdout == ""
    assert yaml.safe_load((tmp_path / "new/a.yaml").read_text()) == found
    assert json.loads((tmp_path / "new/a.json").read_text()) == found
    assert (tmp_path / "new/a.json").stat().st_mode & 0o777 == 0o644
    assert sorted(os.listdir(tmp_path / "new")) == ["a.json", "a.yaml"]
    done = generate(minirun, "--format=json", f"--output={tmp_path}/b.yaml")
    assert "does not match format implied by output file name" in done.stderr


def test_the_environment_gives_what_the_command_line_does_not(minirun: Program) -> None:
    variables = {
        "NVIDIA_CTK_CDI_GENERATE_OUTPUT_FORMAT": "json",
        "NVIDIA_CTK_CDI_GENERATE_DEVICE_IDS": "1,0",
        "NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES": "type-index",
        "NVIDIA_CTK_CDI_GENERATE_NO_ALL_DEVICE": "true",
        "NVIDIA_CTK_CDI_GENERATE_DISABLED_HOOKS": "all",
        "NVIDIA_CTK_CDI_GENERATE_VENDOR": "example.com",
    }
    found = json.loads(generate(minirun, "--vendor=other.com", **variables).stdout)
    assert [row["name"] for row in found["devices"]] == ["gpu0", "gpu1"]
    assert found["kind"] == "other.com/gpu"
    (hook,) = found["containerEdits"]["hooks"]
    assert "show-simulated-driver" in hook["args"], "none of NVIDIA's"


def test_the_program_of_the_hooks(minirun: Program, tmp_path: Path) -> None:
    for path, argv in (
        ("/x/nvidia-cdi-hook", ["nvidia-cdi-hook"]),
        ("/x/nvidia-ctk", ["nvidia-ctk", "hook"]),
        ("/x/minirun", ["minirun", "nvidia-cdi-hook"]),
    ):
        done = generate(minirun, "--format=json", f"--nvidia-cdi-hook-path={path}")
        hook = json.loads(done.stdout)["containerEdits"]["hooks"][0]
        assert (hook["path"], hook["args"][: len(argv)]) == (path, argv)
        assert hook["env"] == ["NVIDIA_CTK_DEBUG=false"]
    (tmp_path / "nvidia-cdi-hook").symlink_to("/bin/true")
    done = generate(minirun, "--format=json", PATH=f"{tmp_path}:{os.environ['PATH']}")
    hook = json.loads(done.stdout)["containerEdits"]["hooks"][0]
    assert hook["args"][1] == "nvidia-cdi-hook", "the simulated driver needs minirun's own"


def test_a_hook_of_the_linked_program_can_be_called(minirun: Program, tmp_path: Path) -> None:
    """As an engine calls it: by its path, with its environment alone."""
    (tmp_path / "nvidia-ctk").symlink_to(minirun.path)
    argv = [tmp_path / "nvidia-ctk", "cdi", "generate", "--format=json"]
    done = subprocess.run(argv, env=os.environ | SIMULATED, capture_output=True, check=True)
    for hook in json.loads(done.stdout)["containerEdits"]["hooks"]:
        argv = [*hook["args"], "--help"]
        done = subprocess.run(argv, executable=hook["path"], env={}, capture_output=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (("--format=xml",), "invalid output format: xml"),
        (("--mode=x",), "invalid discovery mode: x"),
        (("--mode=csv",), "mode csv is not supported"),
        (("--csv.file=x",), "mode csv is not supported"),
        (("--device-name-strategy=x",), "invalid device name strategy: x"),
        (("--vendor=1",), "invalid CDI kind: vendor '1' must begin with a letter"),
        (("--enable-hook=all",), "enabling all hooks is not supported"),
        (("--disable-hook=x",), "unknown hook: x"),
        (("--feature-flag=x",), "unknown feature flag: x"),
        (("--nosuch",), "unknown flag: --nosuch"),
        (("x",), "unexpected argument 'x'"),
        (("--mode=management",), "no management spec of the simulated driver"),
        (("--device-id=9",), "failed to get device handle from index: Invalid Argument"),
    ],
)
def test_mistakes(minirun: Program, flags: tuple[str, ...], what: str) -> None:
    done = generate(minirun, *flags)
    errors = [line for line in done.stderr.splitlines() if "level=error" in line]
    assert (done.returncode, done.stdout, len(errors)) == (1, "", 1)
    assert what in errors[0]


def test_without_a_driver_nothing_is_simulated_unasked(minirun: Program) -> None:
    if os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("this machine has a driver")
    done = minirun("nvidia-ctk", "cdi", "generate")
    assert (done.returncode, done.stdout) == (1, "")
    assert "failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND" in done.stderr


def test_list_leaves_out_what_cannot_be_used(minirun: Program, tmp_path: Path) -> None:
    folder = tmp_path / "cdi"
    write(folder, "a.json", spec("b", "a"))
    write(folder, "b.yaml", spec("a", "c"))
    write(folder, "broken.json", "{")
    done = minirun("nvidia-ctk", "cdi", "list", "--spec-dir", str(folder))
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["example.com/thing=b", "example.com/thing=c"]
    lines = [line.partition(" ")[2] for line in done.stderr.splitlines()]
    assert lines[0] == 'level=info msg="Found 2 CDI devices"'
    assert len(lines) == 3 and all(line.startswith("level=warning") for line in lines[1:])


def test_the_environment_names_folders_where_the_command_line_does_not(
    minirun: Program, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / name, f"{name}.json", spec(name))
    env = {"NVIDIA_CTK_CDI_SPEC_DIRS": f"{tmp_path}/a,{tmp_path}/b"}
    done = minirun("nvidia-ctk", "cdi", "list", env=env)
    assert done.stdout == "example.com/thing=a\nexample.com/thing=b\n"
    done = minirun("nvidia-ctk", "cdi", "list", f"--spec-dir={tmp_path}/c", env=env)
    assert done.stdout == "example.com/thing=c\n"


def test_an_unknown_command(minirun: Program) -> None:
    done = minirun("nvidia-ctk", "cdi", "apply")
    assert done.returncode == 1 and "unknown command 'nvidia-ctk cdi apply'" in done.stderr
