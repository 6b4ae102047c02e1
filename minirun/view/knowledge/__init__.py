"""What minirun knows about its own log: behind `explain`, `?` in --step, and the page's "why".

Every stage, system call, message, note, gate and error number has a Topic: what it means here, why
it fails, what to try, the man page, the section of the OCI runtime-spec, and what the real stack
(runc, libnvidia-container, NVIDIA's hook) does at the same step. All of it is data: nothing is
asked of the kernel, so it works on any system.
"""

import re
from dataclasses import replace
from functools import cache

from minirun.errors import _GENERAL, HINTS
from minirun.view.knowledge import (
    calls,
    errnos,
    files,
    gpus,
    mounts,
    privileges,
    processes,
    said,
    stages,
)
from minirun.view.knowledge import troubles as gpu_troubles
from minirun.view.knowledge.hints import hints
from minirun.view.knowledge.hints import topic as hint_topic
from minirun.view.knowledge.topic import ERROR, Topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ALIASES = {
    "mknod": "mknodat", "mkfifoat": "mkfifo", "symlink": "symlinkat", "umount": "umount2",
    "execveat": "execve", "setresuid": "setuid", "setresgid": "setgid", "openat": "openat2",
    "vfork": "clone3", "fork": "clone3", "clone": "clone3",
}  # fmt: skip
"""Other names of a call: /usr/include's, or strace's."""

_BY_NAME = {
    topic.name: topic
    for group in (processes.TOPICS, mounts.TOPICS, files.TOPICS, privileges.TOPICS,
                  said.MESSAGES, said.NOTES, gpus.NOTES, said.GATES, calls.TOPICS)
    for topic in group
}  # fmt: skip
_ERRNOS = {topic.name: topic for topic in errnos.TOPICS}
_STAGE_NAMES = {topic.title: topic for topic in stages.STAGES}


def topics() -> list[Topic]:
    """Return all topics but hints: stages, calls, messages, notes, gates, the default profile's
    groups of calls, errnos, troubles."""
    troubles = [trouble.topic for trouble in gpu_troubles.TROUBLES]
    return [*stages.STAGES, *_BY_NAME.values(), *_ERRNOS.values(), *troubles]


def troubles(text: str) -> list[Topic]:
    """Return the troubles with GPUs that a text, such as a program's error, speaks of."""
    return gpu_troubles.matching(text)


def profile(call: str) -> list[Topic]:
    """Return the groups of the default profile of system calls that have this call."""
    return calls.of_call(call)


def stage(number: int) -> Topic:
    """Return what there is to know of a stage, 1 to 7. Raises IndexError."""
    if not 1 <= number <= len(stages.STAGES):
        raise IndexError(number)
    return stages.STAGES[number - 1]


def event(name: str, args: "dict[str, Any] | None" = None) -> Topic | None:
    """Return what there is to know of an event; None for a name that the log never has.

    `name` and `args` are the event's; with the arguments the answer is about this very use of
    a call (mount of an overlay, PR_SET_PDEATHSIG). `name` may also hold both: "mount overlay".
    """
    if name in _STAGE_NAMES:
        return _STAGE_NAMES[name]
    if re.fullmatch("[1-7]:(begin|end)", name):
        return _BY_NAME["gate"]
    if name == "syscall":
        return _BY_NAME["gate syscall"]
    call, _, rest = name.partition(" ")
    whole = f"{ALIASES.get(call, call)} {rest}".strip()
    for kind in _kinds(whole, args if isinstance(args, dict) else {}):
        if f"{whole} {kind}" in _BY_NAME:
            return _BY_NAME[f"{whole} {kind}"]
    return _BY_NAME.get(whole)


def _kinds(call: str, args: "dict[str, Any]") -> list[str]:
    """Return what may tell this use of a call from others, the most telling first."""
    path = str(args.get("path") or args.get("target") or "")
    flags = str(args.get("flags") or "")
    found = [f"{args.get('fstype')} {path[:12]}", str(args.get("fstype") or "")]
    found += [str(args.get(key) or "") for key in ("option", "nstype", "cmd", "set")]
    found += [path.rpartition("/")[2], path[:11], flags]
    if call == "clone3":
        new = [word for word in flags.split("|") if word.startswith("CLONE_NEW")]
        is_ldconfig = sorted(new) == ["CLONE_NEWIPC", "CLONE_NEWPID"]
        found.append("ldconfig" if is_ldconfig else "CLONE_NEW" if new else "helper")
    if call == "mount":
        propagation = any(word in flags for word in ("SLAVE", "PRIVATE", "SHARED", "UNBINDABLE"))
        found.append("propagation" if propagation else flags.partition("|")[0])
    if call == "execve":
        found.append("trampoline" if path == "memfd:trampoline" else path)
    return found


def errno(name: str, call: str = "") -> Topic | None:
    """Return what an error number means, at `call` where one is named; None for an unknown one.

    `name` may be the number (Linux's).
    """
    if name.isdecimal() and len(name) < 6:
        name = errnos.NUMBERS.get(int(name), name)
    known = _ERRNOS.get(name.upper())
    if known is None or not call:
        return known
    call = ALIASES.get(call, call)
    about = event(call)
    key = (call, known.name)
    return replace(
        known,
        name=f"{call} {known.name}",
        cause=errnos.CAUSES.get(key, known.cause),
        advice=HINTS.get(key) or _GENERAL.get(known.name) or known.advice,
        man=f"{about.man.partition(',')[0]}, ERRORS" if about else known.man,
        kind=ERROR,
    )


@cache
def _searched() -> list[tuple[Topic, str]]:
    found = [*topics(), *(errno(name, call) for call, name in HINTS), *map(hint_topic, hints())]
    return [
        (t, f"{t.name}\n{t.title}\n{t.here}\n{t.cause}\n{t.advice}".lower()) for t in found if t
    ]


def search(word: str) -> list[Topic]:
    """Return the topics, hints among them, whose text holds `word`; the best first.

    Those that are named so come before those that only speak of it.
    """
    low = word.lower()
    found = [topic for topic, text in _searched() if low in text]
    return sorted(
        found, key=lambda topic: (low != topic.name.lower(), low not in topic.name.lower())
    )


__all__ = [
    "ALIASES",
    "Topic",
    "errno",
    "event",
    "hints",
    "profile",
    "search",
    "stage",
    "topics",
    "troubles",
]
