"""`minirun gpu diff`: what the two modes would do, held against what they did."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu import images

DRIVER = ("--gpu-driver", "simulated")


def document(program: Program, *args: str) -> dict[str, Any]:
    done = program("gpu", "diff", "--json", *DRIVER, *args)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def given(program: Program, mode: str) -> dict[str, Any]:
    """What a container of that mode was given, by its own record."""
    flags = ("--name", mode, "--gpus", "0,1", *DRIVER, "--gpu-mode", mode)
    done = program("run", *flags, "debian", "true")
    assert done.returncode == 0, done.stderr
    return json.loads((program.directory(mode) / "edits.json").read_text())


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_it_says_what_a_run_does(minirun: Program, mode: str) -> None:
    found = document(minirun, "--gpus", "0,1", "debian")[mode]
    edits = given(minirun, mode)
    nodes = {row["path"]: row["permissions"] for row in edits["deviceNodes"]}
    assert found["nodes"] == nodes
    mounts = {row["hostPath"]: row["containerPath"] for row in edits["mounts"]}
    assert found["mounts"] == {h: p for h, p in mounts.items() if not p.startswith("/proc/")}
    assert found["rules"] == [
        f"{row['type']} {row['major']}:{row['minor']} {row['permissions']}"
        for row in edits["deviceNodes"]
    ]
    if mode == "legacy":
        assert found["links"] == {row["path"]: row["target"] for row in edits["links"]}
    else:
        assert found["env"] == edits["env"]
        assert len(found["hooks"]) == len(edits["hooks"])


def test_the_facts_sheets_table(minirun: Program, tmp_path: Path) -> None:
    env = ("NVIDIA_VISIBLE_DEVICES=0,1", "NVIDIA_DRIVER_CAPABILITIES=utility",
           "NVIDIA_REQUIRE_CUDA=cuda>=11.0")  # fmt: skip
    images.make(tmp_path / "store", "cuda", env)
    minirun.store = str(tmp_path / "store")
    found = document(minirun, "cuda")
    rows = {row["aspect"]: (row["legacy"], row["cdi"]) for row in found["differences"]}
    assert found["simulated"] is True
    assert rows["/proc/driver/nvidia"] == (
        ["a tmpfs with params, version, registry", "2 of 4 GPUs"],
        ["as on the host, but for params", "4 of 4 GPUs"],
    )
    assert rows["capabilities"][0] == ["as asked: utility"]
    assert rows["requirements"] == (["checked: cuda>=11.0"], ["not checked: cuda>=11.0"])
    assert "/dev/nvidia0 rw" in rows["nodes"][0]
    assert {"/dev/nvidia0 rwm", "/dev/nvidia-modeset rwm"} <= set(rows["nodes"][1])
    assert "NVIDIA_VISIBLE_DEVICES=void" in rows["environment"][1]
    assert any("libcuda.so.550.163.01" in path for path in rows["files"][1])
    assert not any("libcuda" in path for path in rows["files"][0])


def test_libraries_lie_elsewhere_where_the_image_is_no_debian(minirun: Program) -> None:
    found = document(minirun, "--gpus", "0", "busybox")
    (row,) = (row for row in found["differences"] if row["aspect"] == "places of the same files")
    assert row["legacy"] and all(text.endswith(" in /usr/lib64") for text in row["legacy"])


def test_the_page(minirun: Program) -> None:
    done = minirun("gpu", "diff", *DRIVER, "--gpus", "count=2", "debian")
    lines = done.stdout.splitlines()
    assert lines[0] == "debian count=2: driver 550.163.01 (SIMULATED: there is no driver)"
    assert "  legacy  NVIDIA_VISIBLE_DEVICES=0,1" in lines
    assert any("more: --all" in line for line in lines)
    whole = minirun("gpu", "diff", "--all", *DRIVER, "--gpus", "0", "debian").stdout
    assert "more: --all" not in whole


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("busybox",), "the image busybox asks for no GPU (add --gpus all)"),
        (("--gpus", "9", "busybox"), "device error: 9: unknown device"),
        (("--gpus", "x y", "busybox"), "--gpus x y: 'x y' is no gpu"),
        (("127.0.0.1:1/nosuch",), "No such image: 127.0.0.1:1/nosuch"),
    ],
)
def test_one_line(minirun: Program, args: tuple[str, ...], text: str) -> None:
    done = minirun("gpu", "diff", *DRIVER, *args)
    assert done.returncode != 0
    assert done.stderr.startswith(f"minirun: {text}")
    assert done.stderr.count("\n") == 1
