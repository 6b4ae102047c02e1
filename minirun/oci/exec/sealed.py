"""A read-only interpreter with a clean environment, for a pid namespace that has other processes.

They can see the new process in /proc, and its /proc/PID/exe is the host's python3. A copy of the
mount that the interpreter lies on, made read-only and attached nowhere, has the same file, but
no process can open that for writing (CVE-2019-5736). It costs a second start of the interpreter, so
`run`, whose init is alone in a new pid namespace and ends in the trampoline, does without.

/proc/PID/environ shows the strings that execve put on the stack, whatever the program did with its
variables since, and CAP_SYS_PTRACE opens it. So the second start takes along only the variables
that minirun reads itself.

A user without privileges may not copy a mount of the host. If the interpreter is root's that is not
needed, since no process of such a container is root of the host; if it is the user's own, a copy
in memory takes its place (memfd_create(2), 3 ms), sealed as runc's once was.
"""

from __future__ import annotations

import fcntl
import os
import sys

from minirun.core.errors import MinirunError
from minirun.core.keeping.settings import unprivileged
from minirun.core.kernel import mounts

_MARK = "_MINIRUN_SEALED"
_KEPT = frozenset(
    (
        "PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CONFIG_HOME",
        "LISTEN_FDS", "LISTEN_PID", "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_CTK_CONFIG_FILE_PATH",
        "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH",
    )
)  # fmt: skip
"""What minirun and its interpreter read; besides, what begins with MINIRUN_."""
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_CHUNK = 1 << 24


def is_read_only() -> bool:
    """Return True if this process's executable lies on a read-only mount."""
    fd = os.open("/proc/self/exe", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return bool(os.fstatvfs(fd).f_flag & os.ST_RDONLY) or _is_sealed(fd)
    finally:
        os.close(fd)


def _is_sealed(fd: int) -> bool:
    """Return True if an open file is one in memory that can never be written again."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS == _SEALS
    except OSError:  # EINVAL: a file as any other
        return False


def ensure(keep: tuple[str, ...] = ()) -> None:
    """Start this program again, read-only and with a clean environment, unless it has been.

    `keep` names variables that the new start needs besides minirun's own.
    Returns only in the new process. Raises OSError, MinirunError.
    """
    if os.environ.pop(_MARK, None):
        if is_read_only() or not _needs_seal():
            return
        raise MinirunError("the interpreter could not be made read-only")
    kept = {*_KEPT, *keep}
    env = {k: v for k, v in os.environ.items() if k in kept or k.startswith("MINIRUN_")}
    os.execve(_program(), sys.orig_argv, {**env, _MARK: "1"})


def _program() -> str | int:
    """Return this program's executable, read-only for all: a path, or a descriptor.

    Raises OSError.
    """
    path = os.readlink("/proc/self/exe")
    if is_read_only() or not _needs_seal():
        return path
    if unprivileged():
        return _copy(path)
    why = "the interpreter's file, on a read-only mount of its own"
    tree = mounts.open_tree(mounts.AT_FDCWD, path, mounts.OPEN_TREE_CLONE, why=why)
    mounts.mount_setattr(tree, mounts.MOUNT_ATTR_RDONLY, shown=path)
    return tree


def _needs_seal() -> bool:
    """Return True if a container of the caller could write to the interpreter's file.

    One of a caller without privileges can only if the caller may write to the file, or owns it.
    """
    if not unprivileged():
        return True
    path = os.readlink("/proc/self/exe")
    return os.stat(path).st_uid == os.geteuid() or os.access(path, os.W_OK)


def _copy(path: str) -> int:
    """Return a sealed copy of a program in memory, for users who may not mount. Raises OSError."""
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        copy = os.memfd_create("minirun:python", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        while os.sendfile(copy, source, None, _CHUNK):
            pass
    finally:
        os.close(source)
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
    return copy
