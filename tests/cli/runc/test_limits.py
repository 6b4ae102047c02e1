"""update, events and features: what minirun and runc make of the same words."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.columns import Runtime
from conftest import Program, cgroup, skip, wait_until
from minirun.cgroups import stats as counters
from minirun.cli.runc.update import merge
from minirun.cli.words import duration
from minirun.core.errors import UsageError
from minirun.core.rootfs import mount_options
from minirun.oci import features

V1 = Path("/sys/fs/cgroup")
MIB = 1 << 20


def read(runtime: Runtime, controller: str, file: str) -> str:
    """What a file of the container's cgroup holds; both runtimes are given the same path."""
    if not (V1 / controller).is_dir():
        skip(f"cgroup v1 has no {controller} hierarchy on this machine")
    return (V1 / controller / f"minirun-test-{runtime.name}" / file).read_text().strip()


FLAGS = (
    ("--memory 32m", "memory", "memory.limit_in_bytes", str(32 * MIB)),
    ("--memory 33554432", "memory", "memory.limit_in_bytes", str(32 * MIB)),
    ("--memory-reservation 16m", "memory", "memory.soft_limit_in_bytes", str(16 * MIB)),
    ("--memory 32m --memory-swap 64m", "memory", "memory.memsw.limit_in_bytes", str(64 * MIB)),
    ("--cpu-share 512", "cpu", "cpu.shares", "512"),
    ("--cpu-period 50000 --cpu-quota 25000", "cpu", "cpu.cfs_quota_us", "25000"),
    ("--cpu-quota 25000", "cpu", "cpu.cfs_quota_us", "25000"),
    ("--cpuset-cpus 0", "cpuset", "cpuset.cpus", "0"),
    ("--cpuset-mems 0", "cpuset", "cpuset.mems", "0"),
    ("--kernel-memory 16m --pids-limit 16", "pids", "pids.max", "16"),
    ("--kernel-memory-tcp 16m --pids-limit 15", "pids", "pids.max", "15"),
    ("--pids-limit 17", "pids", "pids.max", "17"),
    ("--pids-limit -1", "pids", "pids.max", "max"),
)  # fmt: skip


@pytest.mark.parametrize(("flags", "controller", "file", "value"), FLAGS, ids=lambda v: str(v)[:30])
def test_update_by_flags(
    runtime: Runtime, flags: str, controller: str, file: str, value: str
) -> None:
    runtime.running()
    done = runtime("update", *flags.split(), "ID")
    assert done.returncode == 0, done.stdout
    assert read(runtime, controller, file) == value


def test_an_idle_container_with_shares(minirun: Program) -> None:
    """The kernel refuses shares while it is idle; runc 1.1 has no --cpu-idle to compare with."""
    minirun("run", "-d", "--name", "i", "busybox", "sleep", "100")
    for flags in ("--cpu-share=512", "--cpu-share=512", "--cpu-share=300"):
        done = minirun("update", "--cpu-idle=1", flags, "i")
        assert done.returncode == 0, done.stderr
    assert minirun("update", "--cpu-idle=0", "--cpu-share=700", "i").returncode == 0
    dirs = json.loads(minirun("inspect", "--json", "i").stdout)["cgroup"]["dirs"]
    assert Path(dirs["cpu"], "cpu.shares").read_text() == "700\n"


@pytest.mark.parametrize("words", [("--resources", "-"), ("--resources=-",), ("-r", "-")])
def test_update_from_standard_input(runtime: Runtime, words: tuple[str, ...]) -> None:
    """containerd 1.6 and 1.7 write it so; zeros mean: as it was."""
    runtime.running()
    before = read(runtime, "devices", "devices.list")
    resources = {
        "memory": {"limit": 48 * MIB, "reservation": 0}, "pids": {"limit": 0},
        "cpu": {"shares": 700, "quota": 0, "cpus": ""}, "devices": [],
    }  # fmt: skip
    done = runtime("update", *words, "ID", input=json.dumps(resources))
    assert done.returncode == 0, done.stderr
    assert read(runtime, "memory", "memory.limit_in_bytes") == str(48 * MIB)
    assert read(runtime, "cpu", "cpu.shares") == "700"
    assert read(runtime, "pids", "pids.max") == "max"
    assert read(runtime, "devices", "devices.list") == before


def test_update_from_a_file(runtime: Runtime) -> None:
    """podman's way; and what has been updated before stays."""
    runtime.running()
    assert runtime("update", "--memory", "40m", "ID").returncode == 0
    path = runtime.bundle / "r.json"
    path.write_text('{"pids": {"limit": 9}}')
    assert runtime("update", f"--resources={path}", "ID").returncode == 0
    assert read(runtime, "pids", "pids.max") == "9"
    assert read(runtime, "memory", "memory.limit_in_bytes") == str(40 * MIB)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--memory", "abc"), "invalid size: 'abc'"),
        (("--cpu-quota", "abc"), "abc"),
        (("--resources", "/nosuch"), "/nosuch"),
        (("--l3-cache-schema", "L3:0=f"), "RDT"),
        (("--nosuch", "1"), "nosuch"),
    ],
)
def test_update_refuses(runtime: Runtime, words: tuple[str, ...], text: str) -> None:
    runtime.running()
    done = runtime("update", *words, "ID")
    assert done.returncode == 1
    assert text in done.stdout


def test_update_after_one_that_failed(minirun: Program) -> None:
    """Without cgroupsPath, too: its cgroups of version 1 are all there from the start."""
    if not all((V1 / name).is_dir() for name in ("memory", "cpuset", "cpu", "blkio")):
        skip("cgroup v1 has no memory, cpuset, cpu or blkio hierarchy on this machine")
    minirun("run", "-d", "--name", "u", "busybox", "sleep", "100")
    for words in (("--memory=1",), ("--cpuset-cpus=9999",), ("--cpu-share=-1",)):
        assert minirun("update", *words, "u").returncode == 1
    done = minirun("update", "--memory=32m", "--cpuset-cpus=0", "--cpu-share=512", "u")
    assert (done.returncode, done.stderr) == (0, "")
    dirs = json.loads(minirun("inspect", "--json", "u").stdout)["cgroup"]["dirs"]
    files = (("memory", "memory.limit_in_bytes"), ("cpuset", "cpuset.cpus"), ("cpu", "cpu.shares"))
    found = [Path(dirs[name], file).read_text().strip() for name, file in files]
    assert found == [str(32 * MIB), "0", "512"]
    lines = minirun("exec", "u", "cat", "/proc/self/cgroup").stdout.splitlines()
    assert {line.rpartition(":")[2] for line in lines} == {"/"}, "its own, in each hierarchy"


def test_a_limit_of_the_kernels_memory_is_a_warning(minirun: Program) -> None:
    minirun("run", "-d", "--name", "u", "busybox", "sleep", "100")
    for flag in ("--kernel-memory", "--kernel-memory-tcp"):
        done = minirun("update", flag, "16m", "u")
        text = "minirun: warning: --kernel-memory is passed over: "
        assert done.returncode == 0 and done.stderr.startswith(text)


def test_update_of_one_that_has_stopped(runtime: Runtime) -> None:
    done = runtime.stopped()("update", "--pids-limit", "3", "ID")
    assert done.returncode == 1 and "container not running" in done.stdout


def test_broken_json(minirun: Program) -> None:
    minirun("run", "-d", "--name", "u", "busybox", "sleep", "100")
    done = minirun("update", "-r", "-", "u", input="{")
    assert done.returncode == 1 and "standard input: not JSON" in done.stderr
    done = minirun("update", "-r", "-", "u", input='{"memory": {"limit": "1"}}')
    assert done.returncode == 1 and "linux.resources.memory.limit: expected" in done.stderr


def test_what_a_record_cannot_hold_is_refused(minirun: Program) -> None:
    """Else every later command would call the record damaged; uint64 is the specification's."""
    minirun("run", "-d", "--name", "u", "busybox", "sleep", "100")
    deep = "{" + '"a":{' * 40 + "}" * 41
    for value, words in ((str(1 << 64), "a number in it is too large"), (deep, "nested too")):
        done = minirun("update", "-r", "-", "u", input=f'{{"unknown": {{"x": {value}}}}}')
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert f"linux.resources: {words}" in done.stderr
    text = json.dumps({"cpu": {"shares": 700}, "unknown": {"x": (1 << 64) - 1}})
    assert minirun("update", "-r", "-", "u", input=text).returncode == 0
    assert minirun("exec", "u", "true").stderr == ""


def test_merging_keeps_what_is_not_named() -> None:
    before = {"memory": {"limit": 5, "swap": 9}, "cpu": {"quota": 4}}
    assert merge(before, {"cpu": {"period": 3}})["cpu"] == {"quota": 4, "period": 3}
    assert merge(before, {"memory": {"limit": -1}})["memory"] == {"limit": -1, "swap": -1}
    assert merge({}, {"pids": {"limit": 1}}) == {"pids": {"limit": 1}}
    assert before == {"memory": {"limit": 5, "swap": 9}, "cpu": {"quota": 4}}, "left alone"


def test_stats_have_runcs_shape(runtime: Runtime) -> None:
    runtime.running()
    done = runtime("events", "--stats", "ID")
    assert done.returncode == 0
    (event,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (event["type"], event["id"]) == ("stats", runtime.name)
    data: dict[str, Any] = event["data"]
    assert set(data) == {
        "cpu", "cpuset", "memory", "pids", "blkio", "hugetlb", "intel_rdt", "network_interfaces",
    }  # fmt: skip
    assert data["pids"]["current"] >= 1
    assert data["cpu"]["usage"]["total"] > 0
    names = {"usage", "swap", "kernel", "kernelTCP", "raw"}
    assert set(data["memory"]) - {"cache"} == names, "runc leaves out a cache of 0"
    usage, raw = data["memory"]["usage"], data["memory"]["raw"]
    assert 0 < usage["usage"] <= usage["max"]
    assert usage["limit"] == raw["hierarchical_memory_limit"]


def test_stats_of_both_versions(minirun_both: Program) -> None:
    minirun_both("run", "-d", "--name", "s", "busybox", "sleep", "100")
    event = json.loads(minirun_both("events", "--stats", "s").stdout)
    assert event["data"]["cpu"]["usage"]["total"] > 0
    path = Path(cgroup(minirun_both, "s"), "pids.current")
    if path.exists():  # on a hybrid machine, version 2 has no controllers
        assert event["data"]["pids"]["current"] == int(path.read_text())


def test_stats_from_files_of_version_2(tmp_path: Path) -> None:
    for name, text in {
        "cpu.stat": "usage_usec 7\nuser_usec 4\nsystem_usec 3\nnr_periods 2\n",
        "memory.stat": "file 4096\nanon 5\n", "memory.current": "9000", "memory.max": "max",
        "memory.peak": "9001", "memory.swap.current": "1", "memory.swap.max": "2",
        "memory.events": "low 0\nmax 6\noom_kill 1\n", "pids.current": "3", "pids.max": "8",
        "io.stat": "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    found = counters.stats({"version": 2, "path": "/x", "dirs": {"": str(tmp_path)}})
    usage = {"total": 7000, "kernel": 3000, "user": 4000}
    assert found["cpu"] == {"usage": usage, "throttling": {"periods": 2}}
    limit = {"limit": counters.UNLIMITED, "usage": 9000, "max": 9001, "failcnt": 6}
    assert found["memory"]["usage"] == limit and found["memory"]["cache"] == 4096
    assert found["memory"]["swap"] == {"limit": 2, "usage": 1, "failcnt": 0}
    assert found["pids"] == {"current": 3, "limit": 8}
    reads = {"major": 8, "minor": 0, "op": "Read", "value": 10}
    assert found["blkio"]["ioServiceBytesRecursive"][0] == reads


def test_events_until_the_end(runtime: Runtime) -> None:
    runtime.running()
    argv = [*runtime.argv, "events", "--interval", "50ms", runtime.name]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert json.loads(process.stdout.readline())["type"] == "stats"
        assert json.loads(process.stdout.readline())["type"] == "stats"
        runtime("delete", "--force", "ID")
        assert process.wait(20) == 0


def descriptors(pid: int) -> list[str]:
    """What the open descriptors of a process are."""
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(entry.path))
        except OSError:
            continue
    return found


def test_out_of_memory_is_an_event(minirun: Program) -> None:
    minirun("run", "-d", "--name", "o", "--memory", "16m", "busybox", "sleep", "100")
    argv = minirun.argv("events", "--interval", "60s", "o")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: any("eventfd" in name for name in descriptors(process.pid)))
        minirun("exec", "o", "sh", "-c", "tail /dev/zero")
        assert process.stdout
        assert json.loads(process.stdout.readline()) == {"type": "oom", "id": minirun.id("o")}
        minirun("kill", "o", "KILL")
        assert process.wait(10) == 0


def test_events_without_an_id_follow_every_log(minirun: Program) -> None:
    with subprocess.Popen(minirun.argv("events"), stdout=subprocess.PIPE, text=True) as process:
        minirun("run", "-d", "--name", "e1", "busybox", "sleep", "100")
        assert process.stdout
        row = json.loads(process.stdout.readline())
        assert (row["id"], row["v"]) == (minirun.id("e1"), 1)
        process.terminate()


@pytest.mark.parametrize(("text", "seconds"), [("5s", 5), ("250ms", 0.25), ("1m30s", 90)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["5", "s", "1x", "0s", "1..5s", "-1s", ""])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(UsageError):
        duration(text)


def test_features_say_what_the_tables_hold(runtime: Runtime) -> None:
    done = runtime("features")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["ociVersionMin"] == "1.0.0"
    assert {"prestart", "poststop", "startContainer"} < set(found["hooks"])
    assert {"ro", "rbind", "rslave", "tmpcopyup", "nosymfollow"} < set(found["mountOptions"])
    linux = found["linux"]
    assert {"pid", "user", "cgroup"} < set(linux["namespaces"])
    assert "CAP_BPF" in linux["capabilities"]
    assert linux["cgroup"]["v1"] and linux["cgroup"]["v2"]
    assert "SCMP_ACT_ERRNO" in linux["seccomp"]["actions"]
    assert {"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"} < set(linux["seccomp"]["archs"])


def test_without_jeepney_there_is_no_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    both = ("systemd", "systemdUser")
    assert all(features.document()["linux"]["cgroup"][name] for name in both)
    monkeypatch.setitem(sys.modules, "jeepney", None)
    assert not any(features.document()["linux"]["cgroup"][name] for name in both)


def test_the_one_annotation_that_is_obeyed(minirun: Program) -> None:
    found = json.loads(minirun("features").stdout)
    assert found["potentiallyUnsafeConfigAnnotations"] == ["io.minirun.log"]


def test_every_mount_option_of_the_features_is_known(minirun: Program) -> None:
    """None of them would be passed on to the file system as data."""
    for word in json.loads(minirun("features").stdout)["mountOptions"]:
        assert mount_options.parse([word]).data == "", word


def test_a_recursive_read_only_bind_is_one(minirun: Program, tmp_path: Path) -> None:
    """dockerd sends rro where the features have it: then the mounts below must be read-only."""
    assert "rro" in json.loads(minirun("features").stdout)["mountOptions"]
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "t", str(inner)], check=True)
    try:
        made = Runtime(minirun.argv(), tmp_path, f"rro-{os.getpid()}")
        made.config(args=["touch", "/mnt/inner/x"])
        config = json.loads((tmp_path / "config.json").read_text())
        bind = {"destination": "/mnt", "type": "bind", "source": str(inner.parent)}
        for words, status in ((["rbind", "ro"], 0), (["rbind", "rro"], 1)):
            config["mounts"] = [*config["mounts"][:1], bind | {"options": words}]
            (tmp_path / "config.json").write_text(json.dumps(config))
            done = made("run", "-b", ".", "ID")
            assert done.returncode == status, done.stdout
        assert "Read-only file system" in done.stdout
    finally:
        subprocess.run(["umount", str(inner)], check=True)


@pytest.mark.parametrize("limit", ["8m", "6m", "4m"])
def test_a_small_memory_limit(minirun: Program, layer: Path, limit: str) -> None:
    """Init is a copy of the runtime: its Python was charged to the caller, not to the container.

    docker takes 6m at least, and a bundle, as with runc, less.
    """
    words = ["--memory", limit, "busybox", "echo", "started"]
    done = minirun("run", "--rm", *words)
    if limit == "4m":
        assert (done.returncode, done.stdout) == (125, "")
        assert done.stderr == "minirun: invalid --memory '4m' (6m or more)\n"
        config = minirun.spec(*words[3:])
        config["linux"].setdefault("resources", {})["memory"] = {"limit": 4 * MIB}
        (layer.parent / "config.json").write_text(json.dumps(config))
        done = minirun("run", "--bundle", str(layer.parent), "small")
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr
