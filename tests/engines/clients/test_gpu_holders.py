"""Who has which GPU, where an engine gave it: by CDI, by --device, by a hook that is not minirun's.

podman uses minirun's own state root, docker names another one; `minirun` is called without --root.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from conftest import STORE
from engines.clients.engine import IMAGE, Docker, Dockerlike, Podman
from minirun.core.keeping.places import STORE as OWN

SIM = {"MINIRUN_SIM": "count=4"}
CDI = "--device=nvidia.com/gpu=1"
ONE = "--device=/run/nvidia1:/dev/nvidia1"
NODES = (
    ONE, "--device=/run/nvidiactl:/dev/nvidiactl", "--device=/run/nvidia-uvm:/dev/nvidia-uvm",
)  # fmt: skip
WHO = "minirun gpu ps shows who has which"


def fresh(engine: Dockerlike) -> None:
    """Give the cell a store of its own, the image of `minirun run`, a CDI file and nodes."""
    cell = engine.cell
    cell.run("sh", "-ec", f"mkdir -p {OWN} {engine.home}/store; "
             f"mount --bind {STORE} {engine.home}/store; mount -t tmpfs none {OWN}; "
             f"ln -s {engine.home}/store/* {OWN}; rm -f {OWN}/containers {OWN}/roots; "
             "mkdir -p /run/cdi; "
             "for n in 0 1; do mknod /run/nvidia$n c 195 $n; done; "
             "mknod /run/nvidiactl c 195 255; mknod /run/nvidia-uvm c 510 0",
             check=True)  # fmt: skip
    words = ("nvidia-ctk", "cdi", "generate", "--output=/run/cdi/nvidia.yaml")
    cell.run(engine.minirun, *words, env=SIM | {"MINIRUN_STORE": OWN}, check=True)


class _Podman(Podman):
    def set_up(self) -> None:
        fresh(self)
        super().set_up()


class _Docker(Docker):
    daemon_json: ClassVar[dict[str, Any]] = {"features": {"cdi": True}}

    def set_up(self) -> None:
        fresh(self)
        super().set_up()


@pytest.fixture(params=[_Podman, _Docker], ids=["podman", "docker"])
def engine(request: pytest.FixtureRequest, command: str) -> Iterator[Any]:
    made = request.param("minirun", command)
    yield made
    made.clean()
    made.close()


@pytest.fixture
def minirun(engine: Dockerlike) -> Callable[..., subprocess.CompletedProcess[str]]:
    """minirun, as a user of this machine types it."""
    env = SIM | {"MINIRUN_STORE": OWN, "MINIRUN_ROOT": ""}
    return lambda *args: engine.cell.run(engine.minirun, *args, env=env)


def exclusive(minirun: Any, gpus: str, *args: str) -> subprocess.CompletedProcess[str]:
    flags = ("--rm", "--gpu-driver=simulated", f"--gpus={gpus},exclusive")
    found: subprocess.CompletedProcess[str] = minirun("run", *flags, *args, "busybox", "true")
    return found


def needs_cdi(engine: Dockerlike) -> None:
    if isinstance(engine, Docker) and int(engine("version", "-f={{.Server.Version}}")[:2]) < 25:
        pytest.skip("docker knows CDI from version 25 on")


def whose(minirun: Any) -> dict[str, list[str]]:
    """GPU → what `gpu ps` says of it: use, containers."""
    lines = minirun("gpu", "ps").stdout.splitlines()[1:]
    return {line.split()[0]: line.replace(",", "").split()[1:] for line in lines if line[0] != "s"}


@pytest.mark.parametrize("flags", [(CDI,), NODES], ids=["cdi", "device"])
def test_a_gpu_of_an_engines_container(engine: Any, minirun: Any, flags: tuple[str, ...]) -> None:
    if flags == (CDI,):
        needs_cdi(engine)
    name = engine.detached(*flags, "sleep", "300")
    row = whose(minirun)["1"]
    assert row[:2] == ["dedicated", name] and "SIMULATED" in " ".join(row)
    done = exclusive(minirun, "1")
    assert done.returncode == 125 and done.stderr.count("\n") == 1, done
    assert f"gpu 1 cannot be exclusive: container {name!r} has it ({WHO})" in done.stderr
    assert exclusive(minirun, "0").returncode == 0
    assert exclusive(minirun, "count=3").returncode == 0, "it takes the others"
    assert "3 of 4 can be given" in exclusive(minirun, "count=4").stderr

    why = minirun("gpu", "why", name[:12]).stdout
    assert "GPU 1: " in why and "engine, in config.json (linux.devices): /dev/nvidia1" in why
    assert "nothing" not in why and "none: all is as it was given" in why
    (line,) = [x for x in minirun("timeline").stdout.splitlines() if x.startswith(name[:12])]
    assert " started  1 " in line, line
    engine("rm", "--force", name)
    (line,) = [x for x in minirun("timeline").stdout.splitlines() if x.startswith(name[:12])]
    assert " started  1 " in line, line
    assert exclusive(minirun, "1").returncode == 0 and whose(minirun) == {}


def test_a_gpu_without_the_nodes_beside_it(engine: Any, minirun: Any) -> None:
    """An engine's --device gives what it names: no program of the driver works with it alone."""
    name = engine.detached(ONE, "sleep", "300")
    rows = json.loads(minirun("gpu", "why", "--json", name[:12]).stdout)["differences"]
    paths = ("/dev/nvidiactl", "/dev/nvidia-uvm")
    assert [row["what"] for row in rows] == [f"{path} was not given" for path in paths]
    for path, row in zip(paths, rows, strict=True):
        assert f"--device {path}, too" in row["advice"]


def test_a_gpu_by_a_rule_alone(engine: Any, minirun: Any) -> None:
    """As another vendor's hook leaves it: the container makes, or has, the node itself."""
    name = engine.detached("--device-cgroup-rule=c 195:1 rw", "--cap-add=MKNOD", "sleep", "300")
    wide = engine.detached("--device-cgroup-rule=c 195:* rwm", "sleep", "300")
    assert whose(minirun)["1"][:2] == ["dedicated", name] and wide not in str(whose(minirun))
    assert f"container {name!r} has it" in exclusive(minirun, "1").stderr
    why = minirun("gpu", "why", name[:12]).stdout
    assert "by a rule of the cgroup: c 195:1" in why
    assert "/dev/nvidiactl was not given" in why

    rules = ("195:1", "195:255", "510:0")
    flags = (f"--device-cgroup-rule=c {numbers} rw" for numbers in rules)
    whole = engine.detached(*flags, "sleep", "300")
    assert "was not given" not in minirun("gpu", "why", whole[:12]).stdout


def test_an_exclusive_gpu_holds_in_the_engines_root(engine: Any, minirun: Any) -> None:
    flags = ("-d", "--gpu-driver=simulated", "--gpus=1,exclusive")
    done = minirun("run", "--name=own", *flags, "busybox", "sleep", "60")
    assert done.returncode == 0, done.stderr
    if isinstance(engine, Docker):
        refused = engine.error("--gpus=device=1", "true")
        assert refused.returncode != 0
        assert "gpu 1 is exclusive to container 'own'" in refused.stderr
        assert engine.run("--gpus=device=0", "echo", "given") == "given"
    minirun("delete", "--force", "own")


def test_another_roots_row(engine: Any, minirun: Any) -> None:
    """A container of stage 5 below docker's own root; and a table that cannot be read."""
    if not isinstance(engine, Docker):
        pytest.skip("podman's containers are in minirun's own root")
    name = engine.detached("--gpus=device=1", "sleep", "300")
    assert f"container {name!r} has it" in exclusive(minirun, "1").stderr
    assert whose(minirun)["1"][:2] == ["dedicated", name]
    engine("rm", "--force", name)
    table = "/run/docker/runtime-runc/moby/.gpus/holders.json"
    engine.cell.run("sh", "-ec", f"rm {table}; mkfifo {table}; chmod 700 {table}", check=True)
    done = exclusive(minirun, "1")
    assert done.returncode == 125 and "holders.json is damaged: not a regular file" in done.stderr


def test_what_a_record_says_is_not_believed(engine: Any, minirun: Any) -> None:
    name = engine.detached(ONE, "sleep", "300")
    root = f"{OWN}/containers" if isinstance(engine, Podman) else "/run/docker/runtime-runc/moby"
    path = f"{root}/{name}/config.json"
    config = json.loads(engine.cell.run("cat", path, check=True).stdout)
    wrong = {"type": "c", "path": 3, "major": "x", "minor": 2}
    for bad in ([1], [{"type": "c"}], [wrong], {"a": 1}):
        config["linux"]["devices"] = bad
        engine.cell.run("tee", path, input=json.dumps(config), check=True)
        done = minirun("gpu", "ps")
        assert done.returncode == 0 and "Traceback" not in done.stderr, done
    engine.cell.run("sh", "-ec", f"rm {path}; mkfifo {path}", check=True)
    assert minirun("gpu", "ps").returncode == 0
    assert IMAGE and f"container {name!r} has it" in exclusive(minirun, "1").stderr, "the rule"
