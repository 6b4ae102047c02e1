"""A mount namespace for whatever mounts: nothing of it is ever seen, or left, on the host."""

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minirun.core.kernel import mountinfo, mounts, namespaces
from minirun.core.rootfs.inroot import Root

Isolated = Callable[[Callable[[], object]], None]


@pytest.fixture
def isolated() -> Isolated:
    """Runs a function in a child with a mount namespace of its own; its failure is the test's."""

    def run(body: Callable[[], object]) -> None:
        report, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.umask(0)  # as init has it
                namespaces.unshare(namespaces.CLONE_NEWNS)
                mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
                body()
                status = 0
            except BaseException:
                os.write(tell, traceback.format_exc().encode()[-60_000:])
            finally:
                os._exit(status)
        os.close(tell)
        with open(report, "rb") as file:
            said = file.read().decode(errors="replace")
        if os.waitpid(pid, 0)[1] != 0:
            pytest.fail(f"in the child:\n{said}")

    return run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty directory that stands for a container's root filesystem."""
    path = tmp_path / "rootfs"
    path.mkdir()
    return path


@pytest.fixture
def root(tree: Path) -> Iterator[Root]:
    """That directory, held as a root."""
    root = Root.at(str(tree))
    yield root
    root.close()


@pytest.fixture
def mount_at() -> Callable[[Path | str], dict[str, str]]:
    """Tells what /proc/self/mountinfo says of the topmost mount at a path; {} without one."""
    return _mount_at


def _mount_at(path: Path | str) -> dict[str, str]:
    found = {}
    for mount in mountinfo.read():
        if mount.mount_point == str(path):
            found = {
                "root": mount.root, "options": mount.options, "fstype": mount.fs_type,
                "shared": " ".join(mount.propagation), "source": mount.source,
                "data": mount.super_options,
            }  # fmt: skip
    return found
