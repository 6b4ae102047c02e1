"""The sandbox's copy of the host's files: a mount that it cannot show hides no other."""

import subprocess
import sys

SCRIPT = """
from pathlib import Path
from minirun.core.kernel import mounts, namespaces
from minirun.faces.teach.levels.sandbox.hostfiles import HostFiles

place = Path("/mnt")  # in the order of names before /tmp
namespaces.unshare(namespaces.CLONE_NEWNS)
mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)

def overlay(name, lower):
    for folder in (f"{name}-up", f"{name}-work", name):
        (place / folder).mkdir()
    data = f"lowerdir={lower},upperdir={place}/{name}-up,workdir={place}/{name}-work"
    mounts.mount("x", str(place / name), "overlay", 0, data)

mounts.mount("x", str(place), "tmpfs")
(place / "files").mkdir()
overlay("a-deep", place / "files")
overlay("b-deeper", place / "a-deep")  # a third overlay on it: EINVAL, overlayfs.rst
(place / "c-plain").mkdir()
mounts.mount("x", str(place / "c-plain"), "tmpfs")
(place / "c-plain/file").write_text("seen")
base = place / "z-base"
base.mkdir()
mounts.mount("x", str(base), "tmpfs")
copy = HostFiles(base)
copy.build()
seen = Path(f"{copy.root}{place}/c-plain/file")
print(seen.read_text() if seen.exists() else "not shown", copy.written_to_tmp.is_dir())
"""

BOUND = """
from pathlib import Path
from minirun.core.kernel import mounts, namespaces
from minirun.faces.teach.levels.sandbox.hostfiles import HostFiles

place = Path("/mnt")
namespaces.unshare(namespaces.CLONE_NEWNS)
mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
mounts.mount("x", str(place), "tmpfs")
for name in ("own", "hostname", "other", "resolv.conf", "base"):
    (place / name).touch() if name != "base" else (place / name).mkdir()
mounts.mount(str(place / "own"), str(place / "hostname"), None, mounts.MS_BIND)
mounts.mount(str(place / "other"), str(place / "resolv.conf"), None, mounts.MS_BIND)
mounts.mount("x", str(place / "base"), "tmpfs")
copy = HostFiles(place / "base")
copy.build()
print(list(copy.changes()))
Path(f"{copy.root}{place}/hostname").write_text("changed")
Path(f"{copy.root}{place}/resolv.conf").unlink()
print(list(copy.changes()))
"""


def test_a_file_that_is_a_mount_is_copied_and_not_taken_for_a_change() -> None:
    """As /etc/hostname and resolv.conf in a container of docker's."""
    argv = [sys.executable, "-c", BOUND]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    changes = ["/mnt/hostname was written to", "/mnt/resolv.conf is gone"]
    assert (done.stdout, done.stderr) == (f"[]\n{changes}\n", "")


def test_what_cannot_be_shown_hides_no_other() -> None:
    """Every mount after one on which no overlay can lie was left out: /tmp too, in one run."""
    argv = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("seen True\n", "")
