"""Runs a command under strace, and nothing of it is changed: streams, terminal, signals, status.

If the observer is killed, strace goes with it (prctl(2), PR_SET_PDEATHSIG), and the kernel lets go
of the processes, which go on unharmed. For the same reason there is no --seccomp-bpf: a filter
outlives strace, and makes each call that it listed fail with ENOSYS (seccomp(2),
SECCOMP_RET_TRACE), in a container that goes on.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from minirun.core.kernel import process
from minirun.faces.teach.oracle import witness
from minirun.faces.teach.oracle.compare import LISTED

MADE = ("mkdir", "mkdirat", "rmdir", "unlinkat", "ioctl", "keyctl", "chdir", "fchdir", "prlimit64")
"""Other calls that make something, or fail where a container cannot be made."""
SAID = (
    "read", "write", "sendto", "recvfrom", "sendmsg", "recvmsg", "dup2", "dup3", "openat",
    "openat2", "open", "exit_group", "setsid",
)  # fmt: skip
"""What shows which process talks to which."""
ASKED = ("stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2")
"""Questions about a file. A runtime may give up because of the answer."""
TRACED = (*LISTED, *MADE, *SAID, *ASKED)
_LONGEST = 1 << 16
"""Bytes of a string: a config.json that a runtime hands to init has some ten thousand."""
_FLAGS = ("-yy", "-s", str(_LONGEST), "--syscall-times=ns")


def watch(
    argv: list[str], join: tuple[int, ...] = (), **streams: Any
) -> tuple[witness.Watched, float]:
    """Run `argv` under strace, and follow the processes `join` too. `streams` are Popen's.

    Return what was seen, and the seconds from the epoch to the zero of CLOCK_MONOTONIC. Raises
    MinirunError (no strace, no permission), OSError.
    """
    zero = time.time() - time.monotonic()
    with tempfile.TemporaryFile() as file:
        output = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        watched = witness.watch(
            argv,
            output,
            calls=TRACED,
            join=join,
            more=_FLAGS,
            preexec_fn=_end_with_observer,
            **streams,
        )
    return watched, zero


def _end_with_observer() -> None:
    process.prctl(process.PR_SET_PDEATHSIG, 9, why="")
