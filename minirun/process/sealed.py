"""A read-only interpreter, for whoever enters a pid namespace where strangers already live.

They can see the newcomer in /proc, and its /proc/PID/exe is the host's python3. A copy of the
mount that the interpreter lies on, made read-only and attached nowhere, has the same file, but
nobody can open that for writing (CVE-2019-5736). It costs a second start of the interpreter, so
`run`, whose init is alone in a new pid namespace and ends in the trampoline, does without.
"""

import os
import sys

from minirun.errors import MinirunError
from minirun.kernel import mounts

_MARK = "_MINIRUN_SEALED"


def is_read_only() -> bool:
    """Whether this process's executable lies on a read-only mount."""
    fd = os.open("/proc/self/exe", os.O_PATH | os.O_CLOEXEC)
    try:
        return bool(os.fstatvfs(fd).f_flag & os.ST_RDONLY)
    finally:
        os.close(fd)


def ensure() -> None:
    """Start this program again from a read-only copy of its mount, unless it runs from one.

    Returns only in the sealed process. Raises OSError, MinirunError.
    """
    if is_read_only():
        os.environ.pop(_MARK, None)
        return
    if os.environ.pop(_MARK, None):
        raise MinirunError("the interpreter could not be made read-only")
    path = os.readlink("/proc/self/exe")
    why = "the interpreter's file, on a mount of its own that nobody can write to"
    tree = mounts.open_tree(mounts.AT_FDCWD, path, mounts.OPEN_TREE_CLONE, why=why)
    mounts.mount_setattr(tree, mounts.MOUNT_ATTR_RDONLY, shown=path)
    os.execve(tree, sys.orig_argv, {**os.environ, _MARK: "1"})
