"""What the kernel says in a sandbox: mounts, cgroups, namespaces, and what is left there."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from minirun.common.child import answer_of
from minirun.core.kernel import mountinfo, namespaces
from minirun.core.kernel.mountinfo import Mount
from minirun.faces.teach.levels.material import HOME, PROC


def mounts(pid: int | str = "self") -> dict[int, Mount]:
    """Return the mounts that a process sees, by their ids."""
    text = (PROC / str(pid) / "mountinfo").read_text(errors="surrogateescape")
    return {mount.mount_id: mount for mount in mountinfo.parse(text)}


def new_mounts(before: dict[int, Mount]) -> list[str]:
    """Return where something is mounted in the sandbox that was not before.

    The bundles are the check's own.
    """
    found = (mount.mount_point for key, mount in mounts().items() if key not in before)
    return sorted(where for where in found if not where.startswith(f"{HOME}/bundles/"))


def unmounted() -> str:
    """Return which of the sandbox's own mounts the program has unmounted; "" if none."""
    return next((str(path) for path in (PROC / "self", HOME) if not path.exists()), "")


def left_files() -> set[str]:
    """Return the files in /run, and those that were written to /tmp: its cover has them."""
    left = set()
    for folder, names, files in os.walk("/run"):
        if not folder.startswith((str(HOME), str(PROC))):
            left |= {f"{folder}/{name}" for name in names + files}
    return left


def cgroups() -> set[str]:
    """Return the cgroups of the sandbox, in all trees."""
    top = Path("/sys/fs/cgroup")
    trees = [top] if (top / "cgroup.procs").exists() else list(top.iterdir())
    return {
        str(Path(folder, name)) for tree in trees if not tree.is_symlink()
        for folder, names, _ in os.walk(tree) for name in names if name != "check"
    }  # fmt: skip


def cgroup_of(pid: int, controller: str) -> Path:
    """Return the cgroup that a process is in, for a controller: cgroups(7)."""
    for line in Path(f"{PROC}/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path("/sys/fs/cgroup", controller, path.lstrip("/"))
        if not names:
            unified = Path("/sys/fs/cgroup", path.lstrip("/"))
    return unified


def init_of(pid: int) -> int:
    """Return the first below a process that is in another pid namespace; 0 if there is none yet.

    Each thread has children of its own, and a script may stand before the program.
    """
    own, found = os.stat(f"{PROC}/self/ns/pid").st_ino, [pid]
    for each in found:
        with suppress(OSError):
            if each != pid and os.stat(f"{PROC}/{each}/ns/pid").st_ino != own:
                return each
            for file in Path(f"{PROC}/{each}/task").glob("*/children"):
                found += map(int, file.read_text().split())
    return 0


def in_namespace(pid: int, look: Callable[[], Any], kind: str = "mnt") -> Any:
    """Return what `look` returns in a namespace of a process. It is called in a child."""
    flags = {"mnt": namespaces.CLONE_NEWNS, "net": namespaces.CLONE_NEWNET}

    def inside() -> Any:
        namespaces.enter(f"{PROC}/{pid}/ns/{kind}", flags[kind])
        return look()

    return answer_of(inside)


def addresses() -> list[str]:
    """Return the IPv4 addresses of this network namespace, without lo's."""
    done = subprocess.run(["ip", "-4", "-o", "addr", "show", "scope", "global"],
                          capture_output=True, text=True)  # fmt: skip
    return re.findall(r"inet ([0-9.]+)", done.stdout)


def gateway() -> str:
    """Return the address of the default route of this network namespace; "" if it has none."""
    done = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True)
    found = re.search(r"default via ([0-9.]+)", done.stdout)
    return found[1] if found else ""


def answers(address: str) -> bool:
    """Return True if a machine is at an address: it refuses a connection to an unused port."""
    try:
        socket.create_connection((address, 9), 1.5).close()
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)
    return True


def get(address: str, port: int) -> str:
    """Return the page of a web server; "" if it does not answer."""
    with suppress(OSError), socket.create_connection((address, port), 1.0) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        text = b""
        while chunk := connection.recv(4096):
            text += chunk
        return text.decode(errors="replace")
    return ""


def state(text: str) -> dict[str, Any]:
    """Return a container's state; empty if the text is none."""
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return {}
