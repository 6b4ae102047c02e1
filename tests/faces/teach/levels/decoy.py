"""A throw-away host for a command: decoy.py hybrid|v1|v2 COMMAND …

The command sees a copy of this machine's files (an overlay, pivoted into) in which /etc, /root and
/home hold decoys, the machine's /dev, /proc and /sys, and trees of cgroups as on such a machine.
Prints JSON: what the command returned and printed, and how its host has changed. If a sandbox has a
hole, these files take the harm.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from minirun.core.kernel import mountinfo, mounts, namespaces
from minirun.faces.teach.levels.sandbox.hostfiles import HostFiles

BASE = Path("/run/minirun-decoy")
DECOYS, PRECIOUS = ("root/decoy", "home/decoy", "etc/decoy"), "precious\n"
CGROUPS = "/sys/fs/cgroup"


def main() -> None:
    kind, *command = sys.argv[1:]
    namespaces.unshare(namespaces.CLONE_NEWNS)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    as_version(kind)
    BASE.mkdir(exist_ok=True)
    mounts.mount("decoy", str(BASE), "tmpfs")
    copy = HostFiles(BASE)
    copy.build()
    for folder in ("proc", "sys", "dev", "run"):
        mounts.mount(f"/{folder}", f"{copy.root}/{folder}", None, mounts.MS_BIND | mounts.MS_REC)
    for path in DECOYS:
        (copy.root / path).write_text(PRECIOUS)
    before = list(copy.changes())
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        said = json.loads((BASE / "out").read_text())
        said["changed"] = sorted(set(copy.changes()) ^ set(before))
        said["changed"] += [path for path in DECOYS if read(copy.root / path) != PRECIOUS]
        print(json.dumps(said))
        return
    namespaces.unshare(namespaces.CLONE_NEWNS)  # so that the parent keeps its root
    out = os.open(BASE / "out", os.O_WRONLY | os.O_CREAT)
    os.chdir(copy.root)
    os.mkdir("mnt/old")
    mounts.pivot_root(".", "mnt/old")
    mounts.umount2("/mnt/old", mounts.MNT_DETACH)
    os.rmdir("/mnt/old")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    answer = {"status": done.returncode, "out": done.stdout, "err": done.stderr}
    os.write(out, json.dumps(answer).encode())


def read(path: Path) -> str:
    """Return a file's content, "" if it is gone."""
    return path.read_text() if path.exists() else ""


def as_version(kind: str) -> None:
    """Mount the trees of cgroups as a machine of version 1, or of version 2 alone, has them."""
    if kind == "v1":
        for mount in mountinfo.read(fs_type="cgroup2"):
            mounts.umount2(mount.mount_point, mounts.MNT_DETACH)
    elif kind == "v2":
        mounts.umount2(CGROUPS, mounts.MNT_DETACH)
        mounts.mount("cgroup2", CGROUPS, "cgroup2")


if __name__ == "__main__":
    main()
