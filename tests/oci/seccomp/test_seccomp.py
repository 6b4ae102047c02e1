"""linux.seccomp, on real processes."""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minirun.core import events
from minirun.core.errors import ConfigError
from minirun.core.kernel import process
from minirun.oci.seccomp import compiler as kernel
from minirun.oci.seccomp import profile as seccomp

try:
    kernel.Compiler(seccomp.ACTIONS["SCMP_ACT_ALLOW"])
except OSError as error:
    pytest.skip(f"no libseccomp: {error}", allow_module_level=True)

ALLOW = {"defaultAction": "SCMP_ACT_ALLOW"}


def deny(*names: str, **more: Any) -> dict[str, Any]:
    """A configuration that allows everything but `names`."""
    rule = {"names": list(names), "action": "SCMP_ACT_ERRNO", **more}
    return {**ALLOW, "syscalls": [rule]}


def under(config: dict[str, Any], body: str, log: str = "") -> int:
    """Run `body` in a child under the filter; return its exit status, negative for a signal."""
    compiled = seccomp.load(config)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if log:
                events.open_log(log, "c1")
            process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
            kernel.install(compiled.bpf, compiled.flags)
            exec(body, globals())
            status = 0
        except OSError as error:
            status = 100 + (error.errno or 0)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_mkdir_is_denied_and_the_rest_works(tmp_path: Path) -> None:
    made = tmp_path / "made"
    body = f"os.listdir('/'); os.mkdir({str(made)!r})"
    assert under(ALLOW, body) == 0
    assert made.is_dir()
    made.rmdir()
    assert under(deny("mkdir", "mkdirat"), body) == 100 + errno.EPERM
    assert under(deny("mkdir", "mkdirat", errnoRet=errno.ENOSYS), body) == 100 + errno.ENOSYS
    assert not made.exists()


def test_the_filter_holds_after_execve(tmp_path: Path) -> None:
    body = f"os.execv('/bin/mkdir', ['mkdir', {str(tmp_path / 'made')!r}])"
    assert under(deny("mkdir", "mkdirat"), body) == 1
    assert not (tmp_path / "made").exists()


def test_deny_by_default() -> None:
    names = ["write", "exit_group", "clock_gettime", "rt_sigaction", "munmap", "brk", "mmap"]
    config = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.EXDEV,
        "syscalls": [{"names": names, "action": "SCMP_ACT_ALLOW"}],
    }
    assert under(config, "os.getcwd()") == 100 + errno.EXDEV


def test_kill_process() -> None:
    config = {**ALLOW, "syscalls": [{"names": ["getcwd"], "action": "SCMP_ACT_KILL_PROCESS"}]}
    assert under(config, "os.getcwd()") == -signal.SIGSYS


def test_conditions_on_arguments() -> None:
    above = {"index": 0, "op": "SCMP_CMP_GT", "value": 40}
    config = deny("getpgid", args=[above])
    assert under(config, "os.getpgid(os.getpid()) if os.getpid() <= 40 else None") == 0
    assert under(config, "os.getpgid(0)") == 0
    assert under(config, "os.getpgid(os.getpid())") == 100 + errno.EPERM
    masked = {"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 0xFFF0, "valueTwo": 0x7FF0}
    config = deny("getpgid", args=[masked])
    assert under(config, "os.getpgid(0x7FF3)") == 100 + errno.EPERM
    assert under(config, "os.getpgid(0)") == 0


def test_two_conditions_on_one_argument_are_alternatives() -> None:
    either = [{"index": 0, "op": "SCMP_CMP_EQ", "value": v} for v in (7001, 7002)]
    config = deny("getpgid", args=either)
    assert under(config, "os.getpgid(0)") == 0
    for pid in (7001, 7002):
        assert under(config, f"os.getpgid({pid})") == 100 + errno.EPERM


def test_the_event_is_written_and_unknown_calls_are_skipped(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    config = deny("mkdir", "no_such_call")
    config["architectures"] = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    config["flags"] = ["SECCOMP_FILTER_FLAG_LOG"]
    assert under(config, "pass", str(log)) == 0
    *_, event = map(json.loads, log.read_text().splitlines())
    assert (event["name"], event["ret"]) == ("seccomp", 0)
    assert event["args"]["flags"] == "SECCOMP_FILTER_FLAG_LOG"
    assert event["args"]["instructions"] == len(seccomp.load(config).bpf) // 8


def test_a_broken_program_is_an_oserror() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            kernel.install(b"\xff" * 8)
        except OSError as error:
            os._exit(error.errno or 0)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == errno.EINVAL


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "linux.seccomp.defaultAction: None is none of SCMP_ACT_KILL"),
        ({"defaultAction": "ALLOW"}, "linux.seccomp.defaultAction: 'ALLOW' is none of"),
        ({"defaultAction": "SCMP_ACT_NOTIFY"}, "linux.seccomp.defaultAction: SCMP_ACT_NOTIFY"),
        ({**ALLOW, "flags": ["X"]}, "linux.seccomp.flags[0]: 'X' is none of"),
        ({**ALLOW, "architectures": ["VAX"]}, "linux.seccomp.architectures[0]: unknown arch"),
        (deny(), "linux.seccomp.syscalls[0].names: at least one"),
        ({**ALLOW, "syscalls": {}}, "linux.seccomp.syscalls: not a list of objects"),
        ({**ALLOW, "architectures": [1]}, "linux.seccomp.architectures: not a list of strings"),
        (deny("mkdir", action="NO"), "linux.seccomp.syscalls[0].action: 'NO' is none of"),
        (deny("mkdir", errnoRet=-1), "linux.seccomp.syscalls[0].errnoRet: -1 is not a number"),
        (deny("mkdir", args=[{"index": 6}]), "linux.seccomp.syscalls[0].args[0].index: 6 is not"),
        (
            deny("mkdir", args=[{"index": 0, "op": "EQ"}]),
            "linux.seccomp.syscalls[0].args[0].op: 'EQ' is none of",
        ),
    ],
)
def test_every_mistake_is_named_with_its_path(config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        seccomp.load(config)
    assert str(caught.value).startswith(text)


def test_a_machine_without_libseccomp_says_what_to_install() -> None:
    """In a mount namespace of its own, where an empty file hides the library."""
    ctypes.CDLL("libseccomp.so.2")  # so that it is mapped, whatever ran before
    with open("/proc/self/maps") as maps:
        (library, *_) = {line.split()[-1] for line in maps if "libseccomp.so" in line}
    program = """
from minirun.core.errors import MinirunError
from minirun.oci.seccomp import profile as seccomp
try:
    seccomp.load({"defaultAction": "SCMP_ACT_ALLOW"})
except MinirunError as error:
    print(error.line())
"""
    script = 'mount --bind /dev/null "$1" && exec "$2" -c "$3"'
    command = ["unshare", "--mount", "sh", "-ec", script, "sh", library, sys.executable, program]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    text, _, hint = run.stdout.partition(" (")
    assert text.startswith("linux.seccomp asks for a filter: ")
    assert "libseccomp.so.2: " in text
    assert hint == "apt-get install libseccomp2)\n"
