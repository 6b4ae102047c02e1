"""What one process can change about itself: identity, privileges, names; and becoming another."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_long, c_size_t, c_ulong, c_void_p

from minirun.core import events
from minirun.core.kernel import libc, log_failure, logged_python, name_call, signals

try:
    import _prctl
except ImportError:  # it has to be compiled, and not every machine has a compiler
    _prctl = None

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_NAME = 1, 4, 8, 15
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_CHILD_SUBREAPER = 23, 24, 28, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 38, 47
_PRCTL_NAMES = {v: k for k, v in list(globals().items()) if k.startswith("PR_")}
PR_CAP_AMBIENT_RAISE, PR_CAP_AMBIENT_CLEAR_ALL = 2, 4

_libc_prctl = libc.bind("prctl", c_int, c_void_p, c_ulong, c_ulong, c_ulong)
_sethostname = libc.bind("sethostname", c_char_p, c_size_t)
_setdomainname = libc.bind("setdomainname", c_char_p, c_size_t)
_keyctl = libc.bind_syscall(c_int, c_void_p, c_long, c_long, c_long)
_capset = libc.bind("capset", c_void_p, c_void_p)
_rt_sigaction = libc.bind_syscall(c_int, c_void_p, c_void_p, c_size_t)


def prctl(option: int, arg2: int = 0, arg3: int = 0, *, shown: str = "", why: str = "") -> None:
    """Change a property of this process: prctl(2). Raises OSError.

    `shown` stands in the log for `arg2`: the names of its bits.
    """
    name = _PRCTL_NAMES.get(option, str(option))
    args = {"option": name, "arg2": shown or arg2, "arg3": arg3}
    logged_python("prctl", lambda: _call_prctl(option, arg2, arg3), args, name, why)


def become_named(name: str) -> None:
    """Give this process a name of at most 15 bytes, as ps and strace show it: PR_SET_NAME."""
    args = {"option": "PR_SET_NAME", "name": name}
    logged_python("prctl", lambda: _call_prctl(PR_SET_NAME, name), args, name)


def in_bounding_set(capability: int) -> bool:
    """Return True if `capability` (a number) is in this process's bounding set: capabilities(7)."""
    try:
        return _call_prctl(PR_CAPBSET_READ, capability) == 1
    except OSError:  # a capability that this kernel does not know
        return False


def _call_prctl(option: int, *args: int | str) -> int:
    """Call prctl(2) by python-prctl; by libc what that does not know. Raises OSError.

    It does not know PR_CAP_AMBIENT, and no capability that is newer than its libcap: ValueError.
    Of its two modules _prctl is called, which is compiled (0.6 ms to import); prctl, in Python,
    makes classes of all that it knows (8 ms), which no stage needs.
    """
    if _prctl:
        try:
            return int(_prctl.prctl(option, *args) or 0)
        except ValueError:
            pass
    first, second, *_ = (*args, 0, 0)
    raw = first.encode() if isinstance(first, str) else first
    return libc.check("prctl", _libc_prctl(option, raw, second, 0, 0))


def capset(effective: int, permitted: int, inheritable: int, *, why: str = "") -> None:
    """Set three capability sets, each a bit mask by capability number: capset(2), version 3."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(
        effective & 0xFFFFFFFF, permitted & 0xFFFFFFFF, inheritable & 0xFFFFFFFF,
        effective >> 32, permitted >> 32, inheritable >> 32,
    )  # fmt: skip
    raw = (ctypes.addressof(header), ctypes.addressof(data))
    args = {
        "effective": hex(effective), "permitted": hex(permitted), "inheritable": hex(inheritable),
    }  # fmt: skip
    libc.logged("capset", _capset, raw, args, None, why)


def sethostname(name: str, *, why: str = "") -> None:
    """Set the UTS namespace's host name: sethostname(2)."""
    raw = name.encode()
    libc.logged("sethostname", _sethostname, (raw, len(raw)), {"name": name}, name, why)


def setdomainname(name: str, *, why: str = "") -> None:
    """Set the UTS namespace's NIS domain name: setdomainname(2)."""
    raw = name.encode()
    libc.logged("setdomainname", _setdomainname, (raw, len(raw)), {"name": name}, name, why)


def join_session_keyring(name: str) -> None:
    """Leave the caller's keyring for the one of this name, a new one if need be: keyctl(2)."""
    number = libc.number("keyctl")
    ring = libc.check("keyctl", _keyctl(number, 1, name.encode(), 0, 0, 0))  # JOIN_SESSION_KEYRING
    libc.check("keyctl", _keyctl(number, 5, ring, 0x3F1B0000, 0, 0))  # SETPERM: exec may find it


def setgroups(groups: list[int], *, why: str = "") -> None:
    """Replace the supplementary groups: setgroups(2)."""
    logged_python("setgroups", lambda: os.setgroups(groups), {"groups": groups}, why=why)


def setgid(gid: int, *, why: str = "") -> None:
    """Set real, effective and saved group id: setresgid(2)."""
    logged_python("setgid", lambda: os.setresgid(gid, gid, gid), {"gid": gid}, why=why)


def setuid(uid: int, *, why: str = "") -> None:
    """Set real, effective and saved user id: setresuid(2)."""
    logged_python("setuid", lambda: os.setresuid(uid, uid, uid), {"uid": uid}, why=why)


def execve(
    path: str | int, argv: list[str], env: dict[str, str], *, shown: str = "", why: str = ""
) -> None:
    """Become another program: execve(2). Logged right before, since success does not return."""
    args = {"path": shown or path, "argv": argv}
    events.emit("exec", "execve", args, ret=None, why=why)
    start = events.now()
    try:
        os.execve(path, argv, env)
    except OSError as error:
        log_failure(name_call(error, "execve", shown or str(path)), args, start, why)
        raise


def restore_signals() -> None:
    """Give every signal its default action and unblock all: signal(7), sigprocmask(2).

    The interpreter ignores SIGPIPE and SIGXFSZ, and an ignored signal stays ignored after execve.
    libc keeps 32 and 33 for itself and refuses to change them, but its posix_spawn(3), and so
    make(1), starts programs with them ignored: they need the system call.
    """
    # struct sigaction of the kernel, 20 bytes or 32: SIG_DFL, no flags, no mask
    action = ctypes.create_string_buffer(32)
    call = libc.number("rt_sigaction")
    for number in range(1, 65):
        if number in (9, 19):  # SIGKILL, SIGSTOP
            continue
        if number in (32, 33):
            libc.check("rt_sigaction", _rt_sigaction(call, number, action, None, 8))
        elif signals.getsignal(number) != signals.SIG_DFL:
            signals.signal(number, signals.SIG_DFL)
    signals.pthread_sigmask(signals.SIG_SETMASK, ())
