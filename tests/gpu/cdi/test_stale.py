"""A CDI file that is older than the driver is told in one line, wherever it is used."""

from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu.cdi.conftest import KIND, spec, write
from gpu.nvidia import toolhost
from gpu.nvidia.toolkit_cases import document
from gpu.pretend import PROC, Host
from gpu.sandbox import debian_root
from minirun.gpu.cdi import registry, stale

FOLDER = "/mnt/cdi"


@pytest.fixture
def host(driver: Path, tmp_path: Path) -> Host:
    return Host(driver, tmp_path, debian_root(tmp_path / "root"), {})


@pytest.mark.parametrize("updated", [False, True])
def test_after_an_update_of_the_driver(host: Host, updated: bool) -> None:
    def work() -> dict[str, Any]:
        made = toolhost.run("nvidia-ctk", "cdi", "generate", f"--output={FOLDER}/nvidia.yaml")
        assert made["rc"] == 0, made
        if updated:
            Path(f"{PROC}/version").chmod(0o644)
            Path(f"{PROC}/version").write_text("NVRM version: 560.35.03\n")
        toml = (
            f'[nvidia-container-runtime]\nmode = "cdi"\ndebug = "/mnt/log"\n'
            f'modes.cdi.spec-dirs = ["{FOLDER}"]\n'
        )
        done = toolhost.create(document({"NVIDIA_VISIBLE_DEVICES": "0,1"}), toml, {})
        return done | {"log": Path("/mnt/log").read_text()}

    done = host.run(work)
    assert done["rc"] == 0, done
    lines = [line for line in done["log"].splitlines() if "level=warning" in line]
    assert len(lines) == updated
    what = "is stale: it is for driver 550.163.01, and 560.35.03 is loaded; make it anew"
    assert all(what in line for line in lines)


def test_minirun_run_says_it_too(minirun: Program, tmp_path: Path) -> None:
    mount = {"hostPath": f"{tmp_path}/nosuch", "containerPath": "/x"}
    path = write(tmp_path / "cdi", "a.json", spec("a", containerEdits={"mounts": [mount]}))
    flags = ("--rm", "--cdi-spec-dir", str(path.parent), "--device", f"{KIND}=a")
    done = minirun("run", *flags, "busybox", "true")
    assert done.returncode == 125
    assert f"{path} is stale: {tmp_path}/nosuch is not there; make it anew" in done.stderr


def test_a_spec_that_was_just_made_is_not_stale() -> None:
    fresh = registry.CdiSpec("", 0, spec("a", containerEdits={"mounts": [{"hostPath": "/nosuch"}]}))
    assert stale.warnings([fresh]) == []
