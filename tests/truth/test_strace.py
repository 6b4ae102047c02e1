"""The log against strace, in both directions: see truth.oracle for the rule."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from conftest import Program, wait_until
from truth import oracle, strace

Check = Callable[..., oracle.Report]
GPUS = ("--gpus", "0,1", "--gpu-driver=simulated")
USER = ("--uidmap", "0:100000:65536")


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Run minirun under strace, compare, and return what agreed."""

    def run(
        minirun: Program, *args: str, status: int = 0, lives_on: bool = False, before: int = 0,
        unseen: tuple[int, ...] = (),
    ) -> oracle.Report:  # fmt: skip
        """`lives_on`: the container outlives the command; strace lets go of it then.

        `before`: how many events were in the log before.
        """
        output = tmp_path / "strace.out"
        process = strace.trace(minirun.argv(*args), output, oracle.TRACED)
        try:
            if lives_on:
                _let_go(process, output)
            ended = process.wait(timeout=60)
        finally:
            process.kill()
        said = output.with_suffix(".said").read_text()
        assert ended in (status, -SIGTERM if lives_on else status), said
        calls = strace.parse(output.read_text())
        report = oracle.compare(calls, minirun.events()[before:], unseen)
        assert not report.untrue, "\n".join(report.untrue)
        assert not report.missing, "\n".join(report.missing)
        return report

    return run


def _let_go(process: "subprocess.Popen[bytes]", output: Path) -> None:
    """End strace, but not what it follows, once the runtime has ended."""
    wait_until(lambda: output.exists() and output.stat().st_size, 30)
    runtime = output.read_text().split()[0]
    wait_until(lambda: not Path(f"/proc/{runtime}").exists(), 30)
    process.terminate()


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
    assert report.matched["clone3"] == 2
    assert report.matched["clone"] == 1
    if "v2" in minirun_both.flags:
        assert report.matched["bpf"] > 4


def test_cgroup2(minirun_both: Program, check: Check) -> None:
    report = check(minirun_both, "run", "--pids-limit=0", "busybox", "true")
    assert (report.matched["bpf"] > 0) == ("v2" in minirun_both.flags)


def test_user_namespace_detached(command: str, check: Check, open_dir: Path) -> None:
    minirun = Program(command, open_dir / "containers")
    report = check(minirun, "run", "-d", *USER, "busybox", "true")
    assert report.matched["clone3"] == 2
    assert report.matched["setns"] == 1
    assert report.matched["mknodat"] == 0
    minirun.clean()


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that the root of a user namespace can reach, unlike tmp_path."""
    path = Path(tempfile.mkdtemp(prefix="minirun-truth."))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


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
    name = f"{bundle.name}-{os.getpid()}"
    created = check(minirun, "create", "--bundle", str(bundle), name, lives_on=True)
    assert created.matched["seccomp"] == 0  # with no_new_privs it comes last, after `start`
    assert created.matched["clone3"] == 1 + 2 * 3
    assert created.matched["setdomainname"] == 1
    init = json.loads(minirun("state", name).stdout)["pid"]
    count = len(minirun.events(name))
    started = check(minirun, "start", name, lives_on=True, before=count, unseen=(init,))
    assert started.matched["clone3"] == 2
    count = len(minirun.events(name))
    joined = check(minirun, "exec", name, "true", before=count)
    assert (joined.matched["setns"], joined.matched["execve"]) == (1, 2)
    count = len(minirun.events(name))
    deleted = check(minirun, "delete", "--force", name, before=count)
    assert deleted.matched["clone3"] == 2


def test_whole_bundle(minirun: Program, check: Check, bundle: Path) -> None:
    config = json.loads((bundle / "config.json").read_text())
    config["process"]["args"] = ["true"]
    (bundle / "config.json").write_text(json.dumps(config))
    report = check(minirun, "run", "--bundle", str(bundle), f"{bundle.name}-{os.getpid()}")
    assert report.matched["seccomp"] == 1
    assert report.matched["execve"] == 2 + 2 * 5
    assert report.matched["clone3"] == 1 + 2 * 5 + 1


def test_oracle_sees_a_lie_and_a_gap(minirun: Program, check: Check, tmp_path: Path) -> None:
    """Every call taken out of strace's output makes an event untrue; every one put in is a gap."""
    check(minirun, "run", *GPUS, "busybox", "true")
    calls, events = strace.parse((tmp_path / "strace.out").read_text()), minirun.events()
    tested = set()
    for event, call in oracle.compare(calls, events).pairs:
        if call.name in tested:
            continue
        tested.add(call.name)
        at = calls.index(call)
        gone = [*calls[:at], *calls[at + 1 :]]
        assert oracle.compare(gone, events).untrue, call
        if call.name in oracle.LISTED and "execve" not in call.name:
            more = [*calls[:at], call._replace(child=0), *calls[at:]]
            assert oracle.compare(more, events).missing, call
        if event["kind"] == "syscall":  # the line of an execve is written before it has a result
            failed = [*calls[:at], call._replace(ret=-1, errno="EPERM"), *calls[at + 1 :]]
            assert oracle.compare(failed, events).untrue, call
    assert {"mount", "prctl", "mknodat", "execve", "capset", "setns", "pivot_root"} <= tested
    assert oracle.compare(calls, events[:-1]).untrue
