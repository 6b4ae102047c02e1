"""runc with minirun's nvidia-container-runtime-hook, and minirun's nvidia-container-runtime."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.conftest import SCRIPT, check, program
from conftest import Program

Bundle = Callable[..., Path]


class Runc:
    """runc, or a program in its place, with a state root of its own."""

    def __init__(self, argv: list[str], root: Path, env: dict[str, str]) -> None:
        self.argv = [*argv, "--root", str(root)]
        self.env = env

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.argv, *args], capture_output=True, text=True, check=False, timeout=60,
            env=os.environ | self.env, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def name() -> str:
    return f"minirun-test-{os.getpid()}"


@pytest.fixture
def runc(tmp_path: Path, name: str) -> Iterator[Runc]:
    found = Runc([program("runc")], tmp_path / "runc", {})
    yield found
    found("delete", "--force", name)


def test_runc_with_minirun_as_hook(runc: Runc, bundle: Bundle, name: str) -> None:
    done = runc("run", "--bundle", str(bundle("sh", "-c", SCRIPT)), name)
    check(done.stdout, done.stderr)


def test_the_rules_in_runcs_cgroup(runc: Runc, bundle: Bundle, name: str, tmp_path: Path) -> None:
    if not os.path.isdir("/sys/fs/cgroup/devices"):
        pytest.skip("runc uses cgroup2 here: test_runc_with_minirun_as_hook opens the nodes")
    with open(tmp_path / "out", "w") as out:  # runc's container would keep a pipe open
        argv = [*runc.argv, "run", "-d", "--bundle", str(bundle("sleep", "60", gpus="0,2")), name]
        subprocess.run(argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL, check=True)
    rules = Path(f"/sys/fs/cgroup/devices/minirun-client-{os.getpid()}/devices.list").read_text()
    found = {line for line in rules.splitlines() if line.startswith(("c 195:", "c 510:"))}
    assert found == {f"c {n} rw" for n in ("195:0", "195:2", "195:255", "510:0", "510:1")}


def test_a_gpu_that_is_not_there(runc: Runc, bundle: Bundle, name: str) -> None:
    done = runc("run", "--bundle", str(bundle("true", gpus="9")), name)
    assert done.returncode == 1
    assert "error running hook" in done.stderr and "9: unknown device" in done.stderr


def test_a_container_that_asks_for_none(runc: Runc, bundle: Bundle, name: str) -> None:
    done = runc("run", "--bundle", str(bundle("ls", "/dev", gpus="void")), name)
    assert done.returncode == 0 and "nvidia" not in done.stdout


def test_without_an_explicit_wish_nothing_is_simulated(
    runc: Runc, bundle: Bundle, name: str
) -> None:
    if os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("this machine has a driver")
    folder = bundle("true")
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    config["hooks"]["prestart"][0]["env"] = []
    (folder / "config.json").write_text(json.dumps(config))
    done = runc("run", "--bundle", str(folder), name)
    assert done.returncode == 1
    assert "error running hook" in done.stderr and "libnvidia-ml.so.1" in done.stderr


def test_runc_behind_minirun_as_nvidia_container_runtime(
    minirun: Program, runc: Runc, bundle: Bundle, name: str, tmp_path: Path
) -> None:
    """The wrapper puts the hook in; config.toml asks for the simulated driver."""
    folder = tmp_path / "etc/nvidia-container-runtime"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        'nvidia-container-cli.environment = ["MINIRUN_SIM=count=4"]\n'
        'nvidia-container-runtime = {mode = "legacy", runtimes = ["runc"]}\n'
        'nvidia-container-runtime-hook.path = "minirun-has-no-such-name"\n'
    )
    path = bundle("sh", "-c", SCRIPT, hooks={})
    env = {"XDG_CONFIG_HOME": str(tmp_path / "etc")}
    wrapper = Runc([minirun.path, "nvidia-container-runtime"], tmp_path / "runc", env)
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
        argv = [*wrapper.argv, "create", "--bundle", str(path), name]
        full = os.environ | env
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=full, check=True)
        assert wrapper("start", name).returncode == 0
        while json.loads(wrapper("state", name).stdout)["status"] != "stopped":
            pass
    row = json.loads((path / "config.json").read_text())["hooks"]["prestart"][0]
    assert row["args"][1:] == ["nvidia-container-runtime-hook", "prestart"]
    check((tmp_path / "out").read_text(), (tmp_path / "err").read_text())
    assert wrapper("delete", name).returncode == 0
