"""Figure 1: containers A (0, 1), B (0, 2, 3), C (3), and the tables that show it."""

from typing import Any

from gpu.sandbox import Sandbox
from minirun.gpu.inventory import Inventory, inventory
from minirun.gpu.usage import gpu_table, table, who_uses


def state(container: str, *names: str) -> dict[str, Any]:
    rows = [{"index": n, "uuid": f"GPU-{n}", "minor": int(n[0]), "model": "M"} for n in names]
    return {"id": container, "edits": {"gpus": rows}}


FIGURE_1 = [
    state("a", "0", "1"),
    state("b", "0", "2", "3"),
    state("c", "3"),
    {"id": "d", "edits": {}},
]


def test_figure_1() -> None:
    rows = who_uses(FIGURE_1)
    assert [(row.name, row.kind, row.containers) for row in rows] == [
        ("0", "shared", ("a", "b")),
        ("1", "dedicated", ("a",)),
        ("2", "dedicated", ("b",)),
        ("3", "shared", ("b", "c")),
    ]
    assert table(rows) == [
        "GPU  USE        CONTAINERS  UUID   MODEL",
        "0    shared     a, b        GPU-0  M",
        "1    dedicated  a           GPU-1  M",
        "2    dedicated  b           GPU-2  M",
        "3    shared     b, c        GPU-3  M",
    ]


def test_nobody_uses_any() -> None:
    assert table(who_uses([])) == ["no running container has a gpu"]


def test_the_free_ones_too(simulated: Inventory) -> None:
    gpu = simulated.gpus[2]
    given = {"index": "2", "uuid": gpu.uuid, "minor": 2, "model": gpu.model}
    rows = who_uses([{"id": "x", "edits": {"gpus": [given]}}], simulated)
    assert [row.kind for row in rows] == ["free", "free", "dedicated", "free"]
    assert table(rows)[1].split()[:3] == ["0", "free", "-"]


def test_indices_are_numbers_and_mig_devices_are_rows() -> None:
    rows = who_uses([state("a", "10", "3:1"), state("b", "2", "3:0", "3:1")])
    assert [row.name for row in rows] == ["2", "3:0", "3:1", "10"]
    assert [row.kind for row in rows] == ["dedicated", "dedicated", "shared", "dedicated"]


def test_what_stage_5_records_is_what_counts(debian: Sandbox, store: str) -> None:
    edits = debian.configure("--device=1,0", "--utility", store=store)["result"]["edits"]
    rows = who_uses([{"id": "a", "edits": edits}])
    assert [(row.name, row.kind) for row in rows] == [("0", "dedicated"), ("1", "dedicated")]


def test_the_list_of_gpus(store: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("MINIRUN_SIM", "count=2,mig=1")
    lines = gpu_table(inventory("simulated", store))
    assert lines[0] == "driver 550.163.01, CUDA 12.4 (SIMULATED: there is no driver)"
    assert [line.split()[0] for line in lines[1:]] == ["GPU", "0", "1", "1:0", "1:1", "1:2"]
    assert "/dev/nvidia0" in lines[2] and "(SIMULATED)" in lines[2]
