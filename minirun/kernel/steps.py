"""System calls for a child that cannot run Python: each function describes one, none makes it.

See minirun.kernel.vfork, which makes them, and writes for each the event that the function of the
same name elsewhere in this room writes.
"""

import os

from minirun.kernel import libc, mounts, process, securebits
from minirun.kernel.namespaces import clone_flag_names
from minirun.kernel.vfork import Step

_PR_SET_SECUREBITS = securebits.PR_SET_SECUREBITS
_AT_EMPTY_PATH = mounts.AT_EMPTY_PATH
_CAPABILITY_VERSION_3 = 0x20080522

_sched_getcpu = libc.bind("sched_getcpu")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dup3(fd: int, number: int) -> Step:
    """Make the descriptor `number` the same as `fd`, not close-on-exec: dup3(2)."""
    return Step("dup3", (292, 24), (fd, number, 0))


def leave_processor() -> "list[Step]":
    """Run anywhere but on the processor that this process is on: sched_setaffinity(2).

    A parent that waits for vfork is often woken there where its child runs, and waits on, though
    another processor has nothing to do. Empty where there is only one.
    """
    others = os.sched_getaffinity(0) - {_sched_getcpu()}
    if not others:
        return []
    size = max(others) // 64 * 8 + 8  # bytes, in whole words
    mask = sum(1 << number for number in others).to_bytes(size, "little")
    return [Step("sched_setaffinity", (203, 122), (0, size, mask))]


def fchdir(fd: int) -> Step:
    """Make the directory `fd` the working directory: fchdir(2)."""
    return Step("fchdir", (81, 50), (fd,))


def chdir(path: str) -> Step:
    """Change the working directory: chdir(2)."""
    return Step("chdir", (80, 49), (path.encode(),), path=path)


def unshare(flags: int, *, why: str = "") -> Step:
    """Move into new namespaces: unshare(2)."""
    return Step("unshare", (272, 97), (flags,), {"flags": clone_flag_names(flags)}, why=why)


def mount(
    source: "str | None", target: str, fstype: "str | None" = None, flags: int = 0, *, why: str = ""
) -> Step:
    """Mount, or change propagation: mount(2)."""
    shown = mounts.mount_shown(source, target, fstype, flags)
    text = [None if word is None else word.encode() for word in (source, target, fstype)]
    return Step("mount", (165, 40), (*text, flags), shown, target, why)


def umount2(target: str, flags: int = 0, *, why: str = "") -> Step:
    """Unmount: umount2(2)."""
    shown = mounts.umount2_shown(target, flags)
    return Step("umount2", (166, 39), (target.encode(), flags), shown, target, why)


def pivot_root(new_root: str, put_old: str, *, why: str = "") -> Step:
    """Make `new_root` the root of the mount namespace: pivot_root(2)."""
    shown = {"new_root": new_root, "put_old": put_old}
    args = (new_root.encode(), put_old.encode())
    return Step("pivot_root", (155, 41), args, shown, new_root, why)


def prctl(option: int, arg2: int = 0, arg3: int = 0, *, why: str = "") -> Step:
    """Change a property of the process: prctl(2)."""
    name = process.prctl_name(option)
    shown = {"option": name, "arg2": arg2, "arg3": arg3}
    return Step("prctl", (157, 167), (option, arg2, arg3, 0, 0), shown, why=why)


def set_securebits(bits: int, *, why: str = "") -> Step:
    """Set the securebits: PR_SET_SECUREBITS(2const)."""
    shown = securebits.securebits_shown(bits)
    return Step("prctl", (157, 167), (_PR_SET_SECUREBITS, bits, 0, 0, 0), shown, why=why)


def capset(mask: int, *, why: str = "") -> Step:
    """Make `mask` the effective, permitted and inheritable capabilities: capset(2)."""
    shown = {name: hex(mask) for name in ("effective", "permitted", "inheritable")}
    header = _CAPABILITY_VERSION_3.to_bytes(8, "little")
    half = (mask & 0xFFFFFFFF).to_bytes(4, "little"), (mask >> 32).to_bytes(4, "little")
    return Step("capset", (126, 91), (header, half[0] * 3 + half[1] * 3), shown, why=why)


def setuid(uid: int) -> Step:
    """Set real, effective and saved user id: setresuid(2)."""
    return Step("setuid", (117, 147), (uid, uid, uid), {"uid": uid})


def setgid(gid: int) -> Step:
    """Set real, effective and saved group id: setresgid(2)."""
    return Step("setgid", (119, 149), (gid, gid, gid), {"gid": gid})


def close_range_cloexec(first: int) -> Step:
    """Mark every descriptor from `first` on to be closed at execve: close_range(2)."""
    return Step("close_range", (436, 436), (first, 0xFFFFFFFF, 4))


def execveat(fd: int, argv: "list[str]", *, shown: str, why: str = "") -> Step:
    """Become the program `fd`, with an empty environment: execveat(2)."""
    pointers: "list[Any]" = [*(word.encode() for word in argv), None]
    args = (fd, b"", pointers, [None], _AT_EMPTY_PATH)
    return Step("execve", (322, 281), args, {"path": shown, "argv": argv}, shown, why)
