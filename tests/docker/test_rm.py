"""`minirun rm`: docker's way to delete containers."""

import os
import subprocess

from conftest import Program, wait_until


def test_what_has_ended_goes_and_is_named(minirun: Program) -> None:
    for name in ("a", "b"):
        assert minirun("run", "--name", name, "busybox", "true").returncode == 0
    done = minirun("rm", "a", "b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\nb\n", "")
    assert minirun.left() == []


def test_a_running_one_only_by_force(minirun: Program) -> None:
    minirun("run", "-d", "--name", "c", "busybox", "sleep", "60")
    done = minirun("rm", "c")
    assert done.returncode == 1
    assert done.stderr == (
        "minirun: cannot delete container c that is not stopped: running "
        "(minirun delete --force c)\n"
    )
    assert minirun("rm", "-f", "-v", "c").stdout == "c\n"
    wait_until(lambda: minirun.left() == [])


def test_one_that_fails_stops_none_of_the_others(minirun: Program) -> None:
    minirun("run", "-d", "--name", "a", "busybox", "sleep", "60")
    minirun("run", "--name", "b", "busybox", "true")
    done = minirun("rm", "nosuch", "a", "b")
    assert (done.returncode, done.stdout) == (1, "b\n")
    assert [line.split()[:3] for line in done.stderr.splitlines()] == [
        ["minirun:", "container", "'nosuch'"], ["minirun:", "cannot", "delete"],
    ]  # fmt: skip
    assert minirun("rm", "-f", "a").returncode == 0
    wait_until(lambda: minirun.left() == [])


def test_one_that_is_not_there(minirun: Program) -> None:
    done = minirun("rm", "nosuch")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nosuch" in done.stderr and done.stderr.count("\n") == 1
    done = minirun("rm")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith('minirun: "minirun rm" requires at least 1 argument (see ')


def test_by_force_it_is_no_error_but_is_said(minirun: Program) -> None:
    """docker's status and words: its name is not printed as one that was removed."""
    done = minirun("rm", "--force", "nosuch")
    assert (done.returncode, done.stdout) == (0, "")
    assert "'nosuch' does not exist" in done.stderr and done.stderr.count("\n") == 1


def test_the_begin_of_a_name_means_no_container(minirun: Program) -> None:
    """`rm -f web` must not be the end of web2. Ids that minirun has made up may be cut short."""
    minirun("run", "-d", "--name", "web2", "busybox", "sleep", "60")
    for root in ({}, {"MINIRUN_ROOT": str(minirun.root)}):
        argv = minirun.argv()[:1] if root else minirun.argv()
        for words in (("rm", "-f", "web"), ("stop", "web"), ("exec", "web", "true")):
            done = subprocess.run(
                [*argv, *words], env=os.environ | root, capture_output=True, text=True, check=False
            )
            assert "'web' does not exist" in done.stderr
    assert "Up" in minirun("ps").stdout


def test_a_made_up_id_may_be_cut_short(minirun: Program) -> None:
    whole = minirun("run", "-d", "busybox", "sh", "-c", "echo hi; exec sleep 60").stdout.strip()
    short = whole[:11]
    assert minirun("exec", short, "echo", "in").stdout == "in\n"
    assert minirun("logs", short).stdout == "hi\n"
    assert minirun("stop", "-t", "0", short).stdout == f"{short}\n"
    assert minirun("rm", short).stdout == f"{short}\n"
    assert minirun.left() == []


def test_stop_goes_on_after_one_that_fails(minirun: Program) -> None:
    minirun("run", "-d", "--name", "a", "busybox", "sleep", "60")
    done = minirun("stop", "-t", "0", "nosuch", "a")
    assert (done.returncode, done.stdout) == (1, "a\n")
    assert "Exited (137)" in minirun("ps", "-a").stdout
