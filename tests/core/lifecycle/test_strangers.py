"""What minirun removes is minirun's: foreign directories below its roots are named and left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program, wait_until
from core.lifecycle.leftovers import assert_nothing, cgroups
from minirun.core.keeping.places import HISTORY, NEW
from minirun.core.kernel import mountinfo
from minirun.faces.doctor import attempts as probe
from minirun.gpu.simulated import build

RUNC = {
    "id": "theirs", "init_process_pid": 1, "init_process_start": 5, "created": "2026-01-01",
    "config": {"rootfs": "/"}, "cgroup_paths": {"pids": "/sys/fs/cgroup/pids/theirs"},
}  # fmt: skip


def _plain(path: Path) -> None:
    (path / "documents").mkdir(parents=True)
    (path / "documents/thesis").write_text("years of work")


def _crun(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "status").write_text('{"pid": 1, "rootfs": "/", "systemd-cgroup": false}')


def _runc(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "state.json").write_text(json.dumps(RUNC))


def _bundle(path: Path) -> None:
    (path / "rootfs").mkdir(parents=True)
    (path / "config.json").write_text('{"ociVersion": "1.0.2"}')


def _empty(path: Path) -> None:
    path.mkdir(parents=True)


def _others(path: Path) -> None:
    """A record that another user has written: it names what root's gc is to remove."""
    path.mkdir(parents=True)
    gone = {"pid": 1, "start": 1, "boot": "another"}
    record = {
        "ociVersion": "1.2.0", "id": path.name, "status": "creating", "pid": 0, "bundle": "/",
        "rootfs": "/", "annotations": {}, "created": "2026-01-01T00:00:00.000000000Z",
        "directory": str(path), "init": None, "supervisor": gone, "complete": False,
        "managed": True, "auto_remove": True, "cgroup_path": "/minirun/x",
        "systemd_cgroup": False, "cgroup_version": "auto",
    }  # fmt: skip
    (path / "state.json").write_text(json.dumps(record))
    os.chown(path, 1000, 1000)


def tree(path: Path) -> dict[str, object]:
    return {
        str(each): (each.lstat().st_ino, each.read_bytes() if each.is_file() else b"")
        for each in [path, *path.rglob("*")]
    }


@pytest.fixture(params=[_plain, _crun, _runc, _bundle, _empty, _others])
def stranger(request: pytest.FixtureRequest, minirun: Program) -> Path:
    """A directory of a state root that another program, or a person, has made."""
    path = minirun.directory("theirs")
    make: Callable[[Path], None] = request.param
    make(path)
    return path


def test_gc_names_and_leaves_it(minirun: Program, stranger: Path) -> None:
    before = tree(stranger)
    done = minirun("gc")
    assert tree(stranger) == before
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"minirun: warning: {stranger} is left: ")
    assert done.stderr.count("\n") == 1


def test_delete_force_refuses_it(minirun: Program, stranger: Path) -> None:
    before = tree(stranger)
    done = minirun("delete", "--force", "theirs")
    assert tree(stranger) == before
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is not minirun's" in done.stderr


def test_no_list_shows_it(minirun: Program, stranger: Path) -> None:
    for words in (("ps", "-aq"), ("list", "-q")):
        done = minirun(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), words


def test_a_link_is_not_followed(minirun: Program) -> None:
    """The directory of a container has been replaced by a link."""
    host = minirun.root.parent / "host"
    _plain(host)
    minirun("run", "--name", "c1", "busybox", "true")
    directory = minirun.directory("c1")
    directory.rename(host / "c1")
    directory.symlink_to(host / "c1")
    before = tree(host)
    assert minirun("gc").returncode == 0
    done = minirun("delete", "--force", "c1")
    assert (done.returncode, "it is a link" in done.stderr) == (1, True)
    assert tree(host) == before


def test_a_record_of_another_directory_ends_nothing(minirun: Program) -> None:
    """A copy of a living container's directory names its processes and its cgroup."""
    name = f"copied-{os.getpid()}"
    minirun("run", "-d", "--name", name, "busybox", "sleep", "100")
    copy = minirun.directory("copy")
    copy.mkdir(mode=0o700)
    for file in ("state.json", "config.json"):
        (copy / file).write_bytes((minirun.directory(name) / file).read_bytes())
    for words in (("gc",), ("delete", "copy"), ("kill", "copy", "KILL"), ("pause", "copy")):
        assert "is the record of" in minirun(*words).stderr
    assert minirun("delete", "--force", "copy").returncode == 0
    assert not copy.exists()
    assert json.loads(minirun("state", name).stdout)["status"] == "running"
    minirun("delete", "--force", name)


@pytest.mark.parametrize("key", ["cgroup_path", "cgroup"])
def test_a_record_with_a_strangers_cgroup_kills_no_stranger(minirun: Program, key: str) -> None:
    """`cgroup_path` names it, and as it is empty it would be removed; `cgroup` would be killed."""
    name = f"strange-{os.getpid()}"
    mount = mountinfo.read(fs_type="cgroup2")[0]
    theirs = Path(mount.mount_point, f"minirun-{os.getpid()}-theirs")
    theirs.mkdir()
    sleeper = subprocess.Popen(["sleep", "100"])
    try:
        if key == "cgroup":
            (theirs / "cgroup.procs").write_text(str(sleeper.pid))
        minirun("run", "-d", "--name", name, "busybox", "sleep", "100")
        path = minirun.directory(name) / "state.json"
        record = json.loads(path.read_text())
        record["cgroup_path"] = f"/{theirs.name}"
        record["cgroup"] = {"version": 2, "path": f"/{theirs.name}", "dirs": {"": str(theirs)}}
        if key == "cgroup_path":
            record["cgroup"] = None
        path.write_text(json.dumps(record))
        done = minirun("delete", "--force", name)
        assert done.returncode == 0, done.stderr
        assert "cgroup_path is" in done.stderr
        assert theirs.is_dir() and sleeper.poll() is None
        assert_nothing(minirun, name)
    finally:
        sleeper.kill()
        sleeper.wait()
        wait_until(lambda: not theirs.exists() or not theirs.rmdir())


def test_only_unnamed_directories_of_minirun_are_swept(minirun: Program, tmp_path: Path) -> None:
    """Of the right name is `gone`-5, but it has other files; and `gone`-8, but it is a link."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in ("abc", f"x-{gone.pid}", f"{gone.pid}-x", f"{gone.pid}-5"):
        _plain(minirun.root / NEW / name)
    _plain(tmp_path / "host")
    (minirun.root / NEW / f"{gone.pid}-8").symlink_to(tmp_path / "host")
    before = tree(minirun.root), tree(tmp_path / "host")
    assert minirun("gc").stdout == ""
    assert (tree(minirun.root), tree(tmp_path / "host")) == before


def test_a_history_forgets_only_logs(minirun: Program) -> None:
    history = minirun.root / HISTORY
    history.mkdir(parents=True)
    own = [history / f"20000101T000000.{n}.c{n}.jsonl" for n in range(205)]
    theirs = [history / name for name in ("000-letter", "0.1.jsonl", "20000101T00000x.1.c.jsonl")]
    for path in (*own, *theirs):
        path.write_text("{}")
    minirun("run", "--rm", "busybox", "true")
    assert all(path.exists() for path in theirs)
    assert len(list(history.iterdir())) == 200 + len(theirs)


def test_a_history_that_is_a_link_is_left(minirun: Program, tmp_path: Path) -> None:
    minirun.root.mkdir()
    host = tmp_path / "host"
    host.mkdir()
    logs = [host / f"20000101T000000.{n}.c{n}.jsonl" for n in range(205)]
    for path in logs:
        path.write_text("{}")
    (minirun.root / HISTORY).symlink_to(host)
    assert minirun("run", "--rm", "busybox", "true").returncode == 0
    assert sorted(host.iterdir()) == sorted(logs)


@pytest.mark.parametrize("content", ["documents", "empty"])
def test_images_rm_removes_images(minirun: Program, tmp_path: Path, content: str) -> None:
    store = tmp_path / "store"
    _plain(store / "images/holiday")
    if content == "empty":
        (store / "images/holiday/documents/thesis").unlink()
        (store / "images/holiday/documents").rmdir()
    before = tree(store / "images/holiday")
    done = _with_store(minirun, store, "images", "rm", "holiday")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no image of minirun's" in done.stderr
    assert tree(store / "images/holiday") == before


def test_drafts_are_minirun_s(minirun: Program, tmp_path: Path) -> None:
    store = tmp_path / "store"
    theirs = [store / "images/.draft-letter", store / "images/.draft-abcdefgh"]
    for path in theirs:
        _plain(path)
    _plain(tmp_path / "host")
    (store / "images/.draft-link0000").symlink_to(tmp_path / "host")
    (store / "images/.draft-ours0000/layers/0/etc").mkdir(parents=True)
    before = tree(tmp_path / "host"), [tree(path) for path in theirs]
    done = _with_store(minirun, store, "gc")
    assert (done.returncode, done.stdout.count("removed ")) == (0, 1), done
    assert (tree(tmp_path / "host"), [tree(path) for path in theirs]) == before
    assert not (store / "images/.draft-ours0000").exists()


def test_what_is_mounted_in_an_image_is_not_removed(minirun: Program, tmp_path: Path) -> None:
    store, host = tmp_path / "store", tmp_path / "host"
    _plain(host)
    layer = store / "images/.draft-ours0000/layers/0/mnt"
    layer.mkdir(parents=True)
    subprocess.run(["mount", "--bind", host, layer], check=True)
    try:
        before = tree(host)
        done = _with_store(minirun, store, "gc")
        assert (done.returncode, done.stderr.count("\n")) != (0, 0), done
        assert tree(host) == before
    finally:
        subprocess.run(["umount", layer], check=True)


def _with_store(minirun: Program, store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return minirun.at(store)(*words)


def test_other_temporary_folders(minirun: Program, tmp_path: Path) -> None:
    """By name alone `.making-letters-x` was some killed run's: there is no process "letters"."""
    for theirs in (tmp_path / ".making-letters-x", tmp_path / ".doctor-letters-x"):
        _plain(theirs)
        before = tree(theirs)
        build.clean(str(tmp_path))
        probe.examine((), str(tmp_path), str(tmp_path))
        assert tree(theirs) == before


def test_a_root_that_is_a_link(minirun: Program, tmp_path: Path) -> None:
    """Its containers are found, and live, as with the root itself."""
    name = f"linked-{os.getpid()}"
    minirun("run", "-d", "--name", name, "busybox", "sleep", "100")
    link = tmp_path / "link"
    link.symlink_to(minirun.root)
    linked = Program(minirun.path, link)
    assert linked("ps", "--format", "{{.Names}}").stdout == f"{name}\n"
    assert linked("gc").stdout == ""
    assert linked("delete", "--force", name).returncode == 0
    assert_nothing(minirun, name)


def test_killed_while_removing(minirun: Program) -> None:
    """strace stops `delete` at each call that removes: what is left, the next command removes."""
    for number in range(1, 9):
        name = f"cut-{os.getpid()}-{number}"
        minirun("run", "--name", name, "busybox", "touch", "/a")
        fault = f"inject=unlink,unlinkat,rmdir,rename:signal=KILL:when={number}"
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", fault, *minirun.argv("delete", name)],
            capture_output=True, check=False,
        )  # fmt: skip
        words = ("gc",) if number % 2 else ("delete", "--force", name)
        assert minirun(*words).returncode == 0
        if minirun.left() == [name]:  # cut off before anything was removed
            assert minirun("delete", name).returncode == 0
        assert_nothing(minirun, name)
        assert cgroups(minirun) == []
        if done.returncode == 0:
            return
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
