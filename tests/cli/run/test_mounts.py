"""`run --mount` and `--tmpfs`: docker's flags, by what the container sees. -v: test_run_flags."""

import json
from pathlib import Path

import pytest

from conftest import Program

SHELL = ("busybox", "sh", "-c")
SAFE = {"nosuid", "nodev", "noexec"}


def mounted(minirun: Program, path: str, *flags: str) -> tuple[str, set[str]]:
    """Return what /proc/mounts says in the container of a path: the type, and the options."""
    done = minirun("run", "--rm", *flags, "busybox", "cat", "/proc/mounts")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    ((kind, options),) = [(row[2], row[3]) for row in rows if row[1] == path]
    return kind, set(options.split(","))


@pytest.mark.parametrize(
    ("flags", "has", "has_not"),
    [
        (("--tmpfs", "/x"), {"rw", *SAFE}, {"ro"}),
        (("--tmpfs", "/x:size=1m,mode=700,exec,uid=5,gid=6"),
         {"size=1024k", "mode=700", "uid=5", "gid=6", "nosuid", "nodev"}, {"noexec"}),
        (("--tmpfs=/x:ro,nr_inodes=1k",), {"ro", "nr_inodes=1024", *SAFE}, {"rw"}),
        (("--mount", "type=tmpfs,dst=/x"), {"rw", *SAFE}, {"ro"}),
        (("--mount", "type=tmpfs,target=/x,tmpfs-size=2m,tmpfs-mode=1770,readonly"),
         {"ro", "size=2048k", "mode=1770", *SAFE}, {"rw"}),
    ],
)  # fmt: skip
def test_a_tmpfs(
    minirun: Program, flags: tuple[str, ...], has: set[str], has_not: set[str]
) -> None:
    kind, options = mounted(minirun, "/x", *flags)
    assert kind == "tmpfs"
    assert has <= options and not has_not & options


def test_a_place_to_write_below_a_read_only_root(minirun: Program) -> None:
    flags = ("--read-only", "--tmpfs", "/tmp")
    done = minirun("run", "--rm", *flags, *SHELL, "echo x > /tmp/a; cat /tmp/a; echo x > /b")
    assert (done.returncode, done.stdout) == (1, "x\n")
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize(
    ("words", "writable"),
    [
        ("type=bind,source={},target=/x", True), ("type=bind,src={},dst=/x,ro=false", True),
        ("type=bind,src={},destination=/x,readonly", False),
        ("dst=/x,ro=1,src={},type=bind", False),
    ],
)  # fmt: skip
def test_a_bind_mount(minirun: Program, tmp_path: Path, words: str, writable: bool) -> None:
    (tmp_path / "in").write_text("from the host\n")
    script = "cat /x/in; echo from the container > /x/out"
    done = minirun("run", "--rm", "--mount", words.format(tmp_path), *SHELL, script)
    assert done.stdout == "from the host\n"
    assert (done.returncode == 0) == (tmp_path / "out").exists() == writable


def test_what_lies_below_is_mounted_later(minirun: Program, tmp_path: Path) -> None:
    """As docker does it, in whatever order the flags stand."""
    (tmp_path / "a/below").mkdir(parents=True)
    (tmp_path / "a/file").touch()
    flags = ("--tmpfs", "/x/below/c", "-v", f"{tmp_path}:/x/below", "--mount", "type=tmpfs,dst=/x")
    script = "grep -o ' /x[a-z/]* ' /proc/mounts; ls /x/below/a"
    done = minirun("run", "--rm", *flags, *SHELL, script)
    assert done.stdout.split() == ["/x", "/x/below", "/x/below/c", "below", "file"], done.stderr


def test_what_lies_below_a_destination_with_odd_slashes(minirun: Program) -> None:
    flags = ("--tmpfs", "/x/below", "--tmpfs", "/x/./")
    done = minirun("run", "--rm", *flags, *SHELL, "ls -d /x/below")
    assert done.stdout == "/x/below\n", done.stderr


def test_spec_has_them_too(minirun: Program) -> None:
    document = json.loads(minirun("spec", "--tmpfs", "/x:size=1m", "busybox").stdout)
    (row,) = [row for row in document["mounts"] if row["destination"] == "/x"]
    options = ["noexec", "nosuid", "nodev", "size=1m"]
    assert row == {"destination": "/x", "type": "tmpfs", "source": "tmpfs", "options": options}


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--tmpfs", "x"), "invalid tmpfs 'x': the destination is no absolute path"),
        (("--tmpfs", "/"), "invalid tmpfs '/': the destination cannot be /"),
        (("--tmpfs", "/x/.."), "invalid tmpfs '/x/..': the destination cannot be /"),
        (("-v", "/etc:/../"), "invalid volume '/etc:/../': the destination cannot be /"),
        (("--tmpfs", "//x", "--tmpfs", "/x"), "duplicate mount point: /x"),
        (("--tmpfs", "/x:magic"), "invalid tmpfs option 'magic'"),
        (("--tmpfs", "/x:size=1x"), "invalid tmpfs option 'size=1x'"),
        (("--tmpfs", "/x:mode=9"), "invalid tmpfs option 'mode=9'"),
        (("--tmpfs", "/x:bind"), "invalid tmpfs option 'bind'"),
        (("--tmpfs", "/x", "-v", "/etc:/x/"), "duplicate mount point: /x"),
        (("--tmpfs", "/x", "--mount", "type=tmpfs,dst=/x"), "duplicate mount point: /x"),
        (("--mount", "type=bind,dst=/x"), "it has no source"),
        (("--mount", "type=bind,src=/etc"), "the destination is no absolute path"),
        (("--mount", "type=bind,src=/nosuch,dst=/x"), "bind source path does not exist: /nosuch"),
        (("--mount", "type=bind,src=/etc,dst=/x,ro=no"), "readonly is true or false"),
        (
            ("--mount", "type=bind,src=/etc,dst=/x,tmpfs-size=1"),
            "cannot mix 'tmpfs-*' options with mount type 'bind': tmpfs-size",
        ),
        (("--mount", "type=tmpfs,src=/etc,dst=/x"), "a tmpfs has no source"),
        (("--mount", "type=tmpfs,dst=/x,tmpfs-size=x"), "invalid size: 'x'"),
        (("--mount", "type=tmpfs,dst=/x,tmpfs-mode=8"), "invalid tmpfs option 'mode=8'"),
        (("--mount", "type=tmpfs,dst=/x,colour=red"), "unexpected key 'colour'"),
        (("--mount", "type=tmpfs,dst"), "'dst' needs a value"),
    ],
)
def test_words_that_are_none(minirun: Program, flags: tuple[str, ...], text: str) -> None:
    done = minirun("run", "--rm", *flags, "busybox", "true")
    assert done.returncode == 125
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert minirun.left() == []
