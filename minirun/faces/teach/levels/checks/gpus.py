"""Level 5: the GPUs that were asked for, with the driver's files and the cgroup's rules."""

from __future__ import annotations

import re

from minirun.faces.teach.levels.tried import NotYet, TriedProgram


def nodes_are_there(program: TriedProgram) -> None:
    """/dev has the nodes of the GPUs that were asked for, and of no others."""
    done = program.with_gpus("0,2", "ls /dev")
    names = done.out.split()
    if {"nvidia1", "nvidia3"} & set(names):
        raise NotYet("gpu-too-many")
    for name in ("nvidia0", "nvidia2", "nvidiactl", "nvidia-uvm"):
        if name not in names:
            raise NotYet("gpu-nodes", name if names else done.said)


def gpus_are_listed(program: TriedProgram) -> None:
    """nvidia-smi lists these GPUs, in their order."""
    done = program.with_gpus("0,2", "nvidia-smi -L")
    listed = re.findall(r"GPU-[a-z0-9-]*?(\d)\)", done.out)
    if listed != ["0", "2"]:
        raise NotYet("gpu-not-listed", done.said if not listed else ", ".join(listed))


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
    script = (
        "cat /dev/nvidia0; mknod /dev/other c 195 3; cat /dev/other; mknod /dev/disk b 1 0;"
        " cat /dev/disk; echo x > /dev/null || echo dead"
    )
    done = program.with_gpus("0", script)
    first = next((line for line in done.err.splitlines() if "nvidia0" in line), "")
    if "not permitted" in first:
        raise NotYet("rule-too-strict", first)
    if "dead" in done.out:
        raise NotYet("null-denied")
    if not _refused(done.err, "/dev/other"):
        raise NotYet("rule-forgotten")
    if not _refused(done.err, "/dev/disk"):
        raise NotYet("disk-allowed")


def _refused(err: str, path: str) -> bool:
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
