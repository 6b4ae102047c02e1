"""Exclusive GPUs, and counts: one table under a lock, whose rows count while containers run."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, killed, wait_until
from minirun.common import naming
from minirun.core.errors import GPUError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.gpu import share
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.share import Holder, count
from records import whole

SIMULATED = ("--gpu-driver", "simulated")
WHO = "minirun gpu ps shows who has which"
TODAY, TOMORROW = "2026-01-01T00:00:00.000000000Z", "2026-01-02T00:00:00.000000000Z"
FOUR = ["0", "1", "2", "3"]


def pick(root: str, ask: GpuSelector, container: str = "") -> list[str]:
    settings = Settings(root, f"{root}-store", root_is_named=True)
    return count.choose(ask, FOUR, "simulated", (settings, container), "")


def live(root: Path, name: str, created: str = TODAY, **changes: object) -> None:
    """Write down a container that runs: its init is this process."""
    (root / name).mkdir(parents=True, exist_ok=True)
    record = whole(f"{root}/{name}", created=created, **changes)
    state.save(f"{root}/{name}", record)


def in_child(work: Callable[[], bool]) -> int:
    """Do it in a process of its own, which ends then; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(not work())
        finally:
            os._exit(2)
    return pid


def hold(root: str, tell: int) -> bool:
    """Hold the lock for a long time, and say so."""
    with share.Locked(root):
        os.write(tell, b"x")
        time.sleep(60)
    return False


def row(gpu: str, name: str, created: str = TODAY, **more: Any) -> Holder:
    return Holder(gpu, more.pop("driver", "simulated"), name, created, **more)


# --- the table ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0", "0", True), ("0", "1", False), ("1", "10", False), ("3", "3:0", True),
        ("3:1", "3", True), ("3:0", "3:0", True), ("3:0", "3:1", False), ("3:0", "0", False),
    ],
)  # fmt: skip
def test_a_mig_device_is_a_part_of_its_gpu(one: str, other: str, same: bool) -> None:
    assert share.overlap(one, other) is same


def test_who_shares_is_said(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        live(tmp_path, name)
    assert share.claim(str(tmp_path), [row("0", "a"), row("1", "a")]) == {}
    assert share.claim(str(tmp_path), [row("0", "b"), row("2", "b")]) == {"0": ["a"]}
    assert share.claim(str(tmp_path), [row("0", "c")]) == {"0": ["a", "b"]}
    held = [(holder.gpu, holder.container) for holder in share.holders(str(tmp_path))]
    assert held == [("0", "a"), ("1", "a"), ("0", "b"), ("2", "b"), ("0", "c")]


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        ("0!", "0", "gpu 0 is exclusive to container 'a'"),
        ("0!", "0!", "gpu 0 is exclusive to container 'a'"),
        ("0", "0!", "gpu 0 cannot be exclusive: container 'a' has it"),
        ("3:0!", "3", "gpu 3:0 is exclusive to container 'a'"),
        ("3!", "3:1", "gpu 3 is exclusive to container 'a'"),
        ("3:0", "3!", "gpu 3 cannot be exclusive: container 'a' has 3:0"),
        ("3", "3:0!", "gpu 3:0 cannot be exclusive: container 'a' has 3"),
        ("3:0!", "3:1!", ""),
        ("0!", "1", ""),
    ],
)
def test_exclusive_on_either_side(tmp_path: Path, first: str, second: str, line: str) -> None:
    rows = []
    for name, text in (("a", first), ("b", second)):
        live(tmp_path, name)
        rows.append(row(text.rstrip("!"), name, exclusive=text.endswith("!")))
    share.claim(str(tmp_path), rows[:1])
    if not line:
        assert share.claim(str(tmp_path), rows[1:]) == {}
        return
    with pytest.raises(GPUError) as caught:
        share.claim(str(tmp_path), rows[1:])
    assert str(caught.value) == line
    assert WHO in caught.value.hint
    assert [holder.container for holder in share.holders(str(tmp_path))] == ["a"]


def test_another_driver_counts_from_0_too(tmp_path: Path) -> None:
    live(tmp_path, "a")
    share.claim(str(tmp_path), [row("0", "a", exclusive=True)])
    assert share.claim(str(tmp_path), [row("0", "b", driver="amd", exclusive=True)]) == {}


@pytest.mark.parametrize("gone", ["deleted", "stopped", "made anew"])
def test_a_row_counts_while_its_container_runs(tmp_path: Path, gone: str) -> None:
    live(tmp_path, "a")
    share.claim(str(tmp_path), [row("0", "a", exclusive=True)])
    if gone == "made anew":
        live(tmp_path, "a", created=TOMORROW)
    else:
        (tmp_path / "a/state.json").unlink()
    if gone == "stopped":
        live(tmp_path, "a", status=state.STOPPED, init=None)
    assert share.holders(str(tmp_path)) == []
    live(tmp_path, "b")
    share.claim(str(tmp_path), [row("0", "b", exclusive=True)])
    table = json.loads((tmp_path / ".gpus/holders.json").read_text())
    assert [holder["container"] for holder in table] == ["b"], "what does not count goes"


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".gpus").mkdir()
    (tmp_path / ".gpus/holders.json").write_text('[{"gpu": "0"}]')
    with pytest.raises(GPUError, match=r"holders\.json is damaged"):
        share.claim(str(tmp_path), [row("0", "a")])


# --- count=N -----------------------------------------------------------------------------------


def test_a_count_takes_the_least_shared(tmp_path: Path) -> None:
    for name, gpus in (("a", "0 1"), ("b", "0 2"), ("c", "0 3:0 3:1")):
        live(tmp_path, name)
        share.claim(str(tmp_path), [row(gpu, name) for gpu in gpus.split()])
    for amount, chosen in ((1, ["1"]), (2, ["1", "2"]), (3, ["1", "2", "3"]), (4, FOUR)):
        assert pick(str(tmp_path), GpuSelector(amount=amount)) == chosen


def test_a_count_goes_around_exclusive_ones(tmp_path: Path) -> None:
    for name, gpu, exclusive in (("a", "0", True), ("b", "1", False), ("c", "3:1", True)):
        live(tmp_path, name)
        share.claim(str(tmp_path), [row(gpu, name, exclusive=exclusive)])
    assert pick(str(tmp_path), GpuSelector(amount=1)) == ["2"]
    assert pick(str(tmp_path), GpuSelector(amount=2)) == ["1", "2"]
    assert pick(str(tmp_path), GpuSelector(amount=1, exclusive=True)) == ["2"]
    for ask, line in (
        (GpuSelector(amount=3), "--gpus count=3: 2 of 4 can be given"),
        (GpuSelector(amount=2, exclusive=True), "--gpus count=2,exclusive: 1 of 4 can be given"),
    ):
        with pytest.raises(GPUError) as caught:
            pick(str(tmp_path), ask)
        assert str(caught.value) == line
        assert "container 'a' has 0" in caught.value.hint and WHO in caught.value.hint


def test_a_choice_is_reserved_as_long_as_its_maker_lives(tmp_path: Path) -> None:
    root, ask = str(tmp_path / "root"), GpuSelector(amount=1, exclusive=True)
    pid = in_child(lambda: pick(root, ask, "a") == ["0"])
    assert os.waitpid(pid, 0)[1] == 0
    assert pick(root, ask, "b") == ["0"], "the child is dead"
    assert pick(root, ask, "c") == ["1"], "this process lives"
    assert share.holders(root) == [], "nobody has it yet"
    live(tmp_path / "root", "b")
    share.claim(root, [row("0", "b", exclusive=True)])
    assert [holder.container for holder in share.holders(root)] == ["b"]


# --- containers --------------------------------------------------------------------------------


def sleeper(program: Program, name: str, gpus: str, *flags: str, **options: Any) -> None:
    args = ("run", "-d", "--name", name, "--gpus", gpus, *SIMULATED, *flags, "busybox")
    done = program(*args, "sleep", "60", **options)
    assert done.returncode == 0, done.stderr


def refused(program: Program, gpus: str, *flags: str, **options: Any) -> str:
    """Run with GPUs that cannot be given; return the one line, and see that nothing stays."""
    before = sorted(program.root.glob("[!.]*"))
    gpus = f"device={gpus}" if gpus.isdigit() else gpus  # of a number alone a line more is said
    args = ("run", "--rm", "--gpus", gpus, *SIMULATED, *flags, "busybox", "true")
    done = program(*args, **options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
    assert sorted(program.root.glob("[!.]*")) == before
    return done.stderr


def test_an_exclusive_gpu_is_protected(minirun: Program) -> None:
    sleeper(minirun, "a", "0,exclusive")
    for gpus in ("0", "all", "0,1", "0,exclusive"):
        assert "gpu 0 is exclusive to container 'a' (" in refused(minirun, gpus)
    assert "3 of 4 can be given (container 'a' has 0" in refused(minirun, "count=4")
    sleeper(minirun, "b", "count=1")
    table = minirun("gpu", "ps").stdout.splitlines()
    assert [line.split()[:3] for line in table[1:]] == [
        ["0", "exclusive", "a"], ["1", "dedicated", "b"],
    ]  # fmt: skip
    assert "gpu 1 cannot be exclusive: container 'b' has it" in refused(minirun, "1,exclusive")
    assert "container 'a' has 0" in refused(minirun, "count=3,exclusive")
    minirun("delete", "--force", "a")
    sleeper(minirun, "c", "0,1")


def test_the_log_says_who_shares(minirun: Program) -> None:
    sleeper(minirun, "a", "0,1")
    sleeper(minirun, "b", "1,2")
    sleeper(minirun, "c", "3,exclusive")
    notes = {
        name: [(event["name"], event["args"], event["stage"]) for event in minirun.events(name)
               if str(event["name"]).startswith("gpu ")]
        for name in ("a", "b", "c")
    }  # fmt: skip
    assert notes == {
        "a": [],
        "b": [("gpu shared", {"gpu": "1", "with": ["a"]}, 5)],
        "c": [("gpu exclusive", {"gpus": ["3"]}, 5)],
    }


def test_mig_devices(minirun: Program) -> None:
    env = {"MINIRUN_SIM": "mig=3"}
    sleeper(minirun, "a", "3:0,exclusive", env=env)
    sleeper(minirun, "b", "3:1", env=env)
    assert "gpu 3:0 is exclusive to container 'a'" in refused(minirun, "3", env=env)
    assert "gpu 3:1 cannot be exclusive" in refused(minirun, "3:1,exclusive", env=env)
    sleeper(minirun, "c", "count=3", env=env)
    given = json.loads((minirun.directory("c") / "edits.json").read_text())["gpus"]
    assert [gpu["index"] for gpu in given] == ["0", "1", "2"]


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_both_modes_keep_the_same_books(minirun: Program, mode: str) -> None:
    other = {"legacy": "cdi", "cdi": "legacy"}[mode]
    sleeper(minirun, "a", "0,exclusive", "--gpu-mode", mode)
    assert "gpu 0 is exclusive to container 'a'" in refused(minirun, "0", "--gpu-mode", other)
    sleeper(minirun, "b", "count=1", "--gpu-mode", other)
    sleeper(minirun, "c", "count=1", "--gpu-mode", mode)
    table = minirun("gpu", "ps").stdout.splitlines()
    assert [line.split()[:3] for line in table[1:]] == [
        ["0", "exclusive", "a"], ["1", "dedicated", "b"], ["2", "dedicated", "c"],
    ]  # fmt: skip


def test_an_installed_hooks_gpus_count_too(minirun: Program, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-container-runtime-hook").symlink_to(minirun.path)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    sleeper(minirun, "a", "2,exclusive", "--gpu-mode=hook", env=env)
    assert "gpu 2 is exclusive to container 'a'" in refused(minirun, "all")
    assert "gpu 2 is exclusive" in refused(minirun, "2", "--gpu-mode=hook", env=env)


def test_for_a_bundle_a_flag_says_it(minirun: Program, tmp_path: Path, layer: Path) -> None:
    done = minirun("spec", "--gpus", "1,exclusive", *SIMULATED, "busybox", "sleep", "60")
    (tmp_path / "config.json").write_text(done.stdout)
    name = f"x-{os.getpid()}"
    flags = ("--gpu-exclusive", *SIMULATED)
    create = minirun.argv(*flags, "create", "--bundle", str(tmp_path), name)
    subprocess.run(create, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    assert f"gpu 1 is exclusive to container '{name}'" in refused(minirun, "1")
    minirun("delete", "--force", name)
    assert minirun("run", "--rm", "--gpus", "1", *SIMULATED, "busybox", "true").returncode == 0


def test_spec_reserves_nothing(minirun: Program) -> None:
    for _ in range(2):
        done = minirun("spec", "--gpus", "count=3,exclusive", *SIMULATED, "busybox", "true")
        assert "NVIDIA_VISIBLE_DEVICES=0,1,2" in done.stdout
    assert not minirun.root.exists()


def test_runs_at_the_same_moment_get_a_gpu_each(minirun: Program) -> None:
    args = ("run", "--rm", "--gpus", "count=1,exclusive", *SIMULATED, "busybox", "sleep", "60")
    running = [minirun.start(*args) for _ in range(6)]
    try:
        wait_until(lambda: sum(child.poll() is not None for child in running) == 2)
        refusals = [child.stderr.read() for child in running if child.poll() is not None]
        assert all("0 of 4 can be given" in line for line in refusals)
        wait_until(lambda: minirun("gpu", "ps").stdout.count("exclusive") == 4)
    finally:
        minirun.clean()
        for child in running:
            child.communicate()


def test_of_two_that_want_the_same_gpu_one_gets_it(minirun: Program) -> None:
    for asked in (("0,exclusive", "0,exclusive"), ("all", "2,exclusive")):
        script = ("busybox", "sleep", "1")
        running = [minirun.start("run", "--rm", "--gpus", g, *SIMULATED, *script) for g in asked]
        said = [child.communicate()[1] for child in running]
        assert sorted(child.returncode for child in running) == [0, 125], said


def test_what_is_killed_holds_nothing(minirun: Program) -> None:
    sleeper(minirun, "a", "0,exclusive")
    record = naming.record_of(str(minirun.root), "a")
    killed(record.supervisor["pid"], record.first_process()["pid"])
    assert minirun("gpu", "ps").stdout == "no running container has a gpu\n"
    sleeper(minirun, "b", "0,exclusive")


def test_killed_while_it_holds_the_lock(minirun: Program) -> None:
    root = str(minirun.root)
    said, tell = os.pipe()
    pid = in_child(lambda: hold(root, tell))
    os.close(tell)
    assert os.read(said, 1) == b"x"
    waiting = minirun.start("run", "--rm", "--gpus", "count=1", *SIMULATED, "busybox", "true")
    time.sleep(0.2)
    assert waiting.poll() is None, "it waits for the lock"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert waiting.communicate()[1] == "" and waiting.returncode == 0
    os.close(said)
