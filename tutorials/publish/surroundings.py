"""Where recordings are made: a plain Debian machine's mounts and cgroups, and no private names."""

import os
import re
import subprocess
import sys
from pathlib import Path

from minirun.core.kernel import mountinfo

CHECKOUT = Path(__file__).parents[2]


def plain_surroundings() -> None:
    """Go where a plain Debian machine's mounts and cgroups are: what else this one has is its own.

    The program starts again in a mount namespace, without the mounts that no machine needs.
    """
    if os.environ.get("SURROUNDINGS") != "plain":
        again = ["unshare", "--mount", "--propagation", "private", sys.executable]
        os.execvpe(again[0], [*again, *sys.orig_argv[1:]], {**os.environ, "SURROUNDINGS": "plain"})
    for point in sorted({m.mount_point for m in mountinfo.read()}, reverse=True):
        if not re.fullmatch(r"/|/(dev|proc|sys|run|tmp)(/(pts|shm|mqueue|fs/cgroup.*))?", point):
            subprocess.run(["umount", "--lazy", point], check=True)
    for hierarchy in Path("/sys/fs/cgroup").glob("*/cgroup.procs"):
        hierarchy.write_text(str(os.getpid()))


def refuse_private(name: str, text: str) -> None:
    """End if a path of the checkout or of a home, or this machine's name, stands in a text."""
    folders = "|".join(re.escape(f"{folder}/") for folder in (CHECKOUT, Path.home()))
    private = rf"(?<!\w)({folders}|{re.escape(os.uname().nodename)}(?!\w))"
    if found := re.search(f".{{0,80}}{private}.{{0,80}}", text):
        sys.exit(f"{name}: this machine's own occurs in it: {found[0]}")
