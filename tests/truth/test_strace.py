"""The log against strace, in both directions: faces.teach.oracle.compare has the rule."""

import json
import os
from pathlib import Path

import pytest

from conftest import Program
from minirun.faces.inspect import past
from truth.conftest import GPUS, USER, Check, matched, pairs, with_command


def test_plain(minirun: Program, check: Check) -> None:
    report = check(minirun, "run", "--rm", "busybox", "true")
    wanted = {
        "clone3": 1, "mkfifo": 3, "mknodat": 6, "symlinkat": 5, "pivot_root": 1, "umount2": 1,
        "sethostname": 1, "unshare": 1, "capset": 1, "execve": 2, "setgroups": 1, "setgid": 1,
        "setuid": 1,
    }  # fmt: skip
    assert {name: matched(report)[name] for name in wanted} == wanted
    for name in ("mount", "open_tree", "move_mount", "mount_setattr", "prctl", "write", "rmdir"):
        assert matched(report)[name] > 2, name
    for name in ("fsopen", "fsconfig", "fsmount"):
        assert matched(report)[name] > 0, name
    [log] = report.logs
    assert Path(log).parent == minirun.root / ".history"


def test_gpus(minirun_both: Program, check: Check) -> None:
    report = check(minirun_both, "run", *GPUS, "busybox", "true")
    assert matched(report)["setns"] == 1
    assert matched(report)["mknodat"] == 6 + 5
    assert matched(report)["clone3"] == 3
    if "v2" in minirun_both.flags:
        assert matched(report)["bpf"] > 4
    again = check(minirun_both, "run", *GPUS, "busybox", "true")
    first, second = matched(report), matched(again)
    for name in ("mkdir", "rmdir"):  # of the cgroup that all containers of the host share
        del first[name], second[name]
    writes = [counted.pop("write", 0) for counted in (first, second)]
    assert abs(writes[0] - writes[1]) in (0, 2)  # its cpuset is filled once
    assert second == first, "a later container of an image is made as the first"


def test_cgroup2(minirun_both: Program, check: Check) -> None:
    report = check(minirun_both, "run", "--pids-limit=0", "busybox", "true")
    assert (matched(report)["bpf"] > 0) == ("v2" in minirun_both.flags)


def test_user_namespace_detached(reachable: Program, check: Check) -> None:
    report = check(reachable, "run", "-d", *USER, "busybox", "true")
    assert matched(report)["clone3"] == 2
    assert matched(report)["setns"] == 1
    assert matched(report)["mknodat"] == 0


@pytest.mark.parametrize(
    "flags",
    [
        ("-t", "--read-only", "-v", "/tmp:/data:ro", "-v", "/etc/hostname:/name"),
        ("--user", "1000:1000", "--cap-add", "ALL", "--network", "host"),
        ("--log", "/dev/null", "--log-format", "json", "--progress", "plain"),
    ],
    ids=["read-only", "user", "two logs and a view"],
)
def test_flags(minirun: Program, check: Check, flags: tuple[str, ...]) -> None:
    check(minirun, "run", *flags, "busybox", "true")


def test_command_that_cannot_run(minirun: Program, check: Check, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/nosuch\n")
    (tmp_path / "script").chmod(0o755)
    check(minirun, "run", "busybox", "nosuch", status=127)
    check(minirun, "run", "-v", f"{tmp_path}:/data", "busybox", "/data/script", status=127)


def test_bundle_step_by_step(minirun: Program, check: Check, bundle: Path) -> None:
    """The log goes on from command to command; strace sees one of them at a time."""
    name = f"{bundle.name}-{os.getpid()}"
    created = check(minirun, "create", "--bundle", str(bundle), name)
    assert matched(created)["seccomp"] == 0  # with no_new_privs it comes last, after `start`
    assert matched(created)["clone3"] == 1 + 2 * 3
    assert matched(created)["setdomainname"] == 1
    init = json.loads(minirun("state", name).stdout)["pid"]
    started = check(minirun, "start", name, join=(init,))
    assert matched(started)["clone3"] == 2 + 1
    assert matched(started)["seccomp"] == 1
    assert {e.pid for e, _ in pairs(started) if e.name == "seccomp"} == {init}
    joined = check(minirun, "exec", name, "true")
    assert (matched(joined)["setns"], matched(joined)["execve"]) == (1, 2)
    deleted = check(minirun, "delete", "--force", name)
    assert matched(deleted)["clone3"] == 2


def test_start_alone(minirun: Program, check: Check, bundle: Path) -> None:
    """Where init is not followed, what it does is neither here nor there."""
    name = f"{bundle.name}-{os.getpid()}"
    check(minirun, "create", "--bundle", str(bundle), name)
    assert matched(check(minirun, "start", name))["clone3"] == 2


def test_a_stepped_run(minirun: Program, check: Check, tmp_path: Path) -> None:
    """The view that steps only looks; the shell that it opens is judged as the `exec` it is."""
    script = tmp_path / "script"
    script.write_text("next\nnext\nshell true\ncontinue\n")
    report = check(minirun, "run", "--step", "--script", str(script), "busybox", "true")
    assert {event.actor for event in report.written} == {"runtime", "init", "step", "exec"}
    assert matched(report)["execve"] == 2 + 2


def test_a_hostile_container(minirun: Program, check: Check) -> None:
    """It writes what looks like the log: it is none of minirun's processes, whatever it opens."""
    line = '{"v":1,"t":9,"kind":"syscall","name":"mount","pid":1,"stage":1,"actor":"init"}'
    script = f"mkdir /x; (echo '{line}' >>/x/events.jsonl; mount -t tmpfs x /x); unshare -m true"
    report = check(minirun, "run", "--cap-add", "ALL", "busybox", "sh", "-c", script)
    assert matched(report)["unshare"] == 1


def test_several_logs(minirun: Program, check: Check) -> None:
    names = [f"several-{number}-{os.getpid()}" for number in range(2)]
    for name in names:
        assert minirun("run", "-d", "--name", name, "busybox", "sleep", "100").returncode == 0
    report = check(minirun, "delete", "--force", *names)
    assert [past.origin(log)["name"] for log in report.logs] == names


def test_whole_bundle(minirun: Program, check: Check, bundle: Path) -> None:
    with_command(bundle, "true")
    report = check(minirun, "run", "--bundle", str(bundle), f"{bundle.name}-{os.getpid()}")
    assert matched(report)["seccomp"] == 1
    assert matched(report)["execve"] == 2 + 2 * 5
    assert matched(report)["clone3"] == 1 + 2 * 5 + 1
