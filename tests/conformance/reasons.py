"""Why a validation program is not content with minirun: each complaint by name.

What no row of REASONS fits is UNEXPLAINED, and fails `make conformance`. The suite asks after
runtime-spec 1.0.2.
"""

from fnmatch import fnmatchcase
from typing import NamedTuple


class Reason(NamedTuple):
    """One row: programs and complaints (shell patterns), and why.

    `evidence` must stand in what the program printed; without it the row does not fit.
    """

    program: str
    complaint: str
    why: str
    evidence: str = ""


_CREATED = (
    "runc, crun and minirun delete a container that is created and was never started: engines need"
    " a way to be rid of one. A running one is refused, as the next two checks of the program see"
)
_KERNEL = (
    "no runtime can: since Linux 5.16 memory.kmem.limit_in_bytes takes a value and ignores it;"
    " the spec calls memory.kernel not recommended"
)
_HIERARCHY = (
    "this machine has no version 1 hierarchy of {}, so the limit cannot be had, and a limit that"
    " cannot be had is an error"
)
_LEAF_WEIGHT = (
    "the kernel has no blkio.leaf_weight since CFQ went (Linux 5.0), and a limit that cannot be had"
    " is an error; the program asks for it in one config.json with the limits that can be had"
)
_MOUNTS = (
    "a container without a mount namespace of its own would change the mounts of whoever owns it:"
    " refused"
)

REASONS = (
    Reason("delete", "attempting to `delete` a container that is not `stopped`*", _CREATED),
    Reason(
        "hooks_stdin",
        'the state of the container MUST be passed to "prestart" hook over stdin',
        "the program wants `created`; prestart hooks run within create, where the spec's lifecycle"
        " has `creating`; runc says so too",
        evidence='wrong status \\"creating\\" in the stdin of prestart hook',
    ),
    Reason(
        "hooks",
        "Hooks MUST be called in the listed order",
        "the program waits for `post-start1`, where its own hook writes `post-start1 called`: no"
        " runtime can please it, and runc does not",
    ),
    Reason(
        "prestart",
        "Pre-start hooks MUST be called after the `start` operation is called",
        "since runtime-spec 1.1 they are called within create, as runc does: it gets this error"
        " too",
    ),
    Reason(
        "poststart_fail",
        "if any poststart hook fails, the runtime MUST log a warning*",
        "the spec asks for the opposite by now: an error, and the container's end; runc gets this"
        " error too",
    ),
    Reason("linux_cgroups_*memory", "memory kernel is set correctly", _KERNEL),
    Reason("linux_cgroups_*blkio", "*", _LEAF_WEIGHT, evidence="blkio.leaf_weight"),
    Reason("linux_cgroups_*hugetlb", "*", _HIERARCHY.format("hugetlb"), evidence="hugetlb"),
    Reason("linux_cgroups_*network", "*", _HIERARCHY.format("net_cls"), evidence="net_cls"),
    Reason(
        "misc_props",
        "* if they encounter an unknown annotation key",
        "the program's first bundle asks for /runtimetest and does not hold it; the next check, an"
        " unknown property, is of the same kind and passes",
        evidence="stat /runtimetest: no such file",
    ),
    Reason(
        "pidfile",
        "create with '--pid-file' option works",
        "a race: the program kills `true`, which has ended, and a signal to a stopped container is"
        " an error",
        evidence="container not running",
    ),
    Reason(
        "process_capabilities",
        "expected * capability CAP_SYS_RESOURCE set",
        "on this machine nobody may have CAP_SYS_RESOURCE; what cannot be granted is a warning"
        " since runtime-spec 1.1, and the rest is granted",
    ),
    Reason(
        "process_capabilities_fail",
        "Any value which cannot be mapped *",
        "an unknown capability is a warning since runtime-spec 1.1",
    ),
    Reason(
        "process_rlimits",
        "has expected soft RLIMIT_NOFILE",
        "the program inside is written in Go, and since Go 1.19 such a program raises its own soft"
        " RLIMIT_NOFILE to the hard one when it starts",
    ),
    Reason(
        "start",
        "exit status 1",
        "the program creates a container without `process`: refused at create, as in runc, since"
        " there is nothing that start could run",
    ),
)

RACES = {
    "killsig": "it sends its signal as soon as the container runs; the shell inside, process 1 of"
    " its pid namespace, may not have set its trap by then, and what it has no trap for is nothing",
    "poststart": "the hook begins after execve, and so beside the command: which of the two shells"
    " is the first to write into the file that the program reads, the kernel decides",
}
"""Programs that may fail by their own doing, whatever the runtime does: they get two more tries."""


def why(program: str, complaint: str, printed: str) -> str:
    """Return the reason for a program's complaint; empty where none is known."""
    for reason in REASONS:
        fits = fnmatchcase(program, reason.program) and fnmatchcase(complaint, reason.complaint)
        if fits and reason.evidence in printed:
            return reason.why
    return ""
