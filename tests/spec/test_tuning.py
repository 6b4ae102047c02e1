"""scheduler, ioPriority, personality, memoryPolicy and execCPUAffinity, seen from inside."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cgroups.conftest import require_mounted
from conftest import skip
from minirun.cgroups import hierarchies
from minirun.core.config import Config
from minirun.core.errors import ConfigError
from minirun.oci.exec import join
from minirun.oci.tuning import tuning
from spec.conftest import Bundle

SCHED = "grep -E '^(policy|prio)' /proc/self/sched | tr -d ' ' | tr '\\n' ' '"


BUDGET = Path("/sys/fs/cgroup/cpu/cpu.rt_runtime_us")
"""Where it is (CONFIG_RT_GROUP_SCHED), a new cgroup of version 1 may use no realtime."""


@pytest.fixture
def realtime(bundle: Bundle) -> Bundle:
    """A bundle whose cgroup does not count realtime."""
    if BUDGET.exists():
        require_mounted("v2")
        bundle.program.flags = ("--cgroup", "v2")
        bundle.config["linux"]["resources"].pop("pids", None)  # its controller is in version 1
    return bundle


@pytest.mark.skipif(not BUDGET.exists(), reason="this kernel does not count realtime by cgroup")
def test_a_cgroup_without_a_budget_of_realtime(bundle: Bundle) -> None:
    """As with runc and docker: linux.resources.cpu.realtimeRuntime gives it one."""
    wish = {"policy": "SCHED_RR", "priority": 7}
    assert "operation not permitted" in bundle.refuses(process__scheduler=wish)


def test_a_scheduler_of_real_time(realtime: Bundle) -> None:
    bundle, wish = realtime, {"policy": "SCHED_RR", "priority": 7}
    bundle.create("sleep 100", process__scheduler=wish)
    pid = bundle.state()["pid"]
    assert os.sched_getscheduler(pid) == os.SCHED_RR
    assert os.sched_getparam(pid).sched_priority == 7


@pytest.mark.parametrize(
    ("policy", "nice", "expected"),
    [("SCHED_BATCH", 5, os.SCHED_BATCH), ("SCHED_IDLE", os.nice(0), os.SCHED_IDLE),
     ("SCHED_OTHER", -3, os.SCHED_OTHER)],
)  # fmt: skip
def test_schedulers_with_a_nice_value(
    bundle: Bundle, policy: str, nice: int, expected: int
) -> None:
    """SCHED_IDLE has none, and leaves the one that it finds: the tests' own."""
    bundle.create("sleep 100", process__scheduler={"policy": policy, "nice": nice})
    pid = bundle.state()["pid"]
    assert os.sched_getscheduler(pid) == expected
    assert os.getpriority(os.PRIO_PROCESS, pid) == nice


def test_a_scheduler_that_is_forgotten_at_fork(realtime: Bundle) -> None:
    bundle = realtime
    wish = {"policy": "SCHED_FIFO", "priority": 3, "flags": ["SCHED_FLAG_RESET_ON_FORK"]}
    bundle.create("sleep 100", process__scheduler=wish)
    found = os.sched_getscheduler(bundle.state()["pid"])
    assert found == os.SCHED_FIFO | os.SCHED_RESET_ON_FORK


def test_a_deadline(bundle: Bundle) -> None:
    million = 1_000_000
    wish = {
        "policy": "SCHED_DEADLINE", "runtime": million, "deadline": 10 * million,
        "period": 20 * million, "flags": ["SCHED_FLAG_RESET_ON_FORK"],
    }  # fmt: skip
    bundle.create("sleep 100", process__scheduler=wish)
    sched_deadline = 6
    reset = os.SCHED_RESET_ON_FORK
    assert os.sched_getscheduler(bundle.state()["pid"]) == sched_deadline | reset


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        ({"class": "IOPRIO_CLASS_BE", "priority": 6}, "best-effort: prio 6"),
        ({"class": "IOPRIO_CLASS_IDLE", "priority": 0}, "idle"),
        ({"class": "IOPRIO_CLASS_RT", "priority": 2}, "realtime: prio 2"),
    ],
)
def test_io_priority(bundle: Bundle, wish: dict[str, Any], shown: str) -> None:
    assert bundle.says(["ionice"], process__ioPriority=wish) == shown


def test_a_machine_of_32_bits(bundle: Bundle) -> None:
    if platform.machine() != "x86_64":
        skip("what uname calls this processor's 32 bits is not known to the test")
    assert bundle.says(["uname", "-m"], linux__personality={"domain": "LINUX32"}) == "i686"
    assert bundle.says(["uname", "-m"], linux__personality={"domain": "LINUX"}) == "x86_64"


def test_an_exec_has_the_same_personality(bundle: Bundle) -> None:
    if platform.machine() != "x86_64":
        skip("what uname calls this processor's 32 bits is not known to the test")
    bundle.create("sleep 100", linux__personality={"domain": "LINUX32"})
    assert bundle.program("start", bundle.name).returncode == 0
    assert bundle.program("exec", bundle.name, "uname", "-m").stdout == "i686\n"


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        ({"mode": "MPOL_BIND", "nodes": "0"}, "bind:0"),
        ({"mode": "MPOL_INTERLEAVE", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]},
         "interleave=static:0"),
        ({"mode": "MPOL_PREFERRED", "nodes": "0"}, "prefer:0"),
        ({"mode": "MPOL_LOCAL"}, "local"),
        ({"mode": "MPOL_DEFAULT"}, "default"),
    ],
)  # fmt: skip
def test_memory_policy(bundle: Bundle, wish: dict[str, Any], shown: str) -> None:
    if not os.path.exists("/proc/self/numa_maps"):
        skip("the kernel was built without CONFIG_NUMA")
    script = "head -1 /proc/self/numa_maps | cut -d ' ' -f 2"
    assert bundle.says(script, linux__memoryPolicy=wish) == shown


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({}, "invalid memory policy mode: '' is none of"),
        ({"nodes": "0"}, "invalid memory policy mode: '' is none of"),
        ({"mode": "MPOL_DEFAULT", "nodes": "0-7"}, "mode requires 0 nodes but got 8"),
        ({"mode": "MPOL_LOCAL", "nodes": "3"}, "mode requires 0 nodes but got 1"),
        ({"mode": "MPOL_BIND"}, "mode requires at least one node but got 0"),
    ],
)
def test_a_memory_policy_that_is_none(bundle: Bundle, wish: dict[str, Any], said: str) -> None:
    """In the words of runc 1.5: libcontainer/configs/validate/validator.go."""
    assert said in bundle.refuses(linux__memoryPolicy=wish)


def test_a_node_that_there_is_not(bundle: Bundle) -> None:
    if not os.path.exists("/proc/self/numa_maps"):
        skip("the kernel was built without CONFIG_NUMA")
    said = bundle.refuses(linux__memoryPolicy={"mode": "MPOL_BIND", "nodes": "1000"})
    assert "linux.memoryPolicy: set_mempolicy: invalid argument" in said


def _last_cpu() -> int:
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        skip("this machine has one CPU")
    return max(cpus)


@pytest.mark.parametrize("final", [True, False])
def test_cpus_for_exec_alone(bundle_both: Bundle, final: bool) -> None:
    bundle, last = bundle_both, _last_cpu()
    wish = {"initial": str(last)} | ({"final": str(last)} if final else {})
    pid = bundle.create("sleep 100", process__execCPUAffinity=wish)["pid"]
    assert os.sched_getaffinity(pid) == os.sched_getaffinity(0), "not for init"
    assert bundle.program("start", bundle.name).returncode == 0
    show = ["grep", "Cpus_allowed_list", "/proc/self/status"]
    done = bundle.program("exec", bundle.name, *show)
    assert done.returncode == 0, done.stderr
    found = tuning.numbers(done.stdout.split()[1], "")
    assert found == ({last} if final else _left_by_the_kernel(pid, last))


def _left_by_the_kernel(pid: int, cpu: int) -> set[int]:
    """Return the CPUs of a process that was on one and enters the cgroup of `pid`.

    Version 1's cpuset gives it all of the cgroup's; whether it asked for some, newer kernels heed.
    """
    join = "echo 0 > $0 && exec grep Cpus_allowed_list /proc/self/status"
    places = {h.path: h for h in hierarchies.mounted() if "cpuset" in h.names}
    path = hierarchies.paths_of(pid)
    into = [f"{place}{path[','.join(h.names)]}/tasks" for place, h in places.items()]
    words = ["taskset", "-c", str(cpu), "sh", "-c", join, *(into or ["/dev/null"])]
    return tuning.numbers(subprocess.check_output(words, text=True).split()[1], "")


def test_all_cpus_where_their_numbers_have_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every second CPU switched off (no SMT) the highest number is beyond the count."""
    everywhere, last = os.sched_getaffinity(0), _last_cpu()
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    try:
        tuning.affinity({"execCPUAffinity": {"initial": str(last)}}, "initial")
        tuning.affinity({"execCPUAffinity": {"initial": str(last)}}, "final")
        assert os.sched_getaffinity(0) == {last}, "without final the kernel's word counts"
        join._last_cpus(Config({"process": {}}, ""))
        assert os.sched_getaffinity(0) == everywhere
    finally:
        os.sched_setaffinity(0, everywhere)


@pytest.mark.parametrize(
    ("raw", "culprit"),
    [
        ({"process": {"scheduler": {"policy": "SCHED_X"}}}, "process.scheduler.policy: 'SCHED_X'"),
        ({"process": {"scheduler": {"policy": "SCHED_RR", "priority": 100}}},
         "process.scheduler.priority: 100 does not lie between 0 and 99"),
        ({"process": {"scheduler": {"policy": "SCHED_OTHER", "nice": 20}}},
         "process.scheduler.nice: 20 does not"),
        ({"process": {"scheduler": {"policy": "SCHED_OTHER", "flags": ["X"]}}},
         "process.scheduler.flags[0]: 'X' is none of"),
        ({"process": {"ioPriority": {"class": "IOPRIO_CLASS_NONE"}}}, "process.ioPriority.class"),
        ({"process": {"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 8}}},
         "process.ioPriority.priority: 8 does not lie between 0 and 7"),
        ({"linux": {"personality": {"domain": "BSD"}}}, "linux.personality.domain: 'BSD'"),
        ({"linux": {"personality": {"domain": "LINUX", "flags": ["ADDR_NO_RANDOMIZE"]}}},
         "linux.personality.flags: "),
        ({"linux": {"memoryPolicy": {"mode": "MPOL_X"}}},
         "linux.memoryPolicy.mode: invalid memory policy mode: 'MPOL_X'"),
        ({"linux": {"memoryPolicy": {"nodes": "0"}}},
         "linux.memoryPolicy.mode: invalid memory policy mode: ''"),
        ({"linux": {"memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0-"}}},
         "linux.memoryPolicy.nodes: invalid memory policy nodes: '0-' is not a list"),
        ({"linux": {"memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0", "flags": ["X"]}}},
         "linux.memoryPolicy.flags[0]: invalid memory policy flag: 'X'"),
    ],
)  # fmt: skip
def test_what_is_no_value(raw: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tuning.Tuning(SimpleNamespace(config=Config(raw, "")))  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"config.json: {culprit}")


def test_a_wrong_value_is_one_line(bundle: Bundle) -> None:
    said = bundle.refuses(process__scheduler={"policy": "SCHED_ISO"})
    assert "config.json: process.scheduler: sched_setattr: invalid argument" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", set()), ("0", {0}), ("0-3,7", {0, 1, 2, 3, 7}), ("2-2", {2}), ("1, 3", {1, 3})],
)
def test_lists_of_numbers(text: str, expected: set[int]) -> None:
    assert tuning.numbers(text, "x") == expected


@pytest.mark.parametrize("text", ["a", "-1", "3-1", "1-", "٣", "1_0", "0-99999", "1,,2", "0x1"])
def test_what_is_no_list_of_numbers(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a list like 0-3,7"):
        tuning.numbers(text, "x")


def test_nothing_of_it_is_loaded_where_nobody_asks() -> None:
    source = "import sys, minirun.core.lifecycle, minirun.cli.runc.create; print(*sys.modules)"
    argv = [sys.executable, "-c", source]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "minirun.core.lifecycle" in loaded
    assert not loaded & {"minirun.oci.tuning.tuning", "minirun.oci.tuning.sched"}


def test_a_score_that_is_not_ours_to_give(bundle: Bundle) -> None:
    """A lower one than the caller's takes a capability, which a container's engine may lack."""
    config = bundle.config["process"] | {"oomScoreAdj": -1000, "args": ["true"]}
    bundle.write("true", process=config)
    argv = bundle.program.argv("run", "--bundle", str(bundle.path), bundle.name)
    done = subprocess.run(["setpriv", "--bounding-set=-sys_resource", *argv],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "minirun: config.json: process.oomScoreAdj: -1000 is lower than minirun's own"
        " (that takes CAP_SYS_RESOURCE)\n"
    )


def test_a_deadline_needs_all_cpus(bundle: Bundle) -> None:
    """sched_setattr(2): EPERM where the CPUs are fewer than the machine has."""
    first = min(os.sched_getaffinity(0) - {_last_cpu()})
    deadline = {"policy": "SCHED_DEADLINE", "runtime": 42000, "deadline": 10**6, "period": 10**6}
    cpus = {"cpus": str(first)}
    said = bundle.refuses(process__scheduler=deadline, linux__resources={"cpu": cpus})
    assert "process.scheduler: sched_setattr: operation not permitted" in said
    assert "process scheduler can't be used together with AllowedCPUs" in said
