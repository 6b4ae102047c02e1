"""--ipc shareable and --ipc container:ID: one IPC namespace, and one /dev/shm."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from conftest import Program, wait_until
from minirun.common import naming
from minirun.core.keeping import state

JOINED = "--ipc=container:donor"


def mounted(program: Program) -> list[str]:
    """The mounts of the host below the state root."""
    lines = Path("/proc/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(f"{program.root}/")]


def supervisor(program: Program, name: str) -> int:
    return naming.record_of(str(program.root), name).supervisor["pid"]


def test_a_segment_of_system_v_is_shared(minirun: Program) -> None:
    made = minirun("run", "-d", "--name=donor", "--ipc=shareable", "debian", "sleep", "99")
    assert made.returncode == 0, made.stderr
    assert minirun("exec", "donor", "ipcmk", "-M", "4096").returncode == 0
    for flag, rows in ((JOINED, 2), ("--ipc=private", 1)):
        shown = minirun("run", "--rm", flag, "debian", "cat", "/proc/sysvipc/shm").stdout
        assert len(shown.splitlines()) == rows, flag


def test_a_private_one_is_not_joined(minirun: Program) -> None:
    minirun("run", "-d", "--name=donor", "busybox", "sleep", "99")
    done = minirun("run", JOINED, "busybox", "true")
    said = (
        "can't join IPC of container donor: non-shareable IPC (run that one with --ipc shareable)"
    )
    assert (done.returncode, done.stderr) == (125, f"minirun: {said}\n")
    assert minirun.left() == ["donor"]


def test_what_lies_on_dev_shm_in_the_donor_is_not_what_is_joined(minirun: Program) -> None:
    """The donor's mount namespace is its own: the joiner gets the tmpfs of the host's side."""
    words = ("--name=donor", "--ipc=shareable", "--privileged", "busybox", "sh", "-c")
    script = "rm -r /dev/shm/*; mount -t tmpfs lie /dev/shm; ln -s / /dev/shm/x; sleep 99"
    minirun("run", "-d", *words, script)
    is_over = "grep -c 'lie /dev/shm' /proc/mounts"
    wait_until(lambda: minirun("exec", "donor", "sh", "-c", is_over).stdout == "1\n")
    assert minirun("run", "--rm", JOINED, "busybox", "ls", "/dev/shm").stdout == ""


@pytest.mark.parametrize("flags", [("--rm",), ()])
def test_gc_after_sigkill(minirun: Program, flags: tuple[str, ...]) -> None:
    minirun("run", "-d", *flags, "--name=donor", "--ipc=shareable", "busybox", "sleep", "99")
    assert mounted(minirun) == [f"{minirun.directory('donor')}/shm"]
    pid = supervisor(minirun, "donor")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not state.is_alive(naming.record_of(str(minirun.root), "donor").supervisor))
    assert minirun("gc").returncode == 0
    assert not mounted(minirun)
    assert minirun.left() == ([] if flags else ["donor"])


def test_a_damaged_record_leaves_no_mount(minirun: Program) -> None:
    minirun("run", "-d", "--name=donor", "--ipc=shareable", "busybox", "sleep", "99")
    (minirun.directory("donor") / "state.json").write_text("{")
    done = minirun("delete", "--force", "donor")
    assert done.returncode == 0, done.stderr
    assert not mounted(minirun) and not minirun.left()


def test_in_a_user_namespace(reachable: Program) -> None:
    words = ("--uidmap=0:100000:65536", "--ipc=shareable", "busybox", "sh", "-c")
    done = reachable(
        "run", "--rm", *words, "echo a > /dev/shm/f && cat /dev/shm/f && rm /dev/shm/f"
    )
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr
    assert not mounted(reachable)


def test_a_dry_run_mounts_nothing_and_a_bundle_cannot_share(minirun: Program) -> None:
    assert minirun("run", "--dry-run", "--ipc=shareable", "busybox", "true").returncode == 0
    assert not mounted(minirun)
    done = minirun("spec", "--ipc=shareable", "busybox", "true")
    assert done.returncode != 0 and "--ipc shareable is for run and create" in done.stderr
