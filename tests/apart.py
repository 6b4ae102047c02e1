"""Namespaces of a test's own, for tests that look at what is the host's.

Tests run at the same time, in one network namespace and one mount namespace: what another test
mounts, links or sets with sysctl(8) would be taken for the work of this one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from minirun.core.kernel import mounts as calls
from minirun.core.kernel import namespaces

CLONE_FS = 0x200
HOST = ("network", "uts", "ipc")
"""The namespaces that sysctls of a container belong to."""


@contextmanager
def apart(*kinds: str) -> Iterator[None]:
    """Be in new namespaces of these kinds, as config.json names them, and then where it was before.

    A program that is started meanwhile is there too. Mounts are copied, and what is mounted later
    does not pass, in either direction: mount_namespaces(7).
    """
    folder = os.getcwd()
    flags = sum(namespaces.FLAGS[kind] for kind in kinds)
    with ExitStack() as back:
        for kind in kinds:
            path = f"/proc/thread-self/ns/{namespaces.PROC_NAMES.get(kind, kind)}"
            held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            back.callback(os.close, held)
            back.callback(namespaces.setns, held, namespaces.FLAGS[kind])
            if kind == "mount":  # setns(2): not while a thread begun meanwhile shares this root
                back.callback(namespaces.unshare, CLONE_FS)
        namespaces.unshare(flags)
        if "mount" in kinds:
            calls.mount(None, "/", None, calls.MS_REC | calls.MS_PRIVATE)
        try:
            yield
        finally:
            back.close()
            os.chdir(folder)


def mounts() -> list[str]:
    """Return the lines of this thread's mountinfo: proc_pid_mountinfo(5)."""
    return Path("/proc/thread-self/mountinfo").read_text().splitlines()
