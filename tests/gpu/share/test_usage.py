"""Figure 1: containers A (0, 1), B (0, 2, 3), C (3), and the tables that show it."""

from typing import Any

from minirun.faces.commands.gpu import gpu_table, use_table
from minirun.gpu.drivers import inventory
from minirun.gpu.share import Holder
from minirun.gpu.share.usage import who_uses


def holds(container: str, *names: str, exclusive: bool = False) -> list[Holder]:
    return [
        Holder(name, "simulated", container, "today", exclusive, f"GPU-{name}", "M")
        for name in names
    ]


FIGURE_1 = [*holds("a", "0", "1"), *holds("b", "0", "2", "3"), *holds("c", "3")]


def test_figure_1() -> None:
    rows = who_uses(FIGURE_1)
    assert [(row.name, row.kind, row.containers) for row in rows] == [
        ("0", "shared", ("a", "b")),
        ("1", "dedicated", ("a",)),
        ("2", "dedicated", ("b",)),
        ("3", "shared", ("b", "c")),
    ]
    assert use_table(rows).splitlines() == [
        "GPU  USE        CONTAINERS  UUID   MODEL",
        "0    shared     a, b        GPU-0  M",
        "1    dedicated  a           GPU-1  M",
        "2    dedicated  b           GPU-2  M",
        "3    shared     b, c        GPU-3  M",
        "shared: their processes take turns (minirun gpu timeslice), but for clients of MPS",
    ]


def test_an_exclusive_one() -> None:
    rows = who_uses([*holds("a", "0", exclusive=True), *holds("b", "1")])
    assert [row.kind for row in rows] == ["exclusive", "dedicated"]


def test_nobody_uses_any() -> None:
    assert use_table(who_uses([])) == "no running container has a gpu\n"


def test_indices_are_numbers_and_mig_devices_are_rows() -> None:
    rows = who_uses([*holds("a", "10", "3:1"), *holds("b", "2", "3:0", "3:1")])
    assert [row.name for row in rows] == ["2", "3:0", "3:1", "10"]
    assert [row.kind for row in rows] == ["dedicated", "dedicated", "shared", "dedicated"]


def test_the_same_index_of_another_driver_is_another_gpu() -> None:
    other = Holder("0", "amd", "b", "today", False, "0x1", "MI300")
    rows = who_uses([*holds("a", "0"), other])
    assert [(row.containers, row.kind) for row in rows] == [
        (("b",), "dedicated"), (("a",), "dedicated"),
    ]  # fmt: skip


def test_the_list_of_gpus(store: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("MINIRUN_SIM", "count=2,mig=1")
    lines = gpu_table(inventory("simulated", store)).splitlines()
    assert lines[0] == "driver 550.163.01, CUDA 12.4 (SIMULATED: there is no driver)"
    assert [line.split()[0] for line in lines[1:]] == ["GPU", "0", "1", "1:0", "1:1", "1:2"]
    assert "/dev/nvidia0" in lines[2] and "(SIMULATED)" in lines[2]
