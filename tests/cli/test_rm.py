"""`minirun rm`: docker's way to delete containers."""

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
    assert done.returncode == 1
    assert "minirun rm" in done.stdout
