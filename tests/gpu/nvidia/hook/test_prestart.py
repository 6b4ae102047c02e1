"""nvidia-container-runtime-hook as a program: every golden case, stdin to execve."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu.nvidia.toolkit_cases import of_this_host, toml
from gpu.recorded import DATA

CASES = json.loads((DATA / "hook-env-to-cli-v1.17.2.json").read_text())
STATE = {"ociVersion": "1.0.2", "id": "c", "status": "creating", "pid": 4242, "bundle": "/bundle"}
DIFFERENT: dict[str, str] = {}
"""Name → why it differs on purpose."""


class Hook:
    """The hook with a bundle, a config.toml, and a nvidia-container-cli that notes its call."""

    def __init__(self, program: Program, path: Path) -> None:
        self.program = program
        self.path = path
        self.called = path / "called"
        self.cli = path / "nvidia-container-cli"
        self.cli.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.called}\nenv > {self.called}.env\n'
        )
        self.cli.chmod(0o755)
        self.bundle = path / "bundle"
        self.bundle.mkdir()

    def configure(self, text: str) -> None:
        folder = self.path / "etc/nvidia-container-runtime"
        folder.mkdir(parents=True, exist_ok=True)
        lines = f'nvidia-container-cli.path = "{self.cli}"\n{text}'
        (folder / "config.toml").write_text(lines)

    def __call__(
        self, config: dict[str, Any], *flags: str, state: str = "", word: str = "prestart"
    ) -> subprocess.CompletedProcess[str]:
        (self.bundle / "config.json").write_text(json.dumps(config))
        env = {"XDG_CONFIG_HOME": str(self.path / "etc")}
        text = state or json.dumps(STATE | {"bundle": str(self.bundle)})
        name = "nvidia-container-runtime-hook"
        return self.program(name, *flags, word, input=text, env=env)

    def arguments(self) -> list[str] | None:
        """What nvidia-container-cli was called with, the bundle called as in the golden cases."""
        if not self.called.exists():
            return None
        return self.called.read_text().replace(str(self.bundle), "/bundle").splitlines()


@pytest.fixture
def hook(minirun: Program, tmp_path: Path) -> Hook:
    found = Hook(minirun, tmp_path)
    found.configure("")
    return found


def config(env: dict[str, str], **more: Any) -> dict[str, Any]:
    process: dict[str, Any] = {"env": [f"{key}={value}" for key, value in env.items()]}
    process["capabilities"] = {"bounding": more.get("caps", ["CAP_CHOWN"])}
    root = {"path": "rootfs"}
    return {
        "ociVersion": "1.0.2",
        "root": root,
        "process": process,
        "mounts": more.get("mounts", []),
    }


@pytest.mark.parametrize("name", [name for name in CASES if name not in DIFFERENT])
def test_the_same_as_the_real_hook(hook: Hook, name: str) -> None:
    case = CASES[name]
    hook.configure(toml(case))
    document = config(case["container_env"], **case)
    done = hook(document, *case.get("hookflags", []))
    assert done.returncode == case["rc"]
    assert hook.arguments() == of_this_host(case["cli_args"])
    said = [line for line in done.stderr.splitlines() if not line.startswith("hint: ")]
    assert [line.rstrip() for line in said] == [
        line.rstrip() for line in case["stderr"].splitlines()
    ]
    assert done.stdout == ""


@pytest.mark.parametrize("visible", ("nvidia.com/gpu=0", "nvidia.com/gpu=0,vendor.com/x=y"))
def test_names_of_cdi_alone_are_refused_in_its_words(hook: Hook, visible: str) -> None:
    """Mode auto is cdi then (toolkit 1.17.2, internal/info/auto.go), which is not the hook's."""
    done = hook(config({"NVIDIA_VISIBLE_DEVICES": visible}))
    mode, said, hint = done.stderr.splitlines()
    assert (done.returncode, hook.arguments(), mode) == (1, None, "Auto-detected mode as 'cdi'")
    begin = "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus"
    assert said.startswith(begin) and "nvidia.com/gpu=0 is the name of a cdi device" in hint


def test_config_toml_gives_the_environment_of_the_cli(hook: Hook) -> None:
    hook.configure('nvidia-container-cli.environment = ["FOO=bar=x"]')
    assert hook(config({"NVIDIA_VISIBLE_DEVICES": "0"})).returncode == 0
    env = Path(f"{hook.called}.env").read_text().splitlines()
    assert "FOO=bar=x" in env and "NVIDIA_VISIBLE_DEVICES=0" not in env


@pytest.mark.parametrize("flag", ("-config", "--config"))
def test_the_config_flag_beats_the_usual_places(hook: Hook, tmp_path: Path, flag: str) -> None:
    other = tmp_path / "other.toml"
    other.write_text(f'nvidia-container-cli = {{path = "{hook.cli}", no-cgroups = true}}')
    hook.configure("this is no toml")
    assert hook(config({"NVIDIA_VISIBLE_DEVICES": "0"}), flag, str(other)).returncode == 0
    assert "--no-cgroups" in (hook.arguments() or ())


@pytest.mark.parametrize(
    ("text", "culprit"),
    (
        ("what is this", "config.toml: Expected '='"),
        ('disable-require = "yes"', "config.toml: disable-require: expected true or false"),
        ("swarm-resource = [1]", "config.toml: swarm-resource: expected a list of strings"),
        ("nvidia-container-runtime = 1", "nvidia-container-runtime: expected a table"),
        ('nvidia-container-runtime.mode = "x"', "'x' is none of auto, legacy, cdi"),
    ),
)
def test_a_broken_config_names_the_culprit(hook: Hook, text: str, culprit: str) -> None:
    path = hook.path / "etc/nvidia-container-runtime/config.toml"
    path.write_text(text)
    done = hook(config({"NVIDIA_VISIBLE_DEVICES": "0"}))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert culprit in done.stderr


@pytest.mark.parametrize(
    ("state", "culprit"),
    (
        ("", "could not decode container state: stdin:"),
        ("[]", "could not decode container state: stdin: it is no object"),
        ('{"bundle": "/nosuch"}', "has no pid or no bundle"),
        ('{"bundle": "/nosuch", "pid": 1}', "could not open OCI spec"),
    ),
)
def test_a_broken_state_is_told(hook: Hook, state: str, culprit: str) -> None:
    done = hook(config({}), state=state or " ")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert culprit in done.stderr


def test_a_cli_that_is_missing(hook: Hook) -> None:
    hook.cli.unlink()
    done = hook(config({"NVIDIA_VISIBLE_DEVICES": "0"}))
    assert done.returncode == 1
    assert f"exec failed: {hook.cli}: no such file or directory" in done.stderr
    assert "hint: nvidia-container-cli.path in" in done.stderr


@pytest.mark.parametrize("word", ("poststart", "poststop"))
def test_the_other_hooks_do_nothing(hook: Hook, word: str) -> None:
    done = hook(config({"NVIDIA_VISIBLE_DEVICES": "0"}), word=word, state="not read")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert hook.arguments() is None


@pytest.mark.parametrize("words", ((), ("poststrat",)))
def test_a_wrong_use_is_status_2(minirun: Program, words: tuple[str, ...]) -> None:
    done = minirun("nvidia-container-runtime-hook", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")


@pytest.mark.parametrize("word", ("version", "-version", "--version"))
def test_version(minirun: Program, word: str) -> None:
    done = minirun("nvidia-container-runtime-hook", word)
    assert done.stdout.startswith("NVIDIA Container Runtime Hook version ")
