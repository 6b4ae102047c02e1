"""`minirun gpu why --path`: one line that says which way the GPUs came, and what has chosen it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from faces.inspect.gpu.test_why import rewrite
from layers import copy_layer, layer_of
from minirun.faces.inspect.gpu.way import toolkits_mode

CONFIG = """\
# NVIDIA's toolkit
[nvidia-container-runtime]
runtimes = ["{minirun}"]
mode = "{mode}"  # as it comes
[nvidia-container-runtime.modes.cdi]
spec-dirs = ["{cdi}"]
"""


def way(program: Program, name: str) -> str:
    done = program("gpu", "why", "--path", name)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1), done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize(("flags", "said"), [
    (("--gpus", "0"), "c: legacy, asked by command line: --gpus 0; driver 550.163.01 SIMULATED; "),
    (("--gpus", "0", "--gpu-mode", "cdi"),
     "c: cdi, asked by command line: --gpus 0; driver 550.163.01 SIMULATED; "),
    ((), "c: no GPU was asked for; minirun "),
])  # fmt: skip
def test_of_a_run(minirun: Program, flags: tuple[str, ...], said: str) -> None:
    words = ("--name", "c", "--gpu-driver", "simulated", *flags, "busybox", "sleep", "60")
    assert minirun("run", "-d", *words).returncode == 0
    assert way(minirun, "c").startswith(said)
    assert way(minirun, "c").endswith(f"Linux {os.uname().release} {os.uname().machine}")


@pytest.mark.parametrize(("mode", "asked", "said"), [
    ("auto", "0", 'c: cdi; NVIDIA\'s runtime: mode "auto" ({file}, line 4), which is jit-cdi for a '
     "variable and cdi for CDI names; minirun "),
    ("auto", "nvidia.com/gpu=0", 'c: cdi; NVIDIA\'s runtime: mode "auto" ({file}, line 4), which'),
    ("cdi", "0", 'c: cdi; NVIDIA\'s runtime: mode "cdi" ({file}, line 4); minirun '),
    ("legacy", "", "c: no GPU was asked for; minirun "),
])  # fmt: skip
def test_of_a_bundle_by_nvidias_runtime(
    minirun: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    mode: str, asked: str, said: str,
) -> None:  # fmt: skip
    bundle, file = tmp_path / "bundle", tmp_path / "nvidia-container-runtime/config.toml"
    for folder in (bundle, file.parent):
        folder.mkdir()
    monkeypatch.setenv("MINIRUN_SIM", "count=2")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    made = minirun("nvidia-ctk", "cdi", "generate", "--output", str(tmp_path / "cdi/nvidia.yaml"))
    assert made.returncode == 0, made.stderr
    spec = minirun.spec("sleep", "9")
    copy_layer(layer_of("busybox"), bundle / "rootfs")  # mounts get their places in it
    spec["root"]["path"] = "rootfs"
    spec["process"]["env"] += [f"NVIDIA_VISIBLE_DEVICES={asked}"] if asked else []
    (bundle / "config.json").write_text(json.dumps(spec))
    file.write_text(CONFIG.format(minirun=minirun.path, mode=mode, cdi=tmp_path / "cdi"))
    monkeypatch.setenv("MINIRUN_ROOT", str(minirun.root))  # it becomes minirun without a flag
    words = [minirun.path, "nvidia-container-runtime", "create", "--bundle", str(bundle), "c"]
    with (tmp_path / "said").open("w") as output:  # init keeps it open
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    assert done.returncode == 0, (tmp_path / "said").read_text()
    assert way(minirun, "c").startswith(said.format(file=file))


def test_the_exit_status_is_1_if_anything_differs(minirun: Program) -> None:
    """As that of network why, if something stops a packet; for each way of printing it."""
    words = ("--gpus", "0", "--gpu-driver", "simulated", "busybox", "sleep", "60")
    assert minirun("run", "-d", "--name", "g", *words).returncode == 0
    kinds = ((), ("--json",), ("--path",))
    assert [minirun("gpu", "why", *kind, "g").returncode for kind in kinds] == [0, 0, 0]
    rewrite(minirun, 195)
    assert [minirun("gpu", "why", *kind, "g").returncode for kind in kinds] == [1, 1, 1]
    assert minirun("gpu", "why", "--repair", "g").returncode == 0


def test_one_way_of_printing_it(minirun: Program) -> None:
    done = minirun("gpu", "why", "--path", "--json", "g")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert "with --path" in done.stderr


@pytest.mark.parametrize(("text", "said"), [
    ('[nvidia-container-runtime]\nmode = "cdi"\n', 'mode "cdi" ({file}, line 2)'),
    ('nvidia-container-runtime = {mode = "cdi"}\n', 'mode "cdi" ({file})'),
    ('[other]\nmode = "x"\n', 'mode "auto" ({file}), which is jit-cdi for a variable'),
    ("mode =\n", "NVIDIA's toolkit: {file}: "),
])  # fmt: skip
def test_the_line_of_the_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    file = tmp_path / "nvidia-container-runtime/config.toml"
    file.parent.mkdir()
    file.write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert said.format(file=file) in toolkits_mode()
