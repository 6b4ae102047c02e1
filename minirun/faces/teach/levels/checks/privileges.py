"""Level 7: user, capabilities, filter and hidden paths."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

from minirun.core.kernel import architecture
from minirun.core.kernel.namespaces import CLONE_NEWUTS
from minirun.faces.teach.levels import material, tried
from minirun.faces.teach.levels.checks import handshake
from minirun.faces.teach.levels.tried import NotYet, TriedProgram

_DOCKERS = 0xA80425FB
"""docker's default capabilities, as a bit mask: capabilities(7)."""

_LOW, _HIGH = 7, (1 << 32) + 7
"""Two numbers whose lower 32 bits are the same."""


def capabilities_are_few(program: TriedProgram) -> None:
    """The command has docker's capabilities, in each set that counts."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        for name in ("CapBnd", "CapPrm", "CapEff"):
            bits = int(tried.status_field(pid, name), 16)
            if more := bits & ~_DOCKERS:
                raise NotYet("capability-kept", f"{name}: {more.bit_length() - 1}")
            if not bits:
                raise NotYet("capability-lost", name)


def privileges_stay_away(program: TriedProgram) -> None:
    """no_new_privs is set, and calls are filtered."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        if tried.status_field(pid, "NoNewPrivs") != "1":
            raise NotYet("no-new-privs")
        filters = [int(tried.status_field(each, "Seccomp_filters")) for each in (pid, os.getpid())]
        if filters[0] <= filters[1]:  # the sandbox has one
            raise NotYet("no-filter")
    done = program.run("/bin/sh", "-c", "unshare -m true && echo done")
    if "done" in done.out:
        raise NotYet("filter-lets-through", "unshare")


def user_is_taken(program: TriedProgram) -> None:
    """--user is the command's user, in each of its ids, with no group of root's."""
    done = program.run("true", flags=("--user", "1000:1001"))
    if done.status:
        raise NotYet("user", done.said)
    with program.running("sleep", tried.SLEEP, flags=("--user", "1000:1001")) as (_, pid):
        for name, wanted in (("Uid", "1000"), ("Gid", "1001")):
            if set(tried.status_field(pid, name).split()) != {wanted}:
                raise NotYet("user", f"{name}: {tried.status_field(pid, name)}")
        if groups := set(tried.status_field(pid, "Groups").split()) - {"1001"}:
            raise NotYet("groups-kept", " ".join(sorted(groups)))
        if int(tried.status_field(pid, "CapEff"), 16):
            raise NotYet("capability-kept", "CapEff")


def user_ends_with_the_runtime(program: TriedProgram) -> None:
    """If the runtime is killed, a command of another user does not stay either.

    The kernel clears PR_SET_PDEATHSIG when a process changes its user: prctl(2).
    """
    flags = ("--user", "1000:1001")
    with program.running("sleep", tried.SLEEP, flags=flags) as (started, pid):
        handshake.signal_runtime(started, pid, signal.SIGKILL)
        if not tried.wait(lambda: not tried.living(), 2.0):
            raise NotYet("user-stays", " ".join(tried.command_of(tried.living()[0])))


def paths_are_hidden(program: TriedProgram) -> None:
    """Of /proc some files are hidden, and /proc/sys cannot be written to."""
    number = "/proc/sys/kernel/shmmni"  # of the IPC namespace: the sandbox denies the host's
    script = (
        "head -c1 /proc/timer_list; head -c1 /proc/keys; ls /sys/firmware;"
        f" as_it_is=$(cat {number}); echo $as_it_is > {number} && echo written"
    )
    done = program.run("/bin/sh", "-c", script)
    if "written" in done.out:
        raise NotYet("proc-sys-writable")
    if done.out.strip():
        raise NotYet("path-visible", done.out.strip()[:40])


def masked_paths_are_read_only(program: TriedProgram) -> None:
    """In a masked directory nothing can be written; a read-only root takes nothing either."""
    script = "echo x > /made-by-config/x && echo masked; echo x > /new && echo root"
    document = material.config(args=["/bin/sh", "-c", script])
    document["linux"]["maskedPaths"] = ["/made-by-config"]
    document["root"]["readonly"] = True
    done = program.call(program.in_bundle("plain", document))
    if "masked" in done.out:
        raise NotYet("masked-writable")
    if "root" in done.out:
        raise NotYet("root-writable")


def rlimits_are_set(program: TriedProgram) -> None:
    """process.rlimits are the command's, soft and hard."""
    script = "ulimit -S -n; ulimit -H -n"
    rows = [{"type": "RLIMIT_NOFILE", "soft": 123, "hard": 456}]
    document = material.config(args=["/bin/sh", "-c", script], rlimits=rows)
    done = program.call(program.in_bundle("plain", document))
    if done.out.split() != ["123", "456"]:
        raise NotYet("rlimits", " ".join(done.out.split()) or done.said)


def filter_without_no_new_privs(program: TriedProgram) -> None:
    """A profile holds without no_new_privs, too, and does not bring it."""
    document = material.config(args=["sleep", tried.SLEEP], noNewPrivileges=False)
    document["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["unshare"], "action": "SCMP_ACT_ERRNO"}]}  # fmt: skip
    words = program.in_bundle("plain", document)
    with program.running("sleep", tried.SLEEP, words=words) as (_, pid):
        filters = [int(tried.status_field(each, "Seccomp_filters")) for each in (pid, os.getpid())]
        if filters[0] <= filters[1]:
            raise NotYet("filter-needs-no-new-privs")
        if tried.status_field(pid, "NoNewPrivs") != "0":
            raise NotYet("no-new-privs-uninvited")


def _equal(values: dict[int, int]) -> list[dict[str, Any]]:
    """Return the conditions of a rule: argument → what it must be, all of them."""
    return [{"index": at, "op": "SCMP_CMP_EQ", "value": value} for at, value in values.items()]


def profile_asks_arguments(program: TriedProgram) -> None:
    """A rule of the profile may ask about arguments, and has an error number of its own.

    An argument has 64 bits: `truncate` gives ftruncate(2) a size of more than 32. A processor of 32
    bits has ftruncate64 for that, with the size's halves in two arguments.
    """
    script = (
        "unshare -u true; unshare -i true && echo ipc;"
        f" truncate -s {_LOW} a && echo low; truncate -s {_HIGH} a || echo high;"
        " truncate -s 773 a || echo masked; truncate -s 261 a && echo unmasked"
    )
    kept = {kind: ["CAP_SYS_ADMIN"] for kind in ("bounding", "permitted", "effective")}
    document = material.config(
        args=["/bin/sh", "-c", script], capabilities=kept, noNewPrivileges=True
    )
    call, size = "ftruncate", {1: _HIGH}
    if architecture.NATIVE.bits == 32:
        call, size = "ftruncate64", {1: _LOW, 2: _HIGH >> 32}
    masked = {"index": 1, "op": "SCMP_CMP_MASKED_EQ", "value": 0xF00, "valueTwo": 0x300}
    rules = ("unshare", _equal({0: CLONE_NEWUTS})), (call, _equal(size)), (call, [masked])
    document["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS, "args": conditions}
        for name, conditions in rules]}  # fmt: skip
    done = program.call(program.in_bundle("plain", document))
    if "ipc" not in done.out:
        raise NotYet("filter-args", done.said)
    if os.strerror(errno.ENOSYS) not in done.err:
        raise NotYet("filter-errno", done.said)
    said = done.out.split()
    if "low" not in said or "high" not in said:
        number, was = (_HIGH, "let through") if "low" in said else (_LOW, "refused")
        raise NotYet("filter-64-bits", f"{number} was {was}, the rule is for {_HIGH}")
    if "masked" not in said or "unmasked" not in said:
        number, was = (0x305, "let through") if "unmasked" in said else (0x105, "refused")
        raise NotYet("filter-masked", f"{number:#x} was {was}")


def profile_is_followed(program: TriedProgram) -> None:
    """A bundle's own seccomp profile and capabilities hold."""
    document = material.config(
        args=["/bin/sh", "-c", "chmod 700 /tmp || echo denied; chown 1 /tmp || echo refused"],
        capabilities={kind: ["CAP_FOWNER"] for kind in ("bounding", "permitted", "effective")},
        noNewPrivileges=True,
    )
    names = ["chmod", "fchmodat", "fchmodat2"]
    document["linux"]["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": names, "action": "SCMP_ACT_ERRNO"}],
    }
    done = program.call(program.in_bundle("profile", document))
    if "refused" not in done.out:
        raise NotYet("capability-kept", "CAP_CHOWN")
    if "denied" not in done.out:
        raise NotYet("filter-lets-through", "chmod")
