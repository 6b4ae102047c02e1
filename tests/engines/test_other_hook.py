"""Hooks of the name nvidia-container-runtime-hook: whose are taken in-line, and whose executed."""

from pathlib import Path
from typing import Any

import pytest

from conftest import skip
from minirun.gpu import driverroot
from spec.conftest import Bundle, bundle

__all__ = ["bundle"]
HOOK = "nvidia-container-runtime-hook"


@pytest.fixture(autouse=True)
def no_driver() -> None:
    if driverroot.is_loaded():
        skip("NVIDIA's module is loaded on this machine")


def asking(folder: Path, content: str, *env: str) -> dict[str, Any]:
    """What config.json has of a hook with this program, and of a container that asks for GPU 0."""
    hook = folder / HOOK
    hook.write_text(content)
    hook.chmod(0o755)
    row = {"path": str(hook), "args": [HOOK, "prestart"], "env": ["PATH=/usr/bin:/bin", *env]}
    visible = ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0"]
    return {"hooks": {"prestart": [row]}, "process__env": visible}


def script(folder: Path) -> str:
    return f"#!/bin/sh\ncat > {folder}/state\n"


def test_one_of_ones_own_is_executed(bundle: Bundle, tmp_path: Path) -> None:
    assert bundle.says("echo ran", **asking(tmp_path, script(tmp_path))) == "ran"
    assert '"status":"creating"' in (tmp_path / "state").read_text().replace(" ", "")
    names = [event["name"] for event in bundle.program.events()]
    assert "nvidia-container-cli" not in names


def test_with_something_simulated_it_is_taken_in_line(bundle: Bundle, tmp_path: Path) -> None:
    asked = asking(tmp_path, script(tmp_path), "MINIRUN_SIM=count=1")
    assert bundle.says("ls /dev/nvidia0", **asked) == "/dev/nvidia0"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("whose", ["github.com/NVIDIA/nvidia-container-toolkit", "minirun"])
def test_nvidias_and_miniruns_are_taken_in_line(bundle: Bundle, tmp_path: Path, whose: str) -> None:
    asked = asking(tmp_path, f"{script(tmp_path)}# {whose}\n")
    assert "no nvidia driver is loaded" in bundle.run("true", **asked).stderr
    assert not (tmp_path / "state").exists()


def test_one_that_is_not_there_is_taken_in_line(bundle: Bundle, tmp_path: Path) -> None:
    asked = asking(tmp_path, script(tmp_path))
    (tmp_path / HOOK).unlink()
    assert "no nvidia driver is loaded" in bundle.run("true", **asked).stderr
