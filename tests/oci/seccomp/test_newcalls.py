"""Calls that are newer than the profile get ENOSYS; those that it left out, its own answer."""

import ctypes
import errno
import os
from typing import Any

import pytest

from minirun.core.kernel import process
from minirun.core.kernel.architecture import NATIVE
from minirun.oci.seccomp import compiler as kernel
from minirun.oci.seccomp import new_calls as newcalls
from minirun.oci.seccomp import profile as seccomp

try:
    compiler = kernel.Compiler(seccomp.ACTIONS["SCMP_ACT_ALLOW"])
except OSError as error:
    pytest.skip(f"no libseccomp: {error}", allow_module_level=True)

FUTURE = 100_000
ALLOWED = ("write", "exit_group", "munmap", "brk", "mmap", "futex", "openat2")


def errno_of(number: int, **changes: Any) -> int:
    """What a call without arguments gets under a filter that allows ALLOWED; -signal for a kill."""
    rule = {"names": list(ALLOWED), "action": "SCMP_ACT_ALLOW"}
    config = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [rule], **changes}
    filter = seccomp.load(config)
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
        kernel.install(filter.bpf)
        libc.syscall(number, 0, 0, 0)
        os._exit(ctypes.get_errno())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def numbers(*calls: str) -> list[int]:
    return [next(iter(compiler.newest([call]).values())) for call in calls]


def test_what_the_profile_could_not_know() -> None:
    [openat2, getcwd] = numbers("openat2", "getcwd")
    assert errno_of(FUTURE) == errno.ENOSYS
    assert errno_of(openat2 + 1) == errno.ENOSYS
    assert errno_of(getcwd) == errno.EPERM
    assert errno_of(getcwd, defaultErrnoRet=errno.EXDEV) == errno.EXDEV
    assert errno_of(FUTURE, defaultErrnoRet=errno.EXDEV) == errno.ENOSYS


def test_every_architecture_has_its_own_numbers() -> None:
    wanted = ["SCMP_ARCH_X86", "SCMP_ARCH_X32", "SCMP_ARCH_X86_64"]
    if NATIVE.go not in ("amd64", "386"):
        wanted = ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]
    [getcwd] = numbers("getcwd")
    assert errno_of(FUTURE, architectures=wanted) == errno.ENOSYS
    assert errno_of(getcwd, architectures=wanted) == errno.EPERM


def test_a_kill_is_for_what_was_known() -> None:
    [getcwd] = numbers("getcwd")
    assert errno_of(FUTURE, defaultAction="SCMP_ACT_KILL_PROCESS") == errno.ENOSYS
    assert errno_of(getcwd, defaultAction="SCMP_ACT_KILL_PROCESS") < 0


def test_who_allows_by_default_is_not_asked() -> None:
    filter = seccomp.load({"defaultAction": "SCMP_ACT_ALLOW"})
    assert filter.bpf == kernel.Compiler(seccomp.ACTIONS["SCMP_ACT_ALLOW"]).compile()
    assert newcalls.before({}) == b""


def test_the_listing_of_the_docstring() -> None:
    rows = newcalls.before({0xC000003E: 451})
    assert [rows[n : n + 8].hex(" ") for n in range(0, len(rows), 8)] == [
        "20 00 00 00 04 00 00 00", "15 00 00 04 3e 00 00 c0", "20 00 00 00 00 00 00 00",
        "35 00 02 00 00 00 00 40", "25 00 00 01 c3 01 00 00", "06 00 00 00 26 00 05 00",
    ]  # fmt: skip
