"""Level 5: the GPUs that were asked for, with the driver's files and the cgroup's rules."""

from __future__ import annotations

import re
from pathlib import Path

from minirun.faces.teach.levels import material
from minirun.faces.teach.levels.tried import NotYet, TriedProgram


def nodes_are_there(program: TriedProgram) -> None:
    """/dev has the nodes of the GPUs that were asked for, and of no others."""
    done = program.with_gpus("0,2", "stat -c '%a %n' /dev/*")
    modes = dict(line.split()[::-1] for line in done.out.splitlines())
    names = [name.removeprefix("/dev/") for name in modes]
    nodes = [f"nvidia{minor}" for _, minor in _gpus(program)]
    if {nodes[1], nodes[3]} & set(names):
        raise NotYet("gpu-too-many")
    for name in (nodes[0], nodes[2], "nvidiactl", "nvidia-uvm"):
        if name not in names:
            raise NotYet("gpu-nodes", name if names else done.said)
        if modes[f"/dev/{name}"] != "666":
            raise NotYet("gpu-closed", f"/dev/{name}: {modes[f'/dev/{name}']}")


def gpus_are_listed(program: TriedProgram) -> None:
    """nvidia-smi lists these GPUs, in their order, and /proc has no others."""
    wanted = [_gpus(program)[index][0] for index in (0, 2)]
    done = program.with_gpus("0,2", "nvidia-smi -L")
    listed = re.findall(r"UUID: (\S+)\)", done.out)
    if listed != wanted:
        raise NotYet("gpu-not-listed", done.said if not listed else ", ".join(listed))
    done = program.with_gpus("0,2", "cat /proc/driver/nvidia/gpus/*/information")
    if re.findall(r"UUID:\s*(\S+)", done.out) != wanted:
        raise NotYet("gpu-told-by-proc", done.said)


def gpus_are_named_by_uuid(program: TriedProgram) -> None:
    """A GPU can be asked for by its UUID, and all of them by `all`."""
    uuids = [uuid for uuid, _ in _gpus(program)]
    for asked, wanted in ((uuids[3], uuids[3:]), ("all", uuids)):
        done = program.with_gpus(asked, "nvidia-smi -L")
        if re.findall(r"UUID: (\S+)\)", done.out) != wanted:
            raise NotYet("gpu-name", f"{asked}: {done.said}")


def _gpus(program: TriedProgram) -> list[tuple[str, int]]:
    """Return the UUID and minor number of each GPU of the host, by index."""
    return material.gpus(program.env["NVIDIA_DRIVER_ROOT"])


def libraries_are_there(program: TriedProgram) -> None:
    """The driver's libraries are the host's, read-only, and the loader finds them."""
    script = (
        "grep libcuda /proc/mounts || echo missing; ls -l /usr/lib/*/libcuda.so.1;"
        " for f in /usr/lib/*/libcuda.so.*.*; do : >> $f && echo written; done;"
        " grep -c libcuda.so.1 /etc/ld.so.cache || echo no cache"
    )
    done = program.with_gpus("0", script)
    if "missing" in done.out:
        raise NotYet("library-missing")
    if "written" in done.out:
        raise NotYet("library-writable")
    if "libcuda.so.1 ->" not in done.out or "no cache" in done.out:
        raise NotYet("no-ldconfig")


def rules_hold(program: TriedProgram) -> None:
    """The cgroup allows the GPUs that were asked for, and denies the others."""
    own = "; ".join(Path("/proc/self/cgroup").read_text().split())
    if "; ".join(program.with_gpus("0", "cat /proc/self/cgroup").out.split()) == own:
        raise NotYet("same-cgroup", "devices")
    node = f"/dev/nvidia{_gpus(program)[0][1]}"
    script = (
        f"cat {node} /dev/nvidiactl /dev/nvidia-uvm; mknod /dev/other c 195 0; cat /dev/other;"
        " mknod /dev/disk b 1 0; cat /dev/disk; echo x > /dev/null || echo dead"
    )
    done = program.with_gpus("0", script)
    denied = [
        line for line in done.err.splitlines() if "/dev/nvidia" in line and "not perm" in line
    ]
    if denied:
        raise NotYet("rule-too-strict", denied[0])
    if "dead" in done.out:
        raise NotYet("null-denied")
    if not refused(done.err, "/dev/other"):
        raise NotYet("rule-forgotten")
    if not refused(done.err, "/dev/disk"):
        raise NotYet("disk-allowed")


def refused(err: str, path: str) -> bool:
    """Return True if a line of the shell says that a node is not permitted."""
    return any(path in line and "not permitted" in line for line in err.splitlines())


def no_gpu_uninvited(program: TriedProgram) -> None:
    """Without --gpus there is no GPU; one that the host has not is refused."""
    done = program.run("/bin/sh", "-c", "ls /dev")
    if "nvidia" in done.out:
        raise NotYet("gpu-uninvited")
    done = program.run("true", flags=("--gpus", "9"))
    if done.status == 0:
        raise NotYet("unknown-gpu")
    if len(done.err.strip().splitlines()) != 1:
        raise NotYet("error-not-one-line", done.err.strip()[:300])
