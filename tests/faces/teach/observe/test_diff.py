"""A start of minirun's and an observed start of another runtime's, of one bundle, side by side."""

import os
from pathlib import Path

import pytest

from conftest import Program
from faces.teach.observe.test_runtimes import Runtime, bundle_of
from minirun.core.keeping.places import HISTORY


@pytest.mark.parametrize(
    ("name", "reason"),
    [("runc", "runc executes itself again"), ("crun", "crun's handshake has no words")],
)
def test_beside_minirun(
    name: str, reason: str, reachable: Program, layer: Path, tmp_path: Path
) -> None:
    runtime = Runtime(name, reachable, tmp_path)
    bundle = bundle_of(layer)
    done, _ = runtime.seen("run", "--bundle", str(bundle.path), f"beside-{os.getpid()}")
    assert done.returncode == 0, done.stderr
    done = reachable("run", "--bundle", str(bundle.path), f"beside-{os.getpid()}")
    (own,) = (reachable.root / HISTORY).glob("*.jsonl")
    assert done.returncode == 0, done.stderr
    compared = reachable("diff", str(own), str(runtime.log))
    assert (compared.returncode, compared.stderr) == (1, "")
    heads = [line.split()[:2] for line in compared.stdout.splitlines() if line[:1].isdigit()]
    assert [head[0] for head in heads] == sorted(head[0] for head in heads), "stage by stage"
    assert {"1", "2", "6", "7"} <= {head[0] for head in heads}
    assert reason in " ".join(compared.stdout.split())
    assert "mount proc on" not in compared.stdout
