"""The log against strace, in both directions: see truth.oracle for the rule."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from truth import oracle, strace

Check = Callable[..., oracle.Report]
GPUS = ("--gpus", "0,1", "--gpu-driver=simulated")
USER = ("--uidmap", "0:100000:65536")


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Run minirun under strace, compare, and return what agreed."""

    def run(minirun: Program, *args: str, status: int = 0) -> oracle.Report:
        output = tmp_path / "strace.out"
        process = strace.trace(minirun.argv(*args), output, oracle.TRACED)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == status, stderr
        report = oracle.compare(strace.parse(output.read_text()), minirun.events())
        assert report.untrue == []
        assert report.missing == []
        return report

    return run


def test_plain(minirun: Program, check: Check) -> None:
    report = check(minirun, "run", "--rm", "busybox", "true")
    wanted = {
        "clone3": 1, "mkfifo": 3, "mknodat": 6, "symlinkat": 5, "pivot_root": 1, "umount2": 1,
        "sethostname": 1, "unshare": 1, "capset": 1, "execve": 2, "setgroups": 1, "setgid": 1,
        "setuid": 1,
    }  # fmt: skip
    assert {name: report.matched[name] for name in wanted} == wanted
    for name in ("mount", "open_tree", "move_mount", "mount_setattr", "prctl", "write", "rmdir"):
        assert report.matched[name] > 2, name
    for name in ("fsopen", "fsconfig", "fsmount"):
        assert report.matched[name] > 0, name


def test_gpus(minirun_both: Program, check: Check) -> None:
    report = check(minirun_both, "run", *GPUS, "busybox", "true")
    assert report.matched["setns"] == 1
    assert report.matched["mknodat"] == 6 + 5
    assert report.matched["clone3"] >= 2
    if "v2" in minirun_both.flags:
        assert report.matched["bpf"] > 4


def test_cgroup2(minirun_both: Program, check: Check) -> None:
    report = check(minirun_both, "run", "--pids-limit=0", "busybox", "true")
    assert (report.matched["bpf"] > 0) == ("v2" in minirun_both.flags)


@pytest.mark.parametrize(
    "flags",
    [
        ("-d", *USER),
        ("-t", "--read-only", "-v", "/tmp:/data:ro", "-v", "/etc/hostname:/name"),
        ("--user", "1000:1000", "--cap-add", "ALL", "--network", "host"),
        ("--log", "/dev/null", "--log-format", "json", "--progress", "plain"),
    ],
    ids=["detached in a user namespace", "read-only", "user", "two logs and a view"],
)
def test_flags(minirun: Program, check: Check, flags: tuple[str, ...]) -> None:
    check(minirun, "run", *flags, "busybox", "true")


def test_command_that_cannot_run(minirun: Program, check: Check, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/nosuch\n")
    (tmp_path / "script").chmod(0o755)
    check(minirun, "run", "busybox", "nosuch", status=127)
    check(minirun, "run", "-v", f"{tmp_path}:/data", "busybox", "/data/script", status=127)


@pytest.fixture
def bundle(minirun: Program, layer: Path) -> Path:
    """A bundle with all that a config.json can ask of the kernel, and hooks of every kind."""
    config = json.loads(minirun("spec", "busybox", "sleep", "100").stdout)
    del config["annotations"]["io.minirun.layers"]
    config["root"]["path"] = str(layer)
    config["domainname"] = "example.org"
    process, linux = config["process"], config["linux"]
    process["noNewPrivileges"] = True
    process["user"] = {"uid": 7, "gid": 8, "additionalGids": [9, 10]}
    process["capabilities"] |= {"inheritable": ["CAP_KILL"], "ambient": ["CAP_KILL"]}
    linux["sysctl"] = {"net.ipv4.ip_forward": "1"}
    linux["rootfsPropagation"] = "private"
    linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["reboot"], "action": "SCMP_ACT_ERRNO"}],
    }
    on_host = {"path": "/bin/sh", "args": ["sh", "-c", "mkfifo fifo; rm fifo; unshare -m true"]}
    inside: dict[str, Any] = {"path": "/bin/true", "env": ["A=1"]}
    kinds = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
    config["hooks"] = {kind: [on_host, on_host] for kind in kinds} | {"startContainer": [inside]}
    path = layer.parent
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_bundle_step_by_step(minirun: Program, check: Check, bundle: Path) -> None:
    """The log goes on from command to command; strace sees one of them at a time."""
    created = check(minirun, "create", "--bundle", str(bundle), "c1")
    assert created.matched["seccomp"] == 0  # with no_new_privs it comes last, after `start`
    assert created.matched["clone3"] == 1 + 2 * 3
    assert created.matched["setdomainname"] == 1
