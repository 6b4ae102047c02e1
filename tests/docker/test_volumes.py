"""Volumes: `run -v NAME:/path`, --mount type=volume, --volumes-from, and `minirun volume`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import STORE, Program
from minirun.core.kernel import mountinfo

SHELL = ("busybox", "sh", "-c")


@pytest.fixture
def program(minirun: Program, tmp_path: Path) -> Iterator[Program]:
    """minirun with volumes of its own; the images are those of all tests."""
    store = tmp_path / "store"
    store.mkdir()
    for name in ("images", "layers"):
        (store / name).symlink_to(f"{STORE}/{name}")
    found = minirun.at(store)
    yield found
    found.clean()


def ok(program: Program, *words: str, **options: str) -> str:
    done = program(*words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def folder(program: Program, name: str) -> Path:
    return Path(program.store, "volumes", name, "_data")


def volumes(program: Program) -> list[str]:
    return ok(program, "volume", "ls", "-q").split()


# --- run -v -----------------------------------------------------------------------------------


def test_a_new_volume_gets_what_the_image_has(program: Program) -> None:
    look = "stat -c '%n %u:%g %a' /etc/* /etc | sort; cat /etc/passwd"
    plain = ok(program, "run", "--rm", "-v", "/none", *SHELL, look)
    assert ok(program, "run", "--rm", "-v", "data:/etc", *SHELL, look) == plain
    assert "root:x" in (folder(program, "data") / "passwd").read_text()
    ok(program, "run", "--rm", "-v", "data:/etc", *SHELL, "rm /etc/passwd; echo a > /etc/new")
    assert "passwd" not in ok(program, "run", "--rm", "-v", "data:/x", *SHELL, "ls /x")
    assert ok(program, "run", "--rm", "-v", "data:/etc", *SHELL, "cat /etc/new") == "a\n"


def test_a_volume_that_is_not_empty_stays_as_it_is(program: Program) -> None:
    ok(program, "volume", "create", "data")
    (folder(program, "data") / "mine").touch()
    assert ok(program, "run", "--rm", "-v", "data:/etc", *SHELL, "ls /etc") == "mine\n"


@pytest.mark.parametrize(
    "words", [("-v", "data:/etc:nocopy"), ("--mount", "src=data,dst=/etc,volume-nocopy")]
)
def test_nocopy(program: Program, words: tuple[str, str]) -> None:
    assert ok(program, "run", "--rm", *words, *SHELL, "ls /etc") == ""


@pytest.mark.parametrize(
    "words", [("-v", "data:/etc:ro"), ("--mount", "src=data,dst=/etc,readonly")]
)
def test_a_read_only_volume_is_filled_too(program: Program, words: tuple[str, str]) -> None:
    done = program("run", "--rm", *words, *SHELL, "ls /etc; echo > /etc/x")
    assert done.returncode == 1 and "passwd" in done.stdout and "Read-only" in done.stderr


def test_a_filling_that_was_killed_goes_on(program: Program) -> None:
    ok(program, "volume", "create", "data")
    draft = folder(program, "data") / ".minirun-filling"
    draft.mkdir()
    (draft / "passwd").write_text("half")
    (folder(program, "data") / "group").write_text("whole")
    found = ok(program, "run", "--rm", "-v", "data:/etc", *SHELL, "ls -A /etc; cat /etc/group")
    assert ".minirun-filling" not in found and "passwd" in found and found.endswith("whole")
    assert "half" not in (folder(program, "data") / "passwd").read_text()


def test_two_containers_fill_one_volume(program: Program) -> None:
    words = ("run", "--rm", "-v", "data:/bin", "busybox", "ls", "/bin")
    both = [program.start(*words) for _ in range(4)]
    found = {each.communicate(timeout=60) for each in both}
    assert len(found) == 1 and len(found.pop()[0].split()) > 20


def test_an_anonymous_volume(program: Program) -> None:
    """It stays with the container, and goes with --rm or `rm -v`: docker's rule."""
    ok(program, "run", "--rm", "-v", "/etc", *SHELL, "grep -q ' /etc ' /proc/mounts")
    assert volumes(program) == []
    for name in ("a", "b"):
        ok(program, "run", "--name", name, "-v", "/data", *SHELL, "echo x > /data/x")
    one, two = volumes(program)
    assert len(one) == 64 and int(one, 16) != int(two, 16)
    ok(program, "rm", "-v", "a")
    (left,) = volumes(program)
    assert (folder(program, left) / "x").exists()
    ok(program, "rm", "b")
    assert volumes(program) == [left]
    assert "Deleted Volumes:" in ok(program, "volume", "prune", "-f")
    assert volumes(program) == []


def test_rm_with_volumes_leaves_those_with_a_name(program: Program) -> None:
    ok(program, "run", "--name", "a", "-v", "data:/data", *SHELL, "true")
    ok(program, "rm", "-v", "a")
    ok(program, "run", "--rm", "-v", "data:/data", *SHELL, "true")
    assert volumes(program) == ["data"]


def test_a_start_that_fails_leaves_no_anonymous_volume(program: Program) -> None:
    """Without --rm the container stays, as with docker, and its volume with it."""
    words = ("-v", "/data", "-v", "named:/x", "busybox", "/nosuch")
    assert program("run", "--rm", *words).returncode == 127
    assert volumes(program) == ["named"]
    assert program("run", "--name", "a", *words).returncode == 127
    assert len(volumes(program)) == 2
    ok(program, "rm", "-v", "a")
    assert volumes(program) == ["named"]


def test_a_missing_folder_is_made_for_v_alone(program: Program, tmp_path: Path) -> None:
    place = tmp_path / "new/er"
    ok(program, "run", "--rm", "-v", f"{place}:/x", *SHELL, "echo a > /x/a")
    assert (place / "a").read_text() == "a\n"
    info = place.stat()
    assert (info.st_uid, info.st_mode & 0o7777) == (0, 0o755)
    done = program("run", "--rm", "--mount", f"type=bind,src={place}/no,dst=/x", *SHELL, "true")
    assert done.returncode == 125 and "bind source path does not exist" in done.stderr
    assert not (place / "no").exists()


def test_nothing_is_made_by_a_dry_run(program: Program, tmp_path: Path) -> None:
    words = ("-v", "data:/data", "-v", f"{tmp_path}/new:/x", "-v", "/y", "busybox", "true")
    ok(program, "run", "--dry-run", *words)
    ok(program, "spec", *words)
    assert volumes(program) == [] and not (tmp_path / "new").exists()


def test_a_user_namespace_has_volumes_too(reachable: Program, tmp_path: Path) -> None:
    store = reachable.root.parent / "store"
    store.mkdir()
    for name in ("images", "layers"):
        (store / name).symlink_to(f"{STORE}/{name}")
    found = reachable.at(store)
    words = ("run", "--rm", "--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")
    look = "stat -c '%u %n' /etc /etc/passwd; echo a > /etc/new && cat /etc/new"
    shown = ok(found, *words, "-v", "data:/etc", *SHELL, look)
    assert shown == "0 /etc\n0 /etc/passwd\na\n"
    assert (store / "volumes/data/_data/new").stat().st_uid == 100000


# --- options ----------------------------------------------------------------------------------


def mount_line(program: Program, *words: str) -> str:
    shown = ok(program, "run", "--rm", *words, "busybox", "cat", "/proc/self/mountinfo")
    return next(line for line in shown.splitlines() if line.split()[4] == "/x")


@pytest.mark.parametrize("word", ["z", "Z", "cached", "delegated", "consistent", "z,ro", "rw"])
def test_words_that_docker_takes(program: Program, tmp_path: Path, word: str) -> None:
    done = program("run", "--rm", "-v", f"{tmp_path}:/x:{word}", "busybox", "true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("-v", "{}:/x:rshared"), "shared:"),
        (("-v", "{}:/x:shared"), "shared:"),
        (("-v", "{}:/x:rslave"), "master:"),
        (("-v", "{}:/x"), ""),
        (("--mount", "type=bind,src={},dst=/x,bind-propagation=rshared"), "shared:"),
        (("--mount", "type=bind,src={},dst=/x,bind-propagation=slave"), "master:"),
    ],
)
def test_propagation(program: Program, shared: Path, words: tuple[str, str], field: str) -> None:
    line = mount_line(program, *(word.format(shared) for word in words))
    optional = " ".join(line.split(" - ")[0].split()[6:])
    assert field in optional and bool(field) == bool(optional)


def test_a_mount_made_inside_reaches_the_host(program: Program, shared: Path) -> None:
    script = "mkdir /x/new; mount -t tmpfs none /x/new && echo hi > /x/new/file"
    ok(program, "run", "--rm", "--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined",
       "-v", f"{shared}:/x:rshared", *SHELL, script)  # fmt: skip
    assert (shared / "new/file").read_text() == "hi\n"


def test_a_source_that_is_not_shared(program: Program, tmp_path: Path) -> None:
    place = tmp_path / "private"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
    try:
        subprocess.run(["mount", "--make-private", str(place)], check=True)
        done = program("run", "--rm", "-v", f"{place}:/x:rshared", "busybox", "true")
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert done.returncode == 125 and done.stderr.count("\n") == 1
    assert f"path {place} is mounted on {place} but it is not a shared mount" in done.stderr


@pytest.mark.parametrize(
    ("more", "below", "writes"),
    [
        ("", True, [True, True]),
        (",bind-nonrecursive", False, [True, True]),
        (",bind-recursive=disabled", False, [True, True]),
        (",ro", True, [False, False]),
        (",ro,bind-recursive=writable", True, [False, True]),
        (",ro,bind-recursive=readonly", True, [False, False]),
    ],
)
def test_what_is_mounted_below(
    program: Program, shared: Path, more: str, below: bool, writes: list[bool]
) -> None:
    script = "grep -c ' /x/below ' /proc/mounts; touch /x/a; touch /x/below/a"
    words = ("--mount", f"type=bind,src={shared},dst=/x{more}")
    shown = program("run", "--rm", *words, *SHELL, script).stdout
    assert shown == f"{int(below)}\n"
    found = [(shared / "a").exists(), (shared / "below/a").exists()]
    assert found == (writes if below else [True, False])


def test_a_volume_of_a_tmpfs_or_of_a_folder(program: Program, tmp_path: Path) -> None:
    ok(program, "volume", "create", "-o", "type=tmpfs", "-o", "o=size=1m,uid=5", "memory")
    ok(program, "volume", "create", "-o", "type=none", "-o", "o=bind", "-o", f"device={tmp_path}",
       "folder")  # fmt: skip
    script = "stat -c %u /a; grep ' /a ' /proc/mounts; echo x > /b/x"
    shown = ok(program, "run", "--rm", "-v", "memory:/a", "-v", "folder:/b", *SHELL, script)
    assert shown.startswith("5\ntmpfs /a tmpfs") and "size=1024k" in shown
    assert (tmp_path / "x").read_text() == "x\n"
    words = "type=volume,src=third,dst=/b,volume-opt=type=none,volume-opt=o=bind,volume-label=a=b"
    words += f",volume-opt=device={tmp_path}"
    assert ok(program, "run", "--rm", "--mount", words, *SHELL, "cat /b/x") == "x\n"
    (row,) = json.loads(ok(program, "volume", "inspect", "third"))
    assert row["Labels"] == {"a": "b"} and row["Options"]["device"] == str(tmp_path)


# --- a part of a volume -----------------------------------------------------------------------


def with_subpath(program: Program, path: str, *more: str) -> subprocess.CompletedProcess[str]:
    words = ("--mount", f"src=data,dst=/x,volume-subpath={path}")
    return program("run", "--rm", *more, *words, *SHELL, "ls /x; cat /x/file")


def test_a_subpath(program: Program) -> None:
    ok(program, "run", "--rm", "-v", "data:/d", *SHELL, "mkdir -p /d/a/b; echo in > /d/a/b/file")
    assert with_subpath(program, "a/b").stdout == "file\nin\n"
    done = with_subpath(program, "a/no")
    assert done.returncode == 125 and done.stderr.count("\n") == 1
    assert "volume-subpath 'a/no' of the volume: no such file" in done.stderr


@pytest.mark.parametrize("link", ["/", "/etc", "../../../../../../etc", "..", "/proc/self/root"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_link_in_a_volume_stays_inside(
    program: Program, link: str, mapped: bool, tmp_path: Path
) -> None:
    """What the host has at the end of the link is not what is mounted."""
    make = f"ln -s {link} /d/link; mkdir /d/etc; echo own > /d/file; echo own > /d/etc/file"
    ok(program, "run", "--rm", "-v", "data:/d", *SHELL, make)
    more = ("--uidmap", "0:100000:65536") if mapped else ()
    for place in (tmp_path, *tmp_path.parents[:3]):
        place.chmod(0o755)
    done = with_subpath(program, "link", *more)
    assert "passwd" not in done.stdout and "proc" not in done.stdout
    if done.returncode == 0:
        assert done.stdout.endswith("own\n")
    else:
        assert done.returncode in (1, 125) and "shadow" not in done.stdout


def test_a_subpath_that_is_exchanged_all_the_time(program: Program) -> None:
    """A container swaps a folder for a link to / while others start with it."""
    make = "mkdir -p /d/a; echo own > /d/a/file; ln -s / /d/b; ln -s /etc /d/c"
    ok(program, "run", "--rm", "-v", "data:/d", *SHELL, make)
    loop = "while :; do mv -T /d/a /d/t; mv -T /d/b /d/a; mv -T /d/a /d/b; mv -T /d/t /d/a; done"
    ok(program, "run", "-d", "--name", "swap", "-v", "data:/d", *SHELL, loop)
    try:
        for _ in range(12):
            done = with_subpath(program, "a")
            names = set(done.stdout.split())
            assert not names & {"etc", "proc", "root", "passwd", "usr"}, done.stdout
    finally:
        program("delete", "--force", "swap")


# --- --volumes-from ---------------------------------------------------------------------------


def test_volumes_from(program: Program, tmp_path: Path) -> None:
    ok(program, "run", "--name", "one", "-v", "data:/d", "-v", "/anonymous", "-v",
       f"{tmp_path}:/host:ro", "--tmpfs", "/memory", *SHELL,
       "echo a > /d/a; echo b > /anonymous/b")  # fmt: skip
    script = "cat /d/a /anonymous/b; ls -d /host; ls -d /memory; echo > /host/x; echo c > /d/c"
    done = program("run", "--rm", "--volumes-from", "one", *SHELL, script)
    assert done.stdout == "a\nb\n/host\n" and "Read-only" in done.stderr
    assert (folder(program, "data") / "c").exists()
    done = program("run", "--rm", "--volumes-from", "one:ro", *SHELL, "echo x > /d/x")
    assert done.returncode == 1 and "Read-only" in done.stderr
    other = ok(program, "run", "--rm", "--volumes-from", "one", "-v", "other:/d", *SHELL, "ls /d")
    assert other == "" and len(volumes(program)) == 3, "--rm removes no volume that `one` has"


def test_an_inherited_anonymous_volume_outlives_the_first(program: Program) -> None:
    ok(program, "run", "--name", "one", "-v", "/data", *SHELL, "echo a > /data/a")
    ok(program, "run", "-d", "--name", "two", "--volumes-from", "one", "busybox", "sleep", "60")
    ok(program, "rm", "-v", "one")
    assert ok(program, "exec", "two", "cat", "/data/a") == "a\n"
    ok(program, "rm", "-f", "-v", "two")
    assert volumes(program) == []


# --- minirun volume ---------------------------------------------------------------------------


def test_create_inspect_list_and_remove(program: Program) -> None:
    assert ok(program, "volume", "create", "--label", "a=b", "data") == "data\n"
    assert ok(program, "volume", "create", "data") == "data\n", "as docker: it is there"
    name = ok(program, "volume", "create").strip()
    assert len(name) == 64
    (row,) = json.loads(ok(program, "volume", "inspect", "data"))
    assert row.pop("CreatedAt")[:2] == "20"
    assert row == {
        "Driver": "local", "Labels": {"a": "b"}, "Mountpoint": str(folder(program, "data")),
        "Name": "data", "Options": None, "Scope": "local",
    }  # fmt: skip
    lines = ok(program, "volume", "ls").splitlines()
    assert lines[0].split() == ["DRIVER", "VOLUME", "NAME"]
    assert ["local", "data"] in [line.split() for line in lines]
    for text, found in (
        ("name=dat", ["data"]), ("label=a", ["data"]), ("label=a=c", []), ("label=a=b", ["data"]),
        ("dangling=true", sorted([name, "data"])), ("dangling=false", []), ("driver=x", []),
    ):  # fmt: skip
        assert ok(program, "volume", "ls", "-q", "-f", text).split() == found
    form = "{{.Name}}: {{.Driver}} {{.Labels}}"
    assert "data: local a=b" in ok(program, "volume", "ls", "--format", form).splitlines()
    row = json.loads(ok(program, "volume", "ls", "-f", "name=data", "--format", "json"))
    assert row["Labels"] == "a=b"
    assert ok(program, "volume", "rm", "data", name) == f"data\n{name}\n"
    assert volumes(program) == []


def test_one_that_is_in_use_stays(program: Program) -> None:
    ok(program, "run", "--name", "one", "-v", "data:/d", *SHELL, "true")
    done = program("volume", "rm", "data")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "remove data: volume is in use - [one]" in done.stderr
    assert program("volume", "rm", "-f", "data").returncode == 1
    assert "data" not in ok(program, "volume", "prune", "-a", "-f")
    ok(program, "rm", "one")
    assert ok(program, "volume", "rm", "data") == "data\n"


def test_one_whose_users_are_not_known_stays(program: Program) -> None:
    ok(program, "run", "--name", "one", *SHELL, "true")
    ok(program, "volume", "create", "data")
    (program.directory("one") / "state.json").write_text("{")
    done = program("volume", "rm", "data")
    assert done.returncode != 0 and "record is damaged" in done.stderr
    assert volumes(program) == ["data"]


def test_what_minirun_has_not_made_stays(program: Program, tmp_path: Path) -> None:
    ok(program, "volume", "create", "data")
    place = folder(program, "data").parent
    (place / "note").touch()
    done = program("volume", "rm", "data")
    assert done.returncode == 1 and "'note' in it is not minirun's" in done.stderr
    (place / "note").unlink()
    (place.parent / "other").mkdir()
    (place.parent / "link").symlink_to(tmp_path)
    for name in ("other", "link"):
        assert program("volume", "rm", name).returncode == 1
        assert (place.parent / name).exists()
    assert "data" in ok(program, "volume", "prune", "-af")


def test_prune_asks(program: Program) -> None:
    for words in (("create", "data"), ("create", "--label", "keep", "other"), ("create",)):
        ok(program, "volume", *words)
    done = program("volume", "prune", input="n\n")
    assert done.returncode == 1 and "nothing is removed" in done.stderr
    assert program("volume", "prune", input="").returncode == 1
    assert len(volumes(program)) == 3
    assert program("volume", "prune", input="y\n").returncode == 0
    assert volumes(program) == ["data", "other"], "those with a name stay without --all"
    ok(program, "volume", "prune", "-a", "-f", "--filter", "label!=keep")
    assert volumes(program) == ["other"]
    ok(program, "volume", "prune", "-f", "--filter", "all=1", "--filter", "label=keep")
    assert volumes(program) == []


def test_a_killed_command_leaves_what_gc_removes(program: Program) -> None:
    ok(program, "volume", "create", "data")
    place = folder(program, "data").parents[1]
    for name in (".new.a", ".gone.b"):
        (place / name / "_data").mkdir(parents=True)
    assert volumes(program) == ["data"]
    ok(program, "gc")
    assert sorted(os.listdir(place)) == ["data"]


def test_a_run_that_is_killed_at_any_moment(program: Program) -> None:
    """Whenever it dies: after gc the volume is whole, or gone, and nothing else is left."""
    for wait in (0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3):
        running = program.start("run", "-v", "data:/bin", "-v", "/x", "busybox", "sleep", "9")
        time.sleep(wait)
        running.kill()
        running.communicate(timeout=60)
        ok(program, "gc")
        for path in program.root.glob("[!.]*"):  # one that ran is kept, as ended
            ok(program, "rm", "-v", path.name)
        assert program.left() == []
        ok(program, "volume", "prune", "-f")
        assert set(volumes(program)) <= {"data"}
        shown = ok(program, "run", "--rm", "-v", "data:/bin", *SHELL, "ls -A /bin")
        assert shown == ok(program, "run", "--rm", *SHELL, "ls -A /bin")
        ok(program, "volume", "rm", "data")
    assert not [m for m in mountinfo.read() if str(program.root) in m.mount_point]


BAD: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("run", "-v", "a:/x:ro", "busybox", "true"), 125, "volume name is too short"),
    (("run", "-v", "a/b:/x", "busybox", "true"), 125, "invalid characters for a local volume"),
    (("run", "-v", "data:/x:nope", "busybox", "true"), 125, "unknown option 'nope' (ro, rw, z"),
    (("run", "-v", "data:/x:ro,rw", "busybox", "true"), 125, "ro and rw exclude each other"),
    (("run", "-v", "data:/x:rshared", "busybox", "true"), 125, "rshared is for a bind mount"),
    (("run", "-v", "/etc:/x:nocopy", "busybox", "true"), 125, "nocopy is for a volume"),
    (("run", "-v", "x", "busybox", "true"), 125, "the destination is no absolute path"),
    (("run", "-v", "data:", "busybox", "true"), 125, "invalid volume 'data:'"),
    (("run", "--mount", "type=image,src=a,dst=/x", "busybox"), 125, "no mounts of type image"),
    (("run", "--mount", "type=npipe,src=a,dst=/x", "busybox"), 125, "a named pipe is of Windows"),
    (("run", "--mount", "type=cluster,src=a,dst=/x", "busybox"), 125, "of docker's swarm"),
    (("run", "--mount", "type=what,src=a,dst=/x", "busybox"), 125, "unknown type 'what'"),
    (("run", "--mount", "src=data,dst=/x,bind-propagation=rshared", "busybox"), 125, "cannot mix"),
    (("run", "--mount", "type=tmpfs,dst=/x,volume-nocopy", "busybox"), 125, "cannot mix 'volume-"),
    (("run", "--mount", "type=bind,src=/etc,dst=/x,bind-propagation=up", "busybox"), 125,
     "invalid bind-propagation 'up' (private"),
    (("run", "--mount", "type=bind,src=/etc,dst=/x,bind-recursive=so", "busybox"), 125,
     "invalid bind-recursive 'so' (enabled"),
    (("run", "--mount", "type=bind,src=/etc,dst=/x,bind-recursive=readonly", "busybox"), 125,
     "needs readonly"),
    (("run", "--mount", "src=data,dst=/x,consistency=never", "busybox"), 125, "consistency"),
    (("run", "--mount", "src=data,dst=/x,volume-driver=nfs", "busybox"), 125, "volume-driver"),
    (("run", "--mount", "src=data,dst=/x,volume-subpath=../x", "busybox"), 125, "relative path"),
    (("run", "--mount", "src=data,dst=/x,volume-subpath=/x", "busybox"), 125, "relative path"),
    (("run", "--mount", "dst=/x,volume-subpath=x", "busybox"), 125, "anonymous volume is empty"),
    (("run", "--mount", "src=data,dst=/x,volume-nocopy=maybe", "busybox"), 125, "true or false"),
    (("run", "--mount", "src=data,dst=/x,volume-opt=type=nfs", "busybox"), 125, "type=tmpfs, or"),
    (("run", "--volumes-from", "nosuch", "busybox"), 125, "'nosuch' does not exist"),
    (("run", "--volumes-from", "a:rx", "busybox"), 125, "invalid mode 'rx' (--volumes-from C"),
    (("volume", "create", "-d", "nfs", "data"), 1, "plugin 'nfs' not found"),
    (("volume", "create", "-o", "size=1", "data"), 1, "invalid option: 'size' (type, device"),
    (("volume", "create", "-o", "type=tmpfs", "../x"), 1, "invalid characters"),
    (("volume", "create", "one", "two"), 1, "requires at most 1 argument"),
    (("volume", "rm", "nosuch"), 1, "get nosuch: no such volume"),
    (("volume", "rm", "../.."), 1, "no such volume"),
    (("volume", "ls", "-f", "colour=red"), 1, "invalid --filter 'colour=red': no such filter"),
    (("volume", "ls", "--format", "{{.Colour}}"), 1, "can't evaluate field Colour"),
    (("volume", "prune", "-f", "--filter", "until=1h"), 1, "invalid --filter 'until=1h'"),
    (("volume", "what"), 1, "unknown command 'volume what'"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "status", "text"), BAD)
def test_a_wrong_word_is_one_line(
    program: Program, words: tuple[str, ...], status: int, text: str
) -> None:
    if words[:2] == ("volume", "ls"):
        ok(program, "volume", "create", "data")
    done = program(*words)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
    assert text in done.stderr
    assert program.left() == []
    assert words[0] == "volume" or volumes(program) == []


def test_a_drive_of_windows(program: Program) -> None:
    """docker's command line takes one letter for one, also on Linux: a new volume, and no name."""
    done = program("run", "--rm", "-v", "B:/x", *SHELL, "test -d /B:/x && ! test -e /x")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1 and "B: is a drive of Windows" in done.stderr
    assert volumes(program) == []


def test_inspect_of_one_that_is_missing(program: Program) -> None:
    done = program("volume", "inspect", "nosuch")
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert "no such volume: nosuch" in done.stderr
