"""podman without root: runc, where it works on this machine, and minirun do the same.

podman makes a user namespace (newuidmap), in which it is user 0, and calls its runtime there,
without $HOME; so minirun is "root" without a capability on the host, and no user namespace is to
be made.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from conftest import skip
from rootless.conftest import UID, User, owned, run

RUNC = shutil.which("runc", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") or ""
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
SCENARIOS = (
    ("run --rm bb id -u", "0"),
    ("run --rm --user 1000 bb id -u", "1000"),
    ("run --rm --read-only bb touch /x", "touch: /x: Read-only file system"),
    ("run --rm bb stat -c %t:%T /dev/null", "1:3"),
    ("run --rm -v /etc:/mnt:ro bb head -c 5 /mnt/passwd", "root:"),
    ("run --rm --hostname h --cap-drop all bb hostname", "h"),
    ("run --rm bb sh -c 'exit 9'", ""),
    ("run -d --name x bb sleep 60", ""),
    ("exec x id -u", "0"),
    ("exec --user 33 x id -u", "33"),
    ("kill --signal KILL x", ""),
    ("rm --force x", ""),
)


class Podman:
    """podman of the user, with a storage of its own and without cgroups."""

    def __init__(self, user: User) -> None:
        self.user = user
        config = owned(user.home / ".config")
        (config / "containers").mkdir()
        (config / "containers/policy.json").write_text(POLICY)
        user.env["XDG_RUNTIME_DIR"] = str(owned(user.home / "runtime"))

    def __call__(self, runtime: str, text: str) -> "subprocess.CompletedProcess[str]":
        flags = "--storage-driver vfs --cgroup-manager cgroupfs --log-level error"
        text = text.replace("run ", "run --network none ", 1) if text.startswith("run ") else text
        script = f"cd; podman {flags} --runtime {runtime} {text}"
        return run(self.user.as_user("sh", "-c", script))


@pytest.fixture
def podman(granted: User) -> Iterator[Podman]:
    """podman, with an image by the name of bb; what it leaves is killed with its namespace."""
    if not shutil.which("podman"):
        skip("podman is not installed")
    if not RUNC:
        skip("there is no runc to compare with")
    found = Podman(granted)
    layer = granted.home / ".local/share/minirun/images/busybox/layers/0"
    tar = granted.home / "bb.tar"
    subprocess.run(["tar", "--create", "--file", tar, "--directory", layer, "."], check=True)
    os.chown(tar, UID, UID)
    done = found(RUNC, f"import {tar} bb")
    if done.returncode:
        skip(f"podman cannot work without root here: {done.stderr.strip()}")
    yield found
    found(RUNC, "system migrate")  # ends the process that keeps the user namespace
    remove = f"rm -rf {granted.home}/.local/share/containers {granted.home}/runtime"
    run(granted.as_user("sh", "-c", f"cd; podman --storage-driver vfs unshare {remove}"))


def test_minirun_does_what_runc_does(podman: Podman) -> None:
    first = podman(RUNC, SCENARIOS[0][0])
    if first.returncode:
        skip(f"runc without root does not work here: {first.stderr.strip()}")
    for text, expected in SCENARIOS:
        by_runc = podman(RUNC, text)
        assert expected in by_runc.stdout + by_runc.stderr, text
        if text.startswith("run -d"):
            podman(RUNC, "rm --force x")
            break
    for text, expected in SCENARIOS:
        done = podman(podman.user.path, text)
        assert done.returncode == {"sh -c 'exit 9'": 9}.get(text[-14:], int("touch" in text)), (
            text + done.stderr
        )
        assert expected in done.stdout + done.stderr, text
