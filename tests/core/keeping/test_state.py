"""state.json: ids, processes that are remembered, writing without halves, damage."""

import datetime
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Program, killed, wait_until
from minirun.core.errors import MinirunError, StateError
from minirun.core.keeping import state
from minirun.core.keeping.container_record import ContainerRecord
from night import examples
from records import whole

NAME = f"state-{os.getpid()}"
quick = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=examples(100),
)


@pytest.mark.parametrize("name", ["a", "A-b_c.d+e", "0", "-x", "_", "+", "a..b", "x" * 1024])
def test_ids_that_are_names(name: str) -> None:
    assert state.check_id(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", ".a", "a/b", "/a", "../a", "a b", "a\n", "a\0", "é", "١", "a:b", "a*", "~",
        "a\\b", "x" * 1025, "\udcff", "-/..",
    ],
)  # fmt: skip
def test_ids_that_are_not(name: str) -> None:
    with pytest.raises(StateError, match="invalid container id"):
        state.check_id(name)


@quick
@given(st.text(max_size=10))
def test_an_id_is_always_one_name_below_the_root(name: str) -> None:
    try:
        state.check_id(name)
    except StateError:
        return
    path = os.path.normpath(f"/root/{name}")
    assert os.path.dirname(path) == "/root"
    assert os.path.basename(path) == name
    assert re.fullmatch(r"[\w+-][\w+.-]*", name, re.ASCII)


def test_time_stamps_are_rfc_3339() -> None:
    assert state.timestamp(0) == "1970-01-01T00:00:00.000000000Z"
    assert state.timestamp(1_700_000_000.25) == "2023-11-14T22:13:20.250000000Z"
    now = datetime.datetime.fromisoformat(state.timestamp()[:26] + "+00:00").timestamp()
    assert abs(now - time.time()) < 5


def test_the_start_of_a_process_is_the_kernels() -> None:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert state.start_time(os.getpid()) == int(fields[19])
    assert state.start_time(2**22 + 1) == 0


def test_a_name_with_parentheses_does_not_confuse() -> None:
    pid = os.fork()
    if pid == 0:
        Path("/proc/self/comm").write_text("x) Z 1 (y")
        signal.pause()
    try:
        wait_until(lambda: "Z 1" in Path(f"/proc/{pid}/comm").read_text())
        assert state.start_time(pid) > 0
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_zombie_is_not_alive() -> None:
    pid = os.fork()
    if pid == 0:
        signal.pause()
    known = state.identity(pid)
    assert state.is_alive(known)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not state.is_alive(known))
    assert Path(f"/proc/{pid}").exists(), "it waits for its parent, as a zombie"
    os.waitpid(pid, 0)
    assert not state.is_alive(known)


def test_a_reused_pid_is_nobody_we_know() -> None:
    """Same number and boot, other start: that is what a stranger with the pid looks like."""
    known = state.identity(os.getpid())
    assert state.is_alive(known)
    assert not state.is_alive({**known, "start": known["start"] - 1})
    assert not state.is_alive({**known, "start": 0})


def test_a_pid_that_the_kernel_really_reused(tmp_path: Path) -> None:
    """In a pid namespace of its own, ns_last_pid chooses the next number: the same one twice."""
    script = """
import os, sys, time
sys.path[:0] = [sys.argv[1]]
from minirun.core.keeping import state
def child():
    with open("/proc/sys/kernel/ns_last_pid", "w") as file: file.write("4710")
    pid = os.fork()
    if pid == 0: time.sleep(100)
    return pid
first = child()
known = state.identity(first)
assert state.is_alive(known)
os.kill(first, 9); os.waitpid(first, 0)
time.sleep(0.05)  # start times are counted in ticks of 10 ms
second = child()
assert second == first == 4711, (first, second)
print(state.is_alive(known), state.is_alive(state.identity(second)))
os.kill(second, 9)
"""
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-IS", "-c", script]
    done = subprocess.run(
        [*argv, str(Path(__file__).parents[3])], capture_output=True, text=True, check=False
    )
    assert done.stdout == "False True\n", done.stderr


def test_a_process_of_another_boot_is_nobody_we_know() -> None:
    known = state.identity(os.getpid())
    assert known["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert not state.is_alive({**known, "boot": "0" * 36})


@pytest.mark.parametrize("nobody", [None, {"pid": 0}])
def test_no_process_is_not_alive(nobody: Any) -> None:
    assert not state.is_alive(nobody)


def saved(tmp_path: Path, **changes: Any) -> ContainerRecord:
    (tmp_path / "c1").mkdir(exist_ok=True)
    row = whole(str(tmp_path / "c1"), **changes)
    state.save(str(tmp_path / "c1"), row)
    return row


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    row = saved(tmp_path)
    assert state.load(str(tmp_path), "c1") == row
    assert (tmp_path / "c1/state.json").stat().st_mode & 0o777 == 0o600
    assert [p.name for p in (tmp_path / "c1").iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    ("controller", "file", "text", "status"),
    [
        ("freezer", "freezer.state", "FROZEN", "paused"),
        ("freezer", "freezer.state", "FREEZING", "paused"),
        ("freezer", "freezer.state", "THAWED", "running"),
        ("", "cgroup.freeze", "1", "paused"),
        ("", "cgroup.freeze", "0", "running"),
        ("pids", "pids.max", "max", "running"),
    ],
)
def test_the_kernel_says_whether_it_is_paused(
    tmp_path: Path, controller: str, file: str, text: str, status: str
) -> None:
    place = tmp_path / "minirun/c1"
    place.mkdir(parents=True)
    (place / file).write_text(f"{text}\n")
    version = 1 if controller else 2
    cgroup = {"version": version, "path": "/minirun/c1", "dirs": {controller: str(place)}}
    saved(tmp_path, status="running", cgroup=cgroup)
    assert state.load(str(tmp_path), "c1").status == status


GONE = {"pid": 1, "start": 5, "boot": "another"}


@pytest.mark.parametrize(
    ("changes", "waits", "status"),
    [
        ({"status": "running"}, False, "running"),
        ({"status": "running", "init": GONE}, False, "stopped"),
        ({"status": "created"}, True, "created"),
        ({"status": "created"}, False, "running"),
        ({"status": "created", "init": GONE}, True, "stopped"),
        ({"status": "paused"}, False, "running"),
        ({"status": "paused"}, True, "created"),
        ({"status": "paused", "init": GONE}, False, "stopped"),
        ({"status": "creating", "init": None}, False, "creating"),
        ({"status": "creating", "init": None, "supervisor": GONE}, False, "stopped"),
        ({"status": "stopped", "init": GONE}, False, "stopped"),
    ],
)
def test_the_status_is_brought_up_to_date(
    tmp_path: Path, changes: dict[str, Any], waits: bool, status: str
) -> None:
    saved(tmp_path, **changes)
    if waits:
        os.mkfifo(tmp_path / "c1/exec.fifo")
    found = state.load(str(tmp_path), "c1")
    assert found.status == status
    assert found.pid == (0 if status == "stopped" else os.getpid())


def test_no_such_container(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root, name in ((tmp_path, "c1"), (tmp_path / "nosuch", "c1"), (tmp_path, "file")):
        with pytest.raises(StateError, match=f"container '{name}' does not exist"):
            state.load(str(root), name)
    with pytest.raises(StateError, match="invalid container id"):
        state.load(str(tmp_path), "../c1")


DAMAGE = [
    b"", b"{", b"nonsense", b"\xff\xfe", b"[]", b"null", b"1", b'"text"', b"{}",
    b'{"status": "running"}', b'{"status": "running", "init": 5}',
    b'{"status": "running", "init": {"pid": 1}}', b'{"status": "created", "init": [1]}',
    b'{"status": "creating", "supervisor": "x"}', b"[" * 50_000, b"\0" * 100,
]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGE)
def test_a_damaged_record_is_one_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c1").mkdir()
    (tmp_path / "c1/state.json").write_bytes(content)
    with pytest.raises(StateError, match=r"state\.json is damaged") as caught:
        state.load(str(tmp_path), "c1")
    assert caught.value.hint == "minirun delete --force c1"


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff"])
def test_the_hint_of_a_damaged_record_helps(minirun: Program, content: bytes) -> None:
    directory = minirun.directory("c1")
    directory.mkdir(parents=True)
    (directory / "state.json").write_bytes(content)
    done = minirun("state", "c1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert minirun("ps", "-a").returncode == 0
    assert minirun("delete", "--force", "c1").returncode == 0
    assert not directory.exists()


def test_readers_never_see_half_a_record(tmp_path: Path) -> None:
    """One process writes small and large records by turns; every load is one of the two."""
    saved(tmp_path)
    pid = os.fork()
    if pid == 0:
        try:
            number = 0
            while True:
                number += 1
                saved(tmp_path, rest={"filler": "x" * (200_000 if number % 2 else 1)})
        finally:
            os._exit(1)
    try:
        sizes = set()
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            found = state.load(str(tmp_path), "c1")
            assert found.id == "c1"
            sizes.add(len(found.rest.get("filler", "")))
        assert {1, 200_000} <= sizes
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_replacing_leaves_one_file(tmp_path: Path) -> None:
    path, beside = tmp_path / "x", str(tmp_path / ".x")
    state.replace(str(path), "one", beside)
    first = path.stat().st_ino
    state.replace(str(path), "two", beside)
    assert path.read_text() == "two"
    assert path.stat().st_ino != first, "the old file was never written to"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_writer_that_is_killed_leaves_the_record_before(tmp_path: Path) -> None:
    for _ in range(20):
        saved(tmp_path)
        pid = os.fork()
        if pid == 0:
            while True:
                saved(tmp_path, rest={"filler": "x" * 1_000_000})
        time.sleep(0.003)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert state.load(str(tmp_path), "c1").id == "c1"


def test_a_full_disk_leaves_the_record_before(tmp_path: Path) -> None:
    """On a tmpfs of a few pages, in a mount namespace of its own."""
    script = """
import os, sys
sys.path[:0] = [sys.argv[1]]
from minirun.core.keeping import container_record, jsonlite, state
os.mkdir("c1")
row = container_record.parse(jsonlite.loads(sys.argv[2]), sys.argv[3])
state.save("c1", row)
try:
    state.save("c1", row._replace(rest={"filler": "x" * 1_000_000}))
except OSError as error:
    print(error.strerror)
print(state.load(os.getcwd(), "c1").status, os.listdir("c1"))
"""
    shell = (
        'mount -t tmpfs -o size=64k tmpfs "$1" && cd "$1" && exec "$4" -IS -c "$2" "$3" "$5" "$6"'
    )
    directory = str(tmp_path / "c1")
    row = json.dumps(whole(directory, status="stopped", init=None).as_json())
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", shell, "-", str(tmp_path), script,
         str(Path(__file__).parents[3]), sys.executable, row, directory],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "No space left on device\nstopped ['state.json']\n", done.stderr


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    row = saved(tmp_path)
    with pytest.raises(MinirunError, match=r"^labels of container c1: a text in it holds a NUL$"):
        state.write_next(str(tmp_path / "c1"), row._replace(rest={"labels": {"a": "\0"}}))
    assert [p.name for p in (tmp_path / "c1").iterdir()] == ["state.json"]


def test_write_never_goes_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("stays")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError):
        state.write(str(tmp_path / "link"), "new")
    assert (tmp_path / "target").read_text() == "stays"


def test_names(tmp_path: Path) -> None:
    for name in ("b", "a", ".history", ".new-1-2"):
        (tmp_path / name).mkdir()
    assert state.names(str(tmp_path)) == ["a", "b"]
    assert state.names(str(tmp_path / "nosuch")) == []


def test_the_public_state_is_the_specs(minirun: Program) -> None:
    """runtime.md, "State": what engines parse."""
    done = minirun("run", "-d", "--name", NAME, "--annotation", "k=v", "busybox", "sleep", "100")
    assert done.returncode == 0, done.stderr
    public = json.loads(minirun("state", NAME).stdout)
    pid = public.pop("pid")
    assert Path(f"/proc/{pid}/cmdline").read_text() == "sleep\x00100\x00"
    assert public.pop("annotations")["k"] == "v"
    created = public.pop("created")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", created)
    directory = str(minirun.directory(NAME))
    assert public == {
        "ociVersion": "1.3.0", "id": minirun.id(NAME), "status": "running", "bundle": directory,
        "rootfs": f"{directory}/rootfs", "owner": "",
    }  # fmt: skip
    minirun("kill", NAME, "KILL")
    wait_until(lambda: json.loads(minirun("state", NAME).stdout)["status"] == "stopped")
    assert json.loads(minirun("state", NAME).stdout)["pid"] == 0


def test_too_few_descriptors_say_nothing_of_a_process() -> None:
    """`gc` would take a supervisor that runs for a dead one."""
    alive = state.identity(os.getpid())
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            state.is_alive(alive)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_end_of_a_process_is_waited_for() -> None:
    with subprocess.Popen(["sleep", "0.2"]) as child:
        process = state.identity(child.pid)
        assert not state.has_ended(process, 0.01)
        before = resource.getrusage(resource.RUSAGE_SELF)
        assert state.has_ended(process, 60)  # a zombie: it is not collected yet
        after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_nvcsw - before.ru_nvcsw < 20  # the kernel tells it; polling would wake often
    assert state.has_ended(process, 60) and state.has_ended(None)


def test_another_process_with_the_number_is_not_waited_for() -> None:
    before = {**state.identity(os.getpid()), "start": 1}
    assert state.has_ended(before)


def test_one_that_ends_while_it_is_looked_for_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends between its descriptor and the second look, which says that it is still itself."""
    opened = os.pidfd_open

    def then_killed(pid: int) -> int:
        monkeypatch.undo()
        fd = opened(pid)
        killed(pid)
        return fd

    with subprocess.Popen(["sleep", "100"]) as child:
        process, before = state.identity(child.pid), os.listdir("/proc/self/fd")
        monkeypatch.setattr(os, "pidfd_open", then_killed)
        assert state.has_ended(process)
        assert os.listdir("/proc/self/fd") == before
