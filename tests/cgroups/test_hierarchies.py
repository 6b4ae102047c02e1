"""mountinfo as other machines show it, and this one's."""

import os
import subprocess
from pathlib import Path

import pytest

from minirun.cgroups.hierarchies import Hierarchy, hierarchies_of, mounted, paths_of
from minirun.core.kernel.mountinfo import parse
from minirun.faces.inspect import processes

SYSTEMD_HYBRID = r"""
25 30 0:23 / /proc rw,relatime shared:13 - proc proc rw
31 23 0:27 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:29 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
36 31 0:32 / /srv/copy/cpu rw shared:12 - cgroup cgroup rw,seclabel,cpu,cpuacct
37 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 - cgroup cgroup rw,seclabel,cpu,cpuacct
38 31 0:33 / /mnt/a\040b rw - cgroup none rw,release_agent=/bin/x,clone_children,devices
"""


def test_names_places_and_oddities():
    assert hierarchies_of(parse(SYSTEMD_HYBRID, "cgroup")) == [
        Hierarchy("/sys/fs/cgroup/unified", 2, ()),
        Hierarchy("/sys/fs/cgroup/systemd", 1, ("name=systemd",)),
        Hierarchy("/sys/fs/cgroup/cpu,cpuacct", 1, ("cpu", "cpuacct")),
        Hierarchy("/mnt/a b", 1, ("devices",)),
    ]


def test_a_pure_cgroup2_machine():
    line = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
    assert hierarchies_of(parse(line)) == [Hierarchy("/sys/fs/cgroup", 2, ())]
    assert hierarchies_of(parse("")) == []


def test_this_machine_is_read():
    with open("/proc/self/cgroup") as file:
        names = {name for line in file for name in line.split(":")[1].split(",") if name}
    assert {name for h in mounted() for name in h.names} <= names


@pytest.mark.parametrize("name", ["a\rb", "a\x0bb", "a\u2028b"])
def test_only_a_newline_ends_a_line(name):
    """A container names its cgroups, and the kernel forbids the newline alone."""
    mount = next(h for h in mounted() if "pids" in h.names or h.version == 2)
    directory = f"{mount.path}/minirun-{os.getpid()}{name}"
    os.mkdir(directory)
    process = subprocess.Popen(["sleep", "100"])
    try:
        Path(directory, "cgroup.procs").write_text(str(process.pid))
        where = f"/{os.path.basename(directory)}"
        assert paths_of(process.pid)[",".join(mount.names)] == where
        assert processes.cgroups(process.pid)[",".join(mount.names)] == where
    finally:
        process.kill()
        process.wait()
        os.rmdir(directory)
