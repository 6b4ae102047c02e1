"""The flags of `run` that are a property of config.json each: what is read, and what is refused."""

import json
import os
from pathlib import Path

import pytest

from conftest import Program
from minirun.cli.run import properties
from minirun.cli.run.run_flags import LEFT_OUT, PROPERTIES, RunFlags
from minirun.core.keeping import state
from minirun.oci.run_config import example, put

DISK = next(
    (f"/dev/{name}" for name in ("vda", "sda", "loop0") if os.path.exists(f"/dev/{name}")), ""
)


def test_each_row_has_a_reader_and_a_place() -> None:
    for key, row in PROPERTIES.items():
        assert callable(getattr(properties, row.read)), key
        assert row.path.startswith(("linux", "process.", "mounts.")) and row.text, key


def test_put() -> None:
    """An object is merged, a list grows, NAME=… replaces NAME=…, and None takes away."""
    document = example()
    shm = put(document, ["mounts", "destination=/dev/shm", "options"], ["size=5"])
    row = next(row for row in shm["mounts"] if row["destination"] == "/dev/shm")
    assert row["options"] == ["nosuid", "noexec", "nodev", "mode=1777", "size=5"]
    host = put(document, ["linux", "namespaces", "type=pid"], None)
    kinds = [row["type"] for row in host["linux"]["namespaces"]]
    assert "pid" not in kinds and "mount" in kinds
    joined = put(document, ["linux", "namespaces", "type=pid"], {"path": "/proc/1/ns/pid"})
    assert {"type": "pid", "path": "/proc/1/ns/pid"} in joined["linux"]["namespaces"]
    both = put(put({}, ["a", "b"], {"c": 1}), ["a"], {"b": {"d": 2}, "e": [3]})
    assert both == {"a": {"b": {"c": 1, "d": 2}, "e": [3]}}
    assert put({"a": {"b": 1, "c": 2}}, ["a", "b"], None) == {"a": {"c": 2}}


@pytest.mark.parametrize(
    ("flags", "path", "value"),
    [
        ("--memory 100m", "linux.resources.memory.limit", 100 << 20),
        ("-m1g --memory-swap -1", "linux.resources.memory.swap", -1),
        ("-m 1g --memory-reservation 10m", "linux.resources.memory.reservation", 10 << 20),
        ("--memory-swappiness 7", "linux.resources.memory.swappiness", 7),
        ("--oom-kill-disable", "linux.resources.memory.disableOOMKiller", True),
        ("--oom-score-adj=-5", "process.oomScoreAdj", -5),
        ("--cpus 1.5", "linux.resources.cpu", {"period": 100000, "quota": 150000}),
        ("-c 512", "linux.resources.cpu.shares", 512),
        ("--cpu-period 50000 --cpu-quota 20000", "linux.resources.cpu",
         {"period": 50000, "quota": 20000}),
        ("--cpuset-cpus 0-1,3", "linux.resources.cpu.cpus", "0-1,3"),
        ("--cpuset-mems=0", "linux.resources.cpu.mems", "0"),
        ("--pids-limit 7", "linux.resources.pids.limit", 7),
        ("--pids-limit -1", "linux.resources.pids", None),
        ("--blkio-weight 300", "linux.resources.blockIO.weight", 300),
        ("--ulimit nofile=5:6", "process.rlimits",
         [{"type": "RLIMIT_NOFILE", "soft": 5, "hard": 6}]),
        ("--sysctl net.core.somaxconn=9", "linux.sysctl", {"net.core.somaxconn": "9"}),
        ("--cgroup-parent /a/b", "linux.cgroupsPath", "/a/b/n"),
        ("--hostname h", "hostname", "h"),
        ("--uts host", "hostname", None),
        ("--group-add 44 --group-add 45", "process.user.additionalGids", [0, 44, 45]),
        ("--ipc none", "mounts.destination=/dev/shm", None),
        ("--privileged", "linux.maskedPaths", []),
        ("--privileged", "linux.seccomp", None),
        ("--init", "process.args.0", "/sbin/docker-init"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_flag(minirun: Program, flags: str, path: str, value: object) -> None:
    done = minirun("spec", "--name", "n", *flags.split(), "busybox", "true")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in path.split("."):
        if isinstance(found, list):
            key, _, word = name.partition("=")
            rows = [row for row in found if isinstance(row, dict) and row.get(key) == word]
            found = found[int(name)] if name.isdigit() else (rows or [None])[0]
        else:
            found = (found or {}).get(name)
    assert found == value


def test_they_reach_the_kernel(minirun: Program) -> None:
    done = minirun(
        "run", "--rm", "--shm-size", "5m", "--pids-limit", "77",
        "--sysctl", "net.core.somaxconn=99", "--oom-score-adj", "333",
        "--cpuset-cpus", "0", "--group-add", "44", "--uts", "host",
        "busybox", "sh", "-c",
        "df /dev/shm | tail -1; cat /proc/sys/net/core/somaxconn /proc/self/oom_score_adj;"
        " nproc; id -G; hostname",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shm, *lines = done.stdout.splitlines()
    assert shm.split()[1] == str(5 << 10)
    assert lines == ["99", "333", "1", "0 44", os.uname().nodename]


def test_privileged_opens_all_and_says_so(minirun: Program) -> None:
    """As docker's: capabilities, devices, /sys and cgroups, no filter; one line of the log."""
    script = (
        "grep -E 'CapEff|Seccomp:' /proc/self/status; mount -t tmpfs t /tmp && echo mounted;"
        " ls /dev | wc -l; grep ' /sys ' /proc/mounts; cat /proc/timer_list | head -c 1 | wc -c"
    )
    done = minirun("run", "--name", "p", "--privileged", "busybox", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    status, seccomp, mounted, devices, sysfs, byte = done.stdout.splitlines()
    own = Path("/proc/self/status").read_text().partition("CapBnd:")[2]
    assert int(status.split()[1], 16) == int(own.split()[0], 16)
    assert seccomp.split()[1] == "0" and mounted == "mounted" and byte == "1"
    assert int(devices) > 40 and " rw," in sysfs
    notes = [event for event in minirun.events("p") if event["name"] == "warning"]
    assert len(notes) == 1 and str(notes[0]["args"]["text"]).startswith("--privileged: every")
    minirun("rm", "p")


def test_the_nodes_of_a_folder(minirun: Program, nodes_path: Path) -> None:
    (nodes_path / "below").mkdir()
    os.mknod(nodes_path / "one", 0o20640, os.makedev(1, 3))
    os.mknod(nodes_path / "below/two", 0o20666, os.makedev(1, 5))
    (nodes_path / "text").write_text("")
    (nodes_path / "link").symlink_to("/dev/kmsg")
    device = f"{nodes_path}:/dev/dri:rw"
    script = "cd /dev/dri; ls; ls below; head -c 3 below/two | wc -c"
    done = minirun("run", "--rm", "--device", device, "busybox", "sh", "-c", script)
    assert (done.stdout, done.returncode) == ("below\none\ntwo\n3\n", 0), done.stderr


def test_a_pid_namespace_is_shared(minirun: Program) -> None:
    assert minirun("run", "-d", "--name", "one", "busybox", "sleep", "77").returncode == 0
    done = minirun("run", "--rm", "--pid", "container:one", "busybox", "ps")
    assert "sleep 77" in done.stdout and done.stderr == ""
    done = minirun("run", "--rm", "--pid=host", "busybox", "cat", "/proc/1/comm")
    assert done.stdout == Path("/proc/1/comm").read_text()
    minirun("rm", "-f", "one")
    done = minirun("run", "--rm", "--pid", "container:one", "busybox", "ps")
    assert done.returncode == 125 and "'one' does not exist" in done.stderr


def test_init_is_pid_1_and_reaps(minirun: Program) -> None:
    zombies = "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l"
    script = f"(sleep 0.1 &); sleep 0.4; cat /proc/1/comm; {zombies}"
    done = minirun("run", "--rm", "--init", "busybox", "sh", "-c", script)
    assert done.stdout == "docker-init\n0\n", done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--memory 1x", "--memory '1x' (bytes"),
        ("--memory -5", "--memory '-5' (bytes"),
        ("--memory-swap 5m", "--memory-swap: it counts memory and swap together (with --memory"),
        ("-m 10m --memory-swap 5m", "--memory-swap is less than --memory"),
        ("-m 10m --memory-reservation 20m", "--memory-reservation is above --memory"),
        ("--memory-swappiness 101", "--memory-swappiness '101' (a whole number from 0 to 100)"),
        ("--oom-score-adj 1001", "--oom-score-adj '1001' (a whole number from -1000 to 1000)"),
        ("--oom-kill-disable=maybe", "'maybe' for --oom-kill-disable: true or false"),
        ("--cpus 0.001", "--cpus '0.001' (a number of CPUs from 0.01 to"),
        ("--cpus one", "--cpus 'one' (a number of CPUs"),
        ("--cpus 1 --cpu-quota 5000", "--cpus and --cpu-quota: conflicting options"),
        ("--cpu-shares 1", "--cpu-shares '1' (a whole number from 2 to 262144)"),
        ("--cpu-period 5", "--cpu-period '5' (microseconds, from 1000"),
        ("--cpu-quota 5", "--cpu-quota '5' (microseconds from 1000"),
        ("--cpu-rt-runtime x", "--cpu-rt-runtime 'x' (a whole number)"),
        ("--cpuset-cpus a-b", "--cpuset-cpus 'a-b' (numbers and ranges"),
        ("--cpuset-cpus 3-1", "--cpuset-cpus '3-1' (numbers and ranges, the smaller first"),
        ("--cpuset-mems ,", "--cpuset-mems ',' (numbers and ranges"),
        ("--pids-limit many", "--pids-limit 'many' (a whole number"),
        ("--blkio-weight 5", "--blkio-weight '5' (a whole number from 10 to 1000)"),
        ("--blkio-weight-device x:5", "--blkio-weight-device 'x:5' (--blkio-weight-device /dev"),
        ("--device-read-bps /dev/null:1m", "--device-read-bps '/dev/null:1m' (/dev/null is no"),
        ("--device-write-bps /dev/nosuch:1m", '"/dev/nosuch": no such file or directory'),
        ("--device-read-iops /dev/sda", "--device-read-iops '/dev/sda' (--device-read-iops /dev"),
        ("--device-cgroup-rule x", "--device-cgroup-rule 'x' (--device-cgroup-rule 'c 189:* rwm'"),
        ("--device-cgroup-rule d_1:2_r", "--device-cgroup-rule 'd 1:2 r' ("),
        ("--device-cgroup-rule c_1:2_rwx", "--device-cgroup-rule 'c 1:2 rwx' ("),
        ("--device /nosuch", 'error gathering device information: "/nosuch": no such file'),
        ("--device /etc/passwd", "--device '/etc/passwd' (/etc/passwd is not a device node)"),
        ("--device /etc/apt", "--device '/etc/apt' (/etc/apt has no device node)"),
        ("--device /dev/null:/a:b:c", "--device '/dev/null:/a:b:c' (--device /dev/x"),
        ("--device /dev/null:rx", "--device '/dev/null:rx' (--device /dev/x"),
        ("--ulimit files=5", "--ulimit type: 'files' (core, cpu"),
        ("--ulimit nofile=9:5", "--ulimit 'nofile=9:5' (the soft limit is above"),
        ("--ulimit nofile", "--ulimit 'nofile' (NAME=SOFT[:HARD]"),
        ("--sysctl kernel.hostname=x", "--sysctl 'kernel.hostname=x' is not allowed"),
        ("--sysctl vm.swappiness=1", "--sysctl 'vm.swappiness=1' is not allowed: it is the whole"),
        ("--sysctl net.x", "--sysctl 'net.x' (--sysctl NAME=VALUE)"),
        ("--sysctl net.a=1 --network host", "--sysctl net.a is the host's with --network host"),
        ("--sysctl kernel.msgmax=1 --ipc host", "--sysctl kernel.msgmax is the host's with --ipc"),
        ("--shm-size big", "--shm-size 'big' (bytes"),
        ("--cgroupns mine", "--cgroupns 'mine' (host or private)"),
        ("--uts container:x", "--uts 'container:x' (host or private)"),
        ("--pid mine", "--pid 'mine' (host, or container:ID)"),
        ("--pid container:", "--pid 'container:' (host, or container:ID)"),
        ("--ipc mine", "--ipc 'mine' (private, shareable, host, none, or container:ID)"),
        ("--runtime kata", "--runtime 'kata' (runc, minirun, nvidia, amd or habana)"),
        ("--isolation process", "--isolation 'process' (default)"),
        ("--group-add nosuchgroup", "unable to find group nosuchgroup"),
        ("--label =x", "--label '=x' (--label NAME=VALUE)"),
        ("--label-file /nosuch", "--label-file /nosuch: no such file or directory"),
        ("--expose 0", "--expose '0' (a port from 1 to 65535"),
        ("--expose 80/icmp", "--expose '80/icmp' (a port from 1 to 65535"),
        ("--restart sometimes", "--restart 'sometimes' (no, always, unless-stopped, on-failure"),
        ("--restart always:3", "--restart 'always:3' (a count goes with on-failure alone)"),
        ("--restart on-failure:x", "--restart 'on-failure:x' (on-failure:N"),
        ("--restart always --rm", "--rm and --restart: conflicting options"),
        ("--stop-timeout soon", "--stop-timeout 'soon' (a number of seconds, or -1"),
        ("--stop-signal NOPE", "invalid stop signal 'NOPE'"),
        ("--log-driver syslog", "--log-driver 'syslog' (json-file, none or local)"),
        ("--log-opt max-size=none", "--log-opt max-size=none: is no size (10m"),
        ("--detach-keys ctrl-ctrl", "--detach-keys 'ctrl-ctrl' (such as ctrl-p,ctrl-q"),
        ("--health-interval soon --health-cmd x", "--health-interval 'soon' (such as 5s"),
        ("--health-retries 0 --health-cmd x", "--health-retries '0' (a whole number from 1 up)"),
        ("--health-timeout 5s", "--health-timeout: there is no check"),
        ("--no-healthcheck --health-cmd x", "--no-healthcheck and --health-cmd: conflicting"),
        ("--cidfile /etc/passwd", "--cidfile /etc/passwd: the file is there"),
        ("--privilege", "unknown flag: --privilege (did you mean --privileged?"),
        ("--shm_size 5", "unknown flag: --shm_size (did you mean --shm-size?"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_line(minirun: Program, flags: str, said: str) -> None:
    words = [
        word.replace("_", " ") if "rule" in flags and ":" in word else word
        for word in flags.split()
    ]
    done = minirun("run", "--rm", *words, "busybox", "true")
    assert done.returncode == 125, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1 and said in done.stderr
    assert state.names(str(minirun.root)) == []


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_what_is_left_out_says_why(minirun: Program, name: str) -> None:
    done = minirun("run", f"{name}=x", "busybox")
    assert (done.returncode, done.stderr) == (
        125, f"minirun: {name} is left out ({LEFT_OUT[name]})\n",
    )  # fmt: skip


def test_a_table_declares_flags_as_attributes_do() -> None:
    flags = RunFlags(
        ["-m", "1g", "--device=/dev/a", "--device", "/dev/b", "--oom-kill-disable", "i"]
    )
    assert (flags.value("memory"), flags.value("device")) == ("1g", ["/dev/a", "/dev/b"])
    assert flags.value("oom_kill_disable") is True and flags.value("cpus") == ""
    assert flags.args == ["i"]
