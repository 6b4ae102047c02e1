"""The groups of the default profile of system calls: what each has, its answer, and why."""

from minirun.oci import seccomp_default
from minirun.oci.seccomp_default import Capable, Group
from minirun.view.knowledge.topic import PROFILE, Topic

_ALLOWED = "They go through to the kernel, which has its own checks."
_REFUSED = "EPERM in every container, whatever capabilities it has."
_UNKNOWN = "ENOSYS, as if this kernel had no such call: programs then take an older way."
_UNCONFINED = "minirun run --security-opt seccomp=unconfined lets all calls through."


def _topic(group: Group, answer: str, advice: str = "") -> Topic:
    return Topic(
        f"seccomp {group.name}",
        group.why,
        f"{answer} Calls: {group.calls}.",
        advice=advice,
        man="syscalls(2)",
        kind=PROFILE,
    )


def _capable(row: Capable) -> Topic:
    flag = row.capability.removeprefix("CAP_")
    return Topic(
        f"seccomp {row.capability}",
        row.why,
        f"EPERM without {row.capability}; with it they go through. Calls: {row.calls}.",
        advice=f"minirun run --cap-add {flag}",
        man="capabilities(7)",
        kind=PROFILE,
    )


_ALWAYS = (*seccomp_default.ALLOWED, seccomp_default.ON_X86, seccomp_default.ON_ARM)
_FAMILIES = "; ".join(
    f"{number} is {what}" for number, what in seccomp_default.HOST_FAMILIES.items()
)
TOPICS = (
    *(_topic(group, _ALLOWED) for group in _ALWAYS),
    *map(_capable, seccomp_default.CAPABLE),
    *(_topic(group, _REFUSED, _UNCONFINED) for group in seccomp_default.REFUSED),
    *(_topic(group, _UNKNOWN, _UNCONFINED) for group in seccomp_default.UNKNOWN),
    Topic(
        "seccomp socket",
        "sockets by family",
        f"EPERM for two families that reach out of the container: {_FAMILIES}. Without "
        "CAP_AUDIT_WRITE, EINVAL for a netlink socket to the audit log. Others go through. The "
        "older way of 32-bit programs, socketcall, has its arguments in memory, where no filter "
        "can look.",
        advice=_UNCONFINED,
        man="socket(2), address_families(7)",
        kind=PROFILE,
    ),
    Topic(
        "seccomp personality",
        "how the kernel treats a program",
        "Plain Linux and 32-bit Linux, and the question which it is. Others are ENOSYS: they "
        "switch off address space randomization, or run programs of other systems.",
        advice=f"A debugger that wants fixed addresses: {_UNCONFINED}",
        man="personality(2)",
        kind=PROFILE,
    ),
)


def of_call(name: str) -> list[Topic]:
    """Return the groups that have a system call."""
    whole = f"seccomp {name}"
    return [one for one in TOPICS if one.name == whole or name in _calls(one)]


def _calls(one: Topic) -> list[str]:
    return one.here.rpartition("Calls: ")[2].rstrip(".").split()
