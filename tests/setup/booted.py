"""podman on a Debian that systemd has booted, after `make setup` alone: a column of `make matrix`.

podman asks its runtime for a scope of systemd there (--systemd-cgroup). A machine on which the
tests' own packages are installed cannot show what minirun lacks without them.
"""

import shutil
import sys
import tarfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from cgroups.systemd_cell import DBUS, SystemdCell  # noqa: E402
from machines.bare import CLONE, Bare  # noqa: E402

HELLO = "hello"
PACKAGES = ("make", "podman", "systemd", "dbus")
SCRIPT = f"""{DBUS}
podman() {{
  command podman --cgroup-manager systemd --runtime /{CLONE}/.venv/bin/minirun \\
    --storage-driver vfs "$@" 2>> /run/said
}}
podman import -q /srv/busybox/busybox.tar hello > /run/image || {{ cat /run/said; exit 1; }}
podman run --rm --network none --pids-limit 0 hello /bin/busybox echo {HELLO} || {{
  cat /run/said; exit 1; }}
"""


def said(place: Path, suite: str, lent: list[str]) -> str:
    """Return what a container of podman's says: HELLO."""
    bare = Bare(place / f"{suite}-booted", suite, lent, PACKAGES)
    row = bare.make("setup")
    if row.status:
        return f"make setup: status {row.status}"
    folder = bare.path / "srv/busybox"
    folder.mkdir()
    with tarfile.open(folder / "busybox.tar", "w") as tar:
        tar.add(str(shutil.which("busybox")), "bin/busybox")
    cell = SystemdCell("v2", str(bare.path), (f"/{CLONE}", "/srv/busybox"))
    try:
        done = cell("sh", "-ec", SCRIPT)
        return (done.stdout or done.stderr).strip()
    finally:
        cell.close()
