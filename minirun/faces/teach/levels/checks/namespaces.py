"""Level 1: the command is alone in namespaces of its own."""

from __future__ import annotations

import socket

from minirun.faces.teach.levels import facts, tried
from minirun.faces.teach.levels.tried import NotYet, TriedProgram


def new_namespaces(program: TriedProgram) -> None:
    """The command is in namespaces of its own."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        same = [kind for kind in ("mnt", "pid", "uts", "ipc")
                if tried.namespace(pid, kind) == tried.namespace("self", kind)]  # fmt: skip
        if same:
            raise NotYet("same-namespace", same[0])
        if tried.status_field(pid, "NSpid").split()[-1] != "1":
            raise NotYet("not-pid-1", tried.status_field(pid, "NSpid"))


def own_proc(program: TriedProgram) -> None:
    """Its /proc shows its own processes."""
    done = program.run("readlink", "/proc/self")
    if done.out != "1\n":
        raise NotYet("foreign-proc", f"/proc/self is {done.out.strip() or done.said}")


def mounts_stay_inside(program: TriedProgram) -> None:
    """What it mounts is not seen outside, neither while it runs nor afterwards."""
    before = facts.mounts()
    with program.running("sleep", tried.SLEEP):
        new = facts.new_mounts(before)
    if new := new or facts.new_mounts(before):
        raise NotYet("mounts-spread", new[0])


def own_hostname(program: TriedProgram) -> None:
    """The host name is the one that was asked for, and the host's is as before."""
    before = socket.gethostname()
    done = program.run("hostname", flags=("--hostname", "ladder-box"))
    if socket.gethostname() != before:
        socket.sethostname(before)
        raise NotYet("hosts-name-changed")
    if done.out.strip() != "ladder-box":
        raise NotYet("hostname", done.out.strip() or done.said)
