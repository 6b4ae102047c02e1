"""One request by both ways, legacy and CDI: what the kernel says of the two containers.

Each difference is a row of WAYS; tutorials/reference/gpus.md has the same table. All else is the
same.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import Program
from minirun.core.kernel import mountinfo
from minirun.core.kernel.architecture import NARROW

TOP = Path(__file__).parents[2]
LAYOUTS = (
    "count=4", "count=8,model=H100,driver=560.35.03", "count=2,driver=470.256.02",
    "count=2,driver=580.65.06,model=B200", "count=2,mig=1", "count=2,mps=1",
)  # fmt: skip
"""Simulated drivers: generations, many GPUs, MIG, an MPS daemon."""
ALL = ("--env", "NVIDIA_DRIVER_CAPABILITIES=all")
LOOK = """
ls /dev | grep nvidia; echo ==
find /usr/lib /etc /usr/share -type l -name '*nvidia*' -o -type l -name 'libcuda*'; echo ==
ldconfig -p | sed -n 's/^\\t\\(lib[^ ]*\\) .*/\\1/p'; echo ==
ls /proc/driver/nvidia/gpus; echo ==
echo $NVIDIA_VISIBLE_DEVICES
"""


class Difference(NamedTuple):
    """What one way has, and the other has not."""

    part: str
    """The field of Seen."""
    way: str
    names: str
    """A regular expression."""
    what: str
    """How the page calls it."""
    when: str = ""
    """usual: with the usual capabilities alone; all: with all of them; "": always."""


MPS = "the pipe directory of an MPS daemon"
CHOSEN = "libraries of other capabilities than those asked for"
FILES = "files of EGL, Vulkan, OpenCL, OptiX and X"
DEVELOP = "links without a version, such as libcuda.so"
WAYS = (
    Difference("access", "legacy", "rw", "the cgroup allows to read and write"),
    Difference("access", "cdi", "rwm", "the cgroup allows mknod, too"),
    Difference("nodes", "cdi", "nvidia-modeset", "/dev/nvidia-modeset", "usual"),
    Difference("found", "legacy", "nv-fabricmanager", "nv-fabricmanager, a program"),
    Difference("found", "legacy", "nvidia-mps", MPS),
    Difference(
        "found", "cdi", r".*\.(json|icd|bin)|nvidia_drv.so|lib(glxserver|nvidia-egl).*", FILES
    ),
    Difference("linked", "cdi", r".*/(nvidia-drm_gbm|lib(glxserver|nvidia-egl).*)\.so.*", FILES),
    Difference("cached", "cdi", "libnvidia-egl.*", FILES),
    Difference("found", "cdi", r"lib.*\.so\.[0-9.]+", CHOSEN, "usual"),
    Difference("linked", "cdi", r".*/lib.*\.so\.\d+", CHOSEN, "usual"),
    Difference("cached", "cdi", r"lib.*\.so\.[0-9.]+", CHOSEN, "usual"),
    Difference("linked", "cdi", r".*/lib.*\.so", DEVELOP),
    Difference("cached", "cdi", r"lib.*\.so", DEVELOP),
    *(
        Difference("linked", "legacy", f"/usr/lib/{row.triplet}/.*", "libraries for i386", "all")
        for row in (NARROW,)
        if row
    ),
)
"""All of them, but for the environment and /proc/driver/nvidia."""


class Seen(NamedTuple):
    """What a container has of the GPUs, as the kernel says."""

    nodes: frozenset[str]
    access: frozenset[str]
    """What the cgroup allows of a node of the driver: rw, rwm."""
    found: frozenset[str]
    """The files of the driver that are mounted, by their names."""
    linked: frozenset[str]
    cached: frozenset[str]
    """Names that the dynamic linker finds."""
    gpus: int
    """How many /proc/driver/nvidia shows."""
    asked: str


def look(minirun: Program, mode: str, *flags: str) -> Seen:
    """Start a container by one of the ways, and ask."""
    words = ("run", "-d", "--name", mode, "--network", "none", "--gpu-driver", "simulated")
    done = minirun(*words, "--gpu-mode", mode, *flags, "debian", "sleep", "60")
    assert done.returncode == 0, done.stderr
    done = minirun("exec", mode, "sh", "-c", LOOK)
    assert done.returncode == 0, done.stderr
    nodes, links, cached, gpus, asked = (text.split() for text in done.stdout.split("==\n"))
    rules = minirun("inspect", "--devices", mode).stdout
    access = re.findall(r"^c \d+:\d+ (\w+) +# /dev/nvidia", rules, re.MULTILINE)
    pid = json.loads(minirun("state", mode).stdout)["pid"]
    mounted = [m.mount_point for m in mountinfo.read(pid) if "/drivers/simulated-" in m.root]
    files = [os.path.basename(path) for path in mounted if not path.startswith("/proc/")]
    minirun("delete", "--force", mode)
    return Seen(
        frozenset(nodes), frozenset(access), frozenset(files), frozenset(links),
        frozenset(name for name in cached if "nvidia" in name or "cuda" in name),
        len(gpus), asked[0],
    )  # fmt: skip


@pytest.mark.parametrize("flags", [(), ALL], ids=["usual", "all"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_difference_is_known(
    minirun: Program, monkeypatch: pytest.MonkeyPatch, layout: str, flags: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MINIRUN_SIM", layout)
    legacy = look(minirun, "legacy", "--gpus", "0", *flags)
    cdi = look(minirun, "cdi", "--gpus", "0", *flags)
    assert (legacy.gpus, cdi.gpus) == (1, int(re.findall(r"count=(\d+)", layout)[0]))
    assert (legacy.asked, cdi.asked) == ("0", "void")
    rows = [row for row in WAYS if row.when in ("", "all" if flags else "usual")]
    met, unknown = set(), []
    for part in ("nodes", "access", "found", "linked", "cached"):
        old, new = getattr(legacy, part), getattr(cdi, part)
        assert old & new or part == "access", part
        for way, names in (("legacy", old - new), ("cdi", new - old)):
            for name in names:
                mine = [row for row in rows if (row.part, row.way) == (part, way)]
                found = [row.what for row in mine if re.fullmatch(row.names, name)]
                met.update(found)
                unknown += [] if found else [f"{part}, {way} alone: {name}"]
    assert unknown == []
    assert met == {row.what for row in rows} - ({MPS} if "mps" not in layout else set())


def test_the_page_has_each_difference() -> None:
    page = " ".join((TOP / "tutorials/reference/gpus.md").read_text().split())
    assert [row.what for row in WAYS if row.what not in page] == []
