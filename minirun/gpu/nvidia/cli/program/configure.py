"""`nvidia-container-cli configure`: one container, from outside of any runtime.

With --pid it enters that process's mount namespace ("supervised": a hook calls it). Without, it
works where it is ("standalone": the walk-through of the seeds, a shell that made its own
namespaces); the real one goes the long way to the same place: its parent's pid in ROOTFS/proc.
"""

from __future__ import annotations

import os
import sys

from minirun.core import rings
from minirun.core.errors import GPUError, from_os, reason
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import OwnRoot
from minirun.gpu import apply, ldconfig
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.cli import planner as nvidia
from minirun.gpu.nvidia.cli.cli_args import NAME, CommandLine
from minirun.gpu.nvidia.cli.program.debug import DebugLog
from minirun.gpu.target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.cgroups.foreign import DeviceCgroup
    from minirun.gpu.asked.request import NvidiaRequest


def configure(
    line: CommandLine, found: Inventory, log: DebugLog, cgroup_of: Callable[[str], DeviceCgroup]
) -> None:
    """Configure the container, or leave it as it was. Raises GPUError in the real one's words.

    `cgroup_of` returns the device cgroup of a process, by its name in /proc.
    """
    request = line.request
    if not found.gpus:
        request = request._replace(devices=())
    try:
        pid = request.pid or os.getppid()
        top = f"/proc/{pid}/root" if request.pid else ""
        for path in (f"{top}/", top + request.rootfs):
            os.close(os.open(path.rstrip("/") or "/", os.O_PATH))
        cgroup = None if request.no_cgroups else cgroup_of(str(request.pid or "self"))
        entrance = rings.cgroup_entrance(request.pid) if request.pid else None
        program = _open_ldconfig(request)
        owner = apply.enter(request.pid) if request.pid else (0, 0)
        root = OwnRoot(Root.at(request.rootfs).fd)
        status = os.stat(f"/proc/{request.pid or 'self'}")
    except OSError as error:
        raise _worded("container error", error) from None
    facts = nvidia.find_library_places(root, request)
    log.container(line, pid, (status.st_uid, status.st_gid), facts)
    log.driver(found)
    try:
        edits = nvidia.plan(found, request, facts)
        for path in nvidia.own_libraries(root, edits):
            text = f"warning: the image has its own {path}, which hides the driver's"
            sys.stderr.write(f"{NAME}: {text} ({nvidia.REMOVE})\n")
        target = Target(root, request.rootfs, program, owner, entrance, cgroup)
        apply.apply(edits, target, lambda step: log.doing(request.rootfs, step))
    except OSError as error:
        raise _worded("mount error", error) from None


def _open_ldconfig(request: NvidiaRequest) -> int:
    """Open the host's ldconfig; -1 where none is asked for. Raises GPUError where it is missing."""
    fd = ldconfig.open_host(request.ldconfig)
    if fd < 0 and request.ldconfig.startswith("@"):
        path = request.ldconfig[1:]
        raise GPUError(f"ldcache error: open failed: {path}: no such file or directory")
    return fd


def _worded(kind: str, error: OSError) -> GPUError:
    """Return a failed system call, worded as nvidia-container-cli does: behind what it was for."""
    known = from_os(error)
    call = getattr(error, "call", "") or ("stat" if kind == "mount error" else "open")
    text = reason(error)
    where = f": {error.filename}" if error.filename else ""
    return GPUError(f"{kind}: {call} failed{where}: {text}", known.hint)
