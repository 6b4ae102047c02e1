"""What is told of two snapshots."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from minirun.core.errors import UsageError
from minirun.faces.show.compare import as_text, snapshots


def snapshot(files: list[str], **more: Any) -> dict[str, Any]:
    return {"files": files, "namespaces": {}, "mounts": [], "devices": [], "processes": {}, **more}


OLD = snapshot(["./dev/", "./dev/null c 1:3", "./etc/x", "./lib64 -> usr/lib64", "./proc/driver/"])
NEW = snapshot(["./dev/", "./dev/null c 1:3", "./dev/nvidia0 c 195:0", "./etc/y", "./etc/z",
                "./lib64 -> usr/lib64"])  # fmt: skip


def test_each_part_has_what_went_and_what_came() -> None:
    old = {**OLD, "namespaces": {"mount": "mnt:[1]"}, "processes": {"init": _process(["0 /dev/x"])}}
    new = {**NEW, "namespaces": {"mount": "mnt:[2]"}, "processes": {"init": _process([])}}
    parts = {each.part: (each.gone, each.new) for each in snapshots.compare(old, new)}
    assert parts["namespaces"] == (["mount mnt:[1]"], ["mount mnt:[2]"])
    assert parts["files"][1] == ["./dev/nvidia0 c 195:0", "./etc/y", "./etc/z"]
    assert parts["processes"] == (["init descriptor 0 /dev/x"], [])
    assert parts.keys() == {"namespaces", "files", "processes"}, "those that are equal have none"
    text = as_text.of_snapshots(snapshots.compare(old, new), snapshots.PARTS)
    assert "mounts:\n  the same\n" in text
    heads = [line[:-1] for line in text.splitlines() if line[0] not in "<> "]
    assert heads == list(snapshots.PARTS)


def _process(descriptors: list[str]) -> dict[str, Any]:
    return {"pid": 1, "name": "x", "capabilities": "0x0", "descriptors": descriptors}


@pytest.mark.skipif(not shutil.which("diff"), reason="diff(1) is not installed")
@pytest.mark.parametrize(("old", "new"), [(OLD, NEW), (NEW, OLD), (OLD, OLD), (snapshot([]), NEW)])
def test_the_normal_form_is_what_diff_prints(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any]
) -> None:
    for name, one in (("before.txt", old), ("after.txt", new)):
        lines = [line.split(" ")[0].rstrip("/") for line in one["files"]]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    done = subprocess.run(
        ["diff", "before.txt", "after.txt"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert as_text.of_files(old, new) == done.stdout


def test_what_a_terminal_would_obey_is_shown_as_text() -> None:
    shown = as_text.of_snapshots(
        snapshots.compare(OLD, snapshot(["./\x1b[31mred"])), snapshots.PARTS
    )
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown


@pytest.mark.parametrize(
    ("between", "stage", "boundaries"),
    [
        ("s4,s5", "", ("4:end", "5:end")),
        ("1:begin,7:end", "", ("1:begin", "7:end")),
        ("", "5", ("5:begin", "5:end")),
        ("", "s7", ("7:begin", "7:end")),
    ],
)
def test_which_boundaries_are_meant(between: str, stage: str, boundaries: tuple[str, str]) -> None:
    assert snapshots.boundaries(between, stage) == boundaries


@pytest.mark.parametrize(("between", "stage"), [("s4", ""), ("s4,s8", ""), ("", "0"), ("", "x")])
def test_a_stage_that_there_is_not(between: str, stage: str) -> None:
    with pytest.raises(UsageError):
        snapshots.boundaries(between, stage)
