"""What users do with containerd, with runc below it and with minirun below it."""

import json
import re
from collections.abc import Iterator

import pytest

from engines.clients.answers import CLIENTS, Scenario
from engines.clients.containerd_engine import Ctr
from engines.clients.cri_engine import Cri
from engines.clients.scenario import Engines, compare, pair


@pytest.fixture(scope="session")
def ctrs(command: str) -> Iterator[Engines]:
    yield from pair(Ctr, command)


@pytest.fixture(scope="session")
def cris(command: str) -> Iterator[Engines]:
    yield from pair(Cri, command)


@pytest.mark.parametrize("scenario", CLIENTS["ctr"], ids=lambda s: s.__name__)
def test_ctr(scenario: Scenario, ctrs: Engines, request: pytest.FixtureRequest) -> None:
    compare("ctr", scenario, ctrs, request)


@pytest.mark.parametrize("scenario", CLIENTS["cri"], ids=lambda s: s.__name__)
def test_cri(scenario: Scenario, cris: Engines, request: pytest.FixtureRequest) -> None:
    compare("cri", scenario, cris, request)


def test_the_log_is_there(ctrs: Engines) -> None:
    """What the reference page says of `minirun timeline`: no --root, no path."""
    engine = ctrs("minirun")
    name = engine.detached()
    store = {"MINIRUN_STORE": engine.env["MINIRUN_STORE"]}

    def timeline(*args: str) -> str:
        return str(engine.cell.run(engine.minirun, "timeline", *args, env=store, check=True).stdout)

    drawn = timeline("--level=syscalls", name)
    stages = re.findall(r"(?m)^ *([1-7]) (?:runtime|init|hook|cli) ", drawn)
    assert stages == list("12367") and "pivot_root" in drawn  # without a GPU, no 4 and no 5
    engine.clean()
    row = next(line for line in timeline().splitlines() if line.startswith(name))
    assert "containerd" in row and "sleep 300" in row


def test_the_detail_of_the_log(ctrs: Engines) -> None:
    engine = ctrs("minirun")
    name = engine.detached("--annotation=io.minirun.log=stages", "sleep", "300")
    log = f"/run/containerd/runc/{engine.space}/{name}/events.jsonl"
    kinds = {json.loads(line)["kind"] for line in engine.cell.run("cat", log).stdout.splitlines()}
    engine.clean()
    assert "begin" in kinds and "syscall" not in kinds
