"""What both versions promise: the interface's life of a cgroup, on both kernel interfaces."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cgroups.conftest import add
from minirun import cgroups
from minirun.cgroups import hierarchies, stats, stopping
from minirun.core.errors import ConfigError, MinirunError, StateError

BOTH = pytest.mark.parametrize("version", ["v1", "v2"])

JOINER = """
import os, sys
from minirun.cgroups import open_cgroup
from minirun.core.kernel import namespaces
cgroup = open_cgroup(sys.argv[1], sys.argv[2])
cgroup.create()
cgroup.prepare_join()
flags = namespaces.CLONE_NEWUSER if sys.argv[3] == "user" else 0
pid, _ = namespaces.clone3(flags, cgroup_fd=cgroup.clone_fd())
if pid == 0:
    cgroup.join(cloned=True)
    print(open("/proc/self/cgroup").read(), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""

SPENDER = """
import os, sys
while not os.path.exists(sys.argv[1]): pass
memory = bytearray(b"x") * (9 << 20)
while True: pass
"""
"""Spends memory once the file of its argument is there: when it is in its cgroup altogether."""


def wait_for(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@BOTH
def test_a_life(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    assert not cgroup.exists()
    cgroup.create()
    assert cgroup.exists()
    assert cgroup.processes() == []
    process = sleeper()
    add(cgroup, process.pid)
    assert cgroup.processes() == [process.pid]
    assert cgroup.path in Path(f"/proc/{process.pid}/cgroup").read_text()
    with pytest.raises(StateError, match="cannot be removed: 1 processes are in it"):
        cgroup.remove(0)
    stopping.kill(cgroup)
    assert process.wait() == -signal.SIGKILL
    cgroup.remove()
    cgroup.remove()
    assert not cgroup.exists()


@BOTH
@pytest.mark.parametrize("namespace", ["none", "user"])
def test_a_process_gets_itself_in(open_cgroup, version, namespace):
    """On version 1 by 0 in tasks, on 2 by CLONE_INTO_CGROUP; from a user namespace as well."""
    cgroup = open_cgroup(version)
    argv = [sys.executable, "-I", "-c", JOINER, cgroup.path, version, namespace]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    lines = dict(line.split(":", 1)[1].split(":") for line in told.split())
    if version == "v2":
        assert lines[""] == cgroup.path
    else:
        record = cgroup.record()
        assert {lines[name] for name in record["dirs"]} == {cgroup.path}


@BOTH
def test_a_record_is_enough_to_finish_from_elsewhere(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    process = sleeper()
    add(cgroup, process.pid)
    again = cgroups.from_record(cgroup.record())
    assert again.record() == cgroup.record()
    assert again.processes() == [process.pid]
    stopping.clear(again, 5)
    assert process.wait() == -signal.SIGKILL
    assert not cgroup.exists()


@BOTH
def test_a_record_made_before_the_cgroup_is_enough_too(open_cgroup, version):
    cgroup = open_cgroup(version)
    record = cgroup.record()
    cgroup.create()
    cgroups.from_record(record).remove()
    assert not cgroup.exists()


@BOTH
def test_what_the_container_made_inside_goes_too(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    inner = f"{cgroup.directories()[0]}/a/b"
    os.makedirs(inner)
    os.mkdir(f"{cgroup.directories()[0]}/c")
    process = sleeper()
    Path(inner, "cgroup.procs").write_text(str(process.pid))
    assert cgroup.processes() == [process.pid]
    stopping.clear(cgroup, 5)
    assert process.wait() == -signal.SIGKILL
    assert not cgroup.exists()


@BOTH
def test_freezing_stops_and_thawing_goes_on(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    process = sleeper(sys.executable, "-I", "-S", "-c", "while True: pass")
    add(cgroup, process.pid)
    assert not cgroup.frozen()
    stopping.freeze(cgroup)
    assert cgroup.frozen()

    def spent():
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]

    before = spent()
    time.sleep(0.1)
    assert spent() == before
    cgroup.set_frozen(False)
    wait_for(lambda: spent() != before)
    assert not cgroup.frozen()


@BOTH
def test_a_signal_reaches_all_and_leaves_a_pause_alone(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    processes = [sleeper(), sleeper()]
    for process in processes:
        add(cgroup, process.pid)
    stopping.freeze(cgroup)
    stopping.kill(cgroup, signal.SIGTERM)
    wait_for(cgroup.frozen)  # on version 2 a deadly signal reaches a frozen process at once
    if version == "v1":
        assert all(process.poll() is None for process in processes)
    cgroup.set_frozen(False)
    assert [process.wait() for process in processes] == [-signal.SIGTERM] * 2


@BOTH
def test_sigkill_reaches_what_is_frozen(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    process = sleeper()
    add(cgroup, process.pid)
    stopping.freeze(cgroup)
    stopping.kill(cgroup)
    assert process.wait() == -signal.SIGKILL


@BOTH
def test_a_process_that_forks_all_the_time_is_killed(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    script = "import os\nwhile os.getpid():\n    if os.fork(): os._exit(0)"
    process = sleeper("sh", "-c", f"sleep 0.2; exec {sys.executable} -I -S -c '{script}'")
    add(cgroup, process.pid)
    wait_for(lambda: cgroup.processes() and process.pid not in cgroup.processes())
    stopping.clear(cgroup, 5)
    assert not cgroup.exists()


@BOTH
def test_a_cgroup_of_somebody_else_is_refused_and_left_alone(open_cgroup, sleeper, version):
    first = open_cgroup(version)
    first.create()
    process = sleeper()
    add(first, process.pid)
    second = cgroups.open_cgroup(first.path, version)
    with pytest.raises(
        StateError,
        match=f"{first.path}: container's cgroup is not empty: 1 processes are in it already",
    ) as caught:
        second.create()
    assert "a cgroup of its own" in caught.value.hint
    assert not second.exists()
    stopping.clear(second, 5)
    stopping.kill(second)
    assert first.processes() == [process.pid]
    assert process.poll() is None
    second.close()


@BOTH
def test_usage_counts(open_cgroup, sleeper, version, tmp_path):
    cgroup = open_cgroup(version)
    cgroup.create()
    process = sleeper(sys.executable, "-I", "-S", "-c", SPENDER, str(tmp_path / "inside"))
    add(cgroup, process.pid)
    (tmp_path / "inside").touch()
    wait_for(lambda: (stats.usage(cgroup.record())["cpu"] or 0) > 50_000_000)
    if version == "v1":  # on a busy machine it may have spent time, but no memory yet
        wait_for(lambda: (stats.usage(cgroup.record())["memory"] or 0) > 4 << 20)
    usage = stats.usage(cgroup.record())
    assert usage["cpu"] is not None
    assert usage["cpu"] < 60e9
    if version == "v1":
        assert usage["pids"] == 1
        assert usage["memory"] is not None
        assert usage["memory_peak"] is not None
        assert 4 << 20 < usage["memory"] <= usage["memory_peak"] < 1 << 30


@BOTH
def test_the_log_tells_what_was_made_written_and_removed(open_cgroup, log, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    cgroup.set_device_rules([])
    cgroup.remove()
    told = log()
    made = [e["args"]["path"] for e in told if e["name"] == "mkdir"]
    removed = [e["args"]["path"] for e in told if e["name"] == "rmdir"]
    ours = [path for path in made if path.endswith(cgroup.path)]
    assert ours
    assert set(ours) <= set(removed)
    if version == "v1":
        writes = [(e["args"]["path"].rpartition("/")[2], e["args"]["data"]) for e in told
                  if e["name"] == "write"]  # fmt: skip
        assert ("devices.deny", "a") in writes
    else:
        commands = [e["args"]["cmd"] for e in told if e["name"] == "bpf"]
        assert commands == ["BPF_PROG_LOAD", "BPF_PROG_QUERY", "BPF_PROG_ATTACH"]


@BOTH
def test_the_mounts_show_a_container_its_own_cgroups_and_no_others(open_cgroup, version, tmp_path):
    cgroup = open_cgroup(version)
    cgroup.create()
    view = cgroup.mounts_for_container()
    script = ["set -e", "mount -t tmpfs none $0"]
    for row in view.mounts:
        script.append(f"mkdir -p $0/{row.path}")
        script.append(f"mount -t {row.fstype} -o '{row.data or 'rw'}' cgroup $0/{row.path}")
        script.append(f"cat $0/{row.path}/cgroup.procs")
        script.append(f"ls -d $0/{row.path}/minirun $0/{row.path}/release_agent 2>&1 || true")
    procs = [f"{directory}/cgroup.procs" for directory in cgroup.directories()]
    enter = "; ".join(f"echo $$ >{file}" for file in procs if os.path.exists(file))
    inner = "\n".join(script)
    argv = ["sh", "-c", f"{enter}; exec unshare -C -m sh -c '{inner}' {tmp_path}"]
    result = subprocess.run(argv, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")
    numbers = [line for line in lines if line.isdigit()]
    assert len(numbers) >= len(view.mounts)  # sh and its child cat, in each
    assert sum("No such file" in line for line in lines) == 2 * len(view.mounts)


def test_every_hierarchy_of_version_1(open_cgroup):
    cgroup = open_cgroup("v1")
    cgroup.create()
    names = {name for h in hierarchies.mounted() if h.version == 1 for name in h.names}
    assert set(cgroup.record()["dirs"]) == names
    assert all(map(os.path.isdir, cgroup.directories()))
    paths = [row.data for row in cgroup.mounts_for_container().mounts]
    assert sorted(",".join(paths).split(",")) == sorted(names)


@pytest.mark.parametrize(
    ("path", "clean"),
    [("/a/b", "/a/b"), ("a/b", "/a/b"), ("//a/./b/", "/a/b"), ("a..b", "/a..b")],
)
def test_paths_are_taken_from_the_root_of_the_mount(path, clean):
    assert cgroups.open_cgroup(path).path == clean


@pytest.mark.parametrize(
    "path", ["/..", "/a/../b", "../x", "/", "", "/a\nb", "/a\0b", "a" * 256, "/a" * 513]
)
def test_bad_paths_are_refused(path):
    with pytest.raises(ConfigError, match=r"^linux\.cgroupsPath: "):
        cgroups.open_cgroup(path)


def test_auto_prefers_the_device_list_on_a_hybrid_machine():
    mounted = hierarchies.mounted()
    has_list = any("devices" in h.names for h in mounted)
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers") or not has_list:
        pytest.skip("not a hybrid machine")
    assert cgroups.open_cgroup("/minirun/x").version == 1


def test_an_unknown_version_names_itself():
    with pytest.raises(MinirunError, match="cgroup v3: no such file system is mounted"):
        cgroups.open_cgroup("/minirun/x", "v3")
