"""podman without root: what it does with runc, where that works on this machine, and with minirun.

podman makes a user namespace (newuidmap), in which it is user 0, and calls its runtime there,
without $HOME; so minirun is "root" without a capability on the host, and no user namespace is to
be made.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import skip
from rootless.conftest import UID, User, owned, quietly

RUNC = shutil.which("runc", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") or ""
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
SCENARIOS = (
    ("run --rm bb id -u", "0 0"),
    ("run --rm --user 1000 bb id -u", "0 1000"),
    ("run --rm --read-only bb touch /x", "1 touch: /x: Read-only file system"),
    ("run --rm bb stat -c %t:%T /dev/null", "0 1:3"),
    ("run --rm -v /etc:/mnt:ro bb head -c 5 /mnt/passwd", "0 root:"),
    ("run --rm --hostname h --cap-drop all bb hostname", "0 h"),
    ("run --rm bb false", "1"),
    ("run --rm bb nosuch", "127"),
    ("run --name x -d bb sleep 60", "0"),
    ("exec x id -u", "0 0"),
    ("exec --user 33 x id -u", "0 33"),
    ("kill --signal KILL x", "0 x"),
    ("rm --force x", "0 x"),
)
SCRIPT = """
cd; runtime=$1; shift
podman() { command podman --storage-driver vfs --cgroup-manager cgroupfs "$@" > said 2>&1; }
podman import bb.tar bb || { echo "import: $(cat said)"; exit; }
for each in "$@"; do
    podman --log-level error --runtime "$runtime" $each
    echo "$? $(tail -n 1 said)"
done > table
podman rm --all --force
kill -KILL $(cat runtime/libpod/tmp/pause.pid)
"""
"""Files and no pipes, since the process that keeps podman's user namespace holds them open."""


@pytest.fixture
def podman(granted: User) -> User:
    """The user with all that podman needs."""
    if not shutil.which("podman"):
        skip("podman is not installed")
    config = owned(granted.home / ".config")
    (config / "containers").mkdir()
    (config / "containers/policy.json").write_text(POLICY)
    granted.env["XDG_RUNTIME_DIR"] = str(owned(granted.home / "runtime"))
    layer = granted.home / ".local/share/minirun/images/busybox/layers/0"
    tar = granted.home / "bb.tar"
    subprocess.run(["tar", "--create", "--file", tar, "--directory", layer, "."], check=True)
    os.chown(tar, UID, UID)
    return granted


def table(user: User, runtime: str) -> list[str]:
    """Return what came of each scenario: exit status and last line."""
    texts = [text.replace("run ", "run --network none ") for text, _ in SCENARIOS]
    path: Path = user.home / "table"
    path.unlink(missing_ok=True)
    quietly(user.as_user("timeout", "25", "sh", "-c", SCRIPT, "sh", runtime, *texts))
    return path.read_text().splitlines() if path.exists() else []


def test_scenarios(podman: User) -> None:
    if not RUNC or not (by_runc := table(podman, RUNC)) or by_runc[0] != "0 0":
        skip("podman without root does not work here with runc either")
    found = table(podman, podman.path)
    for (text, expected), real, ours in zip(SCENARIOS, by_runc, found, strict=True):
        assert real.startswith(expected), text
        assert ours.startswith(expected), text
