"""runc with minirun's nvidia-container-runtime-hook, and minirun's nvidia-container-runtime."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from engines.clients.conftest import HOOK_FAILED, NO_DEVICE, NODES, REFUSED, SCRIPT, check, said
from engines.clients.engine import program
from program import forget_root

Bundle = Callable[..., Path]
MODESET = "nvidia-modeset"
"""In cdi mode every container gets it: capabilities do not count."""


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
    assert re.search(HOOK_FAILED, done.stderr) and "9: unknown device" in done.stderr


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
    assert re.search(HOOK_FAILED, done.stderr) and "libnvidia-ml.so.1" in done.stderr


def configure(path: Path, text: str) -> dict[str, str]:
    """Write a config.toml; return the environment in which it is read."""
    folder = path / "etc/nvidia-container-runtime"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(path / "etc")}


def run(runtime: Runc, bundle: Path, name: str, tmp_path: Path) -> tuple[list[str], str]:
    """Create, start, wait, delete, as an engine does; return the lines of stdout, and stderr."""
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        argv = [*runtime.argv, "create", "--bundle", str(bundle), name]
        env = os.environ | runtime.env
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)
    assert done.returncode == 0, (tmp_path / "err").read_text()
    assert runtime("start", name).returncode == 0
    wait_until(lambda: json.loads(runtime("state", name).stdout)["status"] == "stopped")
    assert runtime("delete", name).returncode == 0
    return (tmp_path / "out").read_text().splitlines(), (tmp_path / "err").read_text()


def test_runc_behind_minirun_as_nvidia_container_runtime(
    minirun: Program, runc: Runc, bundle: Bundle, name: str, tmp_path: Path
) -> None:
    """The wrapper puts the hook in; config.toml asks for the simulated driver."""
    env = configure(
        tmp_path,
        'nvidia-container-cli.environment = ["MINIRUN_SIM=count=4"]\n'
        'nvidia-container-runtime = {mode = "legacy", runtimes = ["runc"]}\n'
        'nvidia-container-runtime-hook.path = "minirun-has-no-such-name"\n',
    )
    path = bundle("sh", "-c", SCRIPT, hooks={})
    wrapper = Runc([minirun.path, "nvidia-container-runtime"], tmp_path / "runc", env)
    lines, err = run(wrapper, path, name, tmp_path)
    row = json.loads((path / "config.json").read_text())["hooks"]["prestart"][0]
    assert row["args"][1:] == ["nvidia-container-runtime-hook", "prestart"]
    check("\n".join(lines), err)


@pytest.mark.parametrize("underneath", ["minirun", "runc"])
def test_mode_auto_puts_everything_into_config_json(
    minirun: Program, runc: Runc, bundle: Bundle, name: str, tmp_path: Path, underneath: str
) -> None:
    """No hook of stage 3: edits of CDI devices, made on the spot; minirun or runc underneath."""
    path = minirun.path if underneath == "minirun" else runc.argv[0]
    env = configure(tmp_path, f'nvidia-container-runtime.runtimes = ["{path}"]\n')
    env["MINIRUN_SIM"] = "count=4"
    wrapper = Runc([minirun.path, "nvidia-container-runtime"], tmp_path / "state", env)
    made = bundle("sh", "-c", SCRIPT, hooks={})
    lines, err = run(wrapper, made, name, tmp_path)
    assert [line for line in lines if line.startswith("nvidia")] == sorted([*NODES, MODESET])
    assert [line[:6] for line in lines if line.startswith("GPU ")] == ["GPU 0:", "GPU 1:"]
    assert len([line for line in lines if line.startswith("0000:")]) == 4, "cdi hides none of them"
    assert REFUSED in said(err, "/dev/other") and NO_DEVICE in said(err, "/dev/nvidia1")
    config = json.loads((made / "config.json").read_text())
    assert set(config["hooks"]) == {"createContainer"}
    forget_root(tmp_path / "state")


def test_runc_gets_a_cdi_device_of_a_spec_file(
    minirun: Program, runc: Runc, bundle: Bundle, name: str, tmp_path: Path
) -> None:
    edits = {"env": ["GIVEN=1"], "deviceNodes": [{"path": "/dev/given", "hostPath": "/dev/zero"}]}
    spec = {"cdiVersion": "0.5.0", "kind": "vendor.com/class"}
    spec |= {"devices": [{"name": "a", "containerEdits": edits}]}
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/v.json").write_text(json.dumps(spec))
    env = configure(
        tmp_path,
        'nvidia-container-runtime.runtimes = ["runc"]\n'
        f'nvidia-container-runtime.modes.cdi.spec-dirs = ["{tmp_path}/cdi"]\n',
    )
    wrapper = Runc([minirun.path, "nvidia-container-runtime"], tmp_path / "runc", env)
    script = "echo $GIVEN; head -c 3 /dev/given | wc -c"
    made = bundle("sh", "-c", script, hooks={}, annotations={"cdi.k8s.io/x": "vendor.com/class=a"})
    lines, err = run(wrapper, made, name, tmp_path)
    assert ([line.strip() for line in lines], err) == (["1", "3"], "")
