"""Volumes of a user without root, and what cp, export and commit say where they need more."""

from __future__ import annotations

import pytest

from engines.rootless.conftest import User


def good(user: User, *words: str) -> str:
    done = user(*words)
    assert (done.returncode, done.stderr) == (0, ""), words
    return done.stdout


def names(user: User) -> set[str]:
    return set(good(user, "volume", "ls", "-q").split())


def test_a_volume_lives_on(user: User) -> None:
    """It is in the user's own store, filled by the image, and its root's in the container."""
    good(user, "volume", "create", "data")
    script = "echo x > /data/f; stat -c %u:%g /data /data/f"
    words = ("run", "--rm", "-v", "data:/data", "busybox", "sh", "-c")
    assert good(user, *words, script) == "0:0\n0:0\n"
    assert good(user, *words, "cat /data/f") == "x\n"
    assert "passwd" in good(user, "run", "--rm", "-v", "etc:/etc", "busybox", "ls", "/etc")
    good(user, "run", "--rm", "-v", "/anonymous", "busybox", "true")
    assert names(user) == {"data", "etc"}
    place = user.home / ".local/share/minirun/volumes/data/_data"
    assert good(user, "volume", "inspect", "-f", "{{.Mountpoint}}", "data") == f"{place}\n"
    good(user, "volume", "create", "--opt", "type=tmpfs", "memory")
    shown = good(user, "run", "--rm", "-v", "memory:/m", "busybox", "grep", " /m ", "/proc/mounts")
    assert shown.startswith("tmpfs /m tmpfs rw,nosuid,nodev,noexec")


def test_one_in_use_stays(user: User) -> None:
    good(user, "run", "-d", "--name", "c", "-v", "used:/u", "busybox", "sleep", "300")
    good(user, "volume", "create", "free")
    done = user("volume", "rm", "used")
    assert (done.returncode, done.stdout) == (1, "") and "volume is in use - [c]" in done.stderr
    script = ("run", "--rm", "--volumes-from", "c", "busybox", "ls", "-d", "/u")
    assert good(user, *script) == "/u\n"
    assert "Deleted Volumes:\nfree\n" in good(user, "volume", "prune", "-af")
    good(user, "rm", "-f", "c")
    assert good(user, "volume", "rm", "used") == "used\n"
    assert names(user) == set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("export ended -o {}/x", "without root its files cannot be mounted"),
        ("commit runs x", "a container without a cgroup cannot be paused"),
        ("run --ipc shareable busybox true", "--ipc shareable needs root"),
    ],
)
def test_what_needs_root_says_so_in_one_line(user: User, words: str, said: str) -> None:
    good(user, "run", "-d", "--name", "runs", "busybox", "sleep", "300")
    good(user, "run", "--name", "ended", "busybox", "sh", "-c", "echo a > /a")
    (user.home / "x").write_text("mine")
    done = user(*words.format(user.home).split())
    assert done.returncode != 0 and said in done.stderr and done.stderr.count("\n") == 1
    assert (user.home / "x").read_text() == "mine"


def test_what_an_ended_container_has_written(user: User) -> None:
    """diff and commit read it without a mount; export reads one that runs."""
    good(user, "run", "--name", "ended", "busybox", "sh", "-c", "echo a > /a")
    assert good(user, "diff", "ended") == "A /a\n"
    good(user, "commit", "ended", "mine")
    assert good(user, "run", "--rm", "mine", "cat", "/a") == "a\n"
    good(user, "run", "-d", "--name", "runs", "busybox", "sleep", "300")
    good(user, "export", "runs", "-o", str(user.home / "tar"))
    assert (user.home / "tar").stat().st_size > 100_000
