"""podman with runc and minirun's hook, by --hooks-dir: man 5 oci-hooks."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Program
from engines.clients.cell import remove_cgroups
from engines.clients.conftest import HOOK_FAILED, SCRIPT, check, hook
from engines.clients.engine import program

LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000")
"""Lower than podman's own: raising them needs CAP_SYS_RESOURCE."""
Podman = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def podman(minirun: Program, tmp_path: Path, layer: Path) -> Iterator[Podman]:
    """`podman run` of busybox by runc, with storage of its own and with the hook."""
    path, runc = program("podman"), program("runc")
    storage = tempfile.mkdtemp(prefix="minirun-podman-")  # runroot has at most 50 characters
    hooks = tmp_path / "hooks.d"
    hooks.mkdir()
    row = {"version": "1.0.0", "hook": hook(minirun.path), "stages": ["prestart"]}
    row["when"] = {"always": True}
    (hooks / "gpu.json").write_text(json.dumps(row))
    parent = f"/minirun-podman-{os.getpid()}"
    argv = [
        path, "--root", f"{storage}/root", "--runroot", f"{storage}/run",
        "--tmpdir", f"{storage}/tmp", "--storage-driver", "vfs", "--events-backend", "none",
        "--cgroup-manager", "cgroupfs", "--runtime", runc, "--hooks-dir", str(hooks),
    ]  # fmt: skip

    def run(*args: str, env: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        flags = ["--rm", "--network=none", "--cap-add=mknod", f"--cgroup-parent={parent}", *LIMITS]
        flags += [f"--env={entry}" for entry in env]
        return subprocess.run(
            [*argv, "run", *flags, "--rootfs", str(layer), *args], check=False, timeout=60,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    yield run
    subprocess.run([*argv, "rm", "--all", "--force"], check=False, capture_output=True)
    remove_cgroups(parent)
    shutil.rmtree(storage)


def test_podman_with_runc_and_minirun_as_hook(podman: Podman) -> None:
    done = podman("sh", "-c", SCRIPT, env=("NVIDIA_VISIBLE_DEVICES=0,1",))
    check(done.stdout, done.stderr)


def test_a_node_as_ldconfigs_configuration_is_not_read(podman: Podman, layer: Path) -> None:
    """The host's ldconfig once read /dev/zero, by the image's name for it, without an end."""
    (layer / "etc/ld.so.conf").unlink(missing_ok=True)
    os.mknod(layer / "etc/ld.so.conf", 0o020666, os.makedev(1, 5))
    start = time.monotonic()
    done = podman("sh", "-c", SCRIPT, env=("NVIDIA_VISIBLE_DEVICES=0,1",))
    check(done.stdout, done.stderr)
    assert time.monotonic() - start < 30


def test_a_container_without_the_variable_gets_none(podman: Podman) -> None:
    done = podman("ls", "/dev")
    assert done.returncode == 0, done.stderr
    assert "null" in done.stdout and "nvidia" not in done.stdout


def test_podman_shows_the_hooks_line(podman: Podman) -> None:
    done = podman("true", env=("NVIDIA_VISIBLE_DEVICES=9",))
    assert done.returncode == 126
    assert re.search(HOOK_FAILED, done.stderr) and "9: unknown device" in done.stderr
