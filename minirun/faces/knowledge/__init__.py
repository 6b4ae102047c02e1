"""What minirun knows about its own log: behind `explain`, `?` in --step, and a page's topics.

Every stage, system call, message, note, gate and error number has a Topic: what it means here, why
it fails, what to try, the man page, the section of the OCI runtime-spec, and what the real stack
(runc, libnvidia-container, NVIDIA's hook) does at the same step. The texts are data, in English and
Korean (minirun.faces.knowledge.texts); nothing is asked of the kernel, so it works on any system.

    texts       the TOML files, en/ and ko/, and their records
    marks       which topic a line of another program is about: by its frame, then by its words
    language    --lang or the locale
    own         which of minirun's own messages a line is
    source      every message and warning of minirun; hints: every hint; both read from its source
    seccomp     the default profile of system calls, in groups
"""

import re
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from minirun.core.errors import HINTS
from minirun.core.keeping.numbers import whole
from minirun.faces.knowledge import marks, own
from minirun.faces.knowledge.hints import hints
from minirun.faces.knowledge.hints import topic as hint_topic
from minirun.faces.knowledge.seccomp import groups
from minirun.faces.knowledge.texts import AROUND, ENGLISH, GATE, HINT, STAGE, Topic, room, words

ALIASES = {
    "mknod": "mknodat", "mkfifoat": "mkfifo", "symlink": "symlinkat", "umount": "umount2",
    "execveat": "execve", "setresuid": "setuid", "setresgid": "setgid", "openat": "openat2",
    "vfork": "clone3", "fork": "clone3", "clone": "clone3",
}  # fmt: skip
"""Other names of a call: /usr/include's, or strace's."""

_EVENTS = (
    "processes", "mounts", "files", "privileges", "messages", "notes", "gpus", "gates",
)  # fmt: skip
MOST_FOUND = 8
"""Topics that only speak of a word: of more, the first."""
_WARNING = re.compile(r"(?:^|\s)(?:(?i:warning):|level=warning\s)")
"""How minirun and docker begin a warning, and how runc and containerd mark the line of one."""


@cache
def _events(language: str) -> dict[str, Topic]:
    """Return what events and groups of calls have a name of their own, by that name."""
    named = {name: one for each in _EVENTS for name, one in room(each, language).items()}
    return named | {one.name: one for one in groups(language)}


def topics(language: str = ENGLISH) -> list[Topic]:
    """Return all topics but hints: stages, calls, messages, notes, gates, the default profile's
    groups of calls, errnos, error texts."""
    errnos, events = room("errnos", language).values(), _events(language).values()
    return [*room("stages", language).values(), *events, *errnos, *marks.topics(language)]


@cache
def event_names() -> tuple[str, ...]:
    """Return the names that events of the log have: of calls, messages and notes."""
    known = _events(ENGLISH)
    kinds = {name for name in known if " " in name and name.partition(" ")[0] in known}
    return tuple(name for name in known if name not in kinds and known[name].kind != GATE)


def stage(number: int, language: str = ENGLISH) -> Topic:
    """Return the topic of a stage, 1 to 7. Raises KeyError."""
    return room("stages", language)[f"stage {number}"]


def event(name: str, args: dict[str, Any] | None = None, language: str = ENGLISH) -> Topic | None:
    """Return the topic of an event; None for a name that the log never has.

    `name` and `args` are the event's; with the arguments the answer is about this very use of
    a call (mount of an overlay, PR_SET_PDEATHSIG). `name` may also hold both: "mount overlay".
    """
    known = _events(language)
    for one in room("stages").values():
        if name == one.title:  # the log names a stage so, in English
            return room("stages", language)[one.name]
    if re.fullmatch("[1-7]:(begin|end)", name):
        return known["gate"]
    if name == "syscall":
        return known["gate syscall"]
    call, _, rest = name.partition(" ")
    whole = f"{ALIASES.get(call, call)} {rest}".strip()
    for kind in _kinds(whole, args if isinstance(args, dict) else {}):
        if f"{whole} {kind}" in known:
            return known[f"{whole} {kind}"]
    return known.get(whole)


def _kinds(call: str, args: dict[str, Any]) -> list[str]:
    """Return what may tell this use of a call from others, the most telling first."""
    path = str(args.get("path") or args.get("target") or "")
    flags = str(args.get("flags") or "")
    found = [f"{args.get('fstype')} {path[:12]}", str(args.get("fstype") or "")]
    found += [str(args.get(key) or "") for key in ("option", "nstype", "cmd", "set")]
    found += [path.rpartition("/")[2], path[:11], flags]
    if call == "clone3":
        new = [word for word in flags.split("|") if word.startswith("CLONE_NEW")]
        is_ldconfig = sorted(new) == ["CLONE_NEWIPC", "CLONE_NEWPID"]
        kind = "ldconfig" if is_ldconfig else "CLONE_NEW" if new else "helper"
        found += [kind] if "flags" in args else []
    if call == "mount":
        propagation = any(word in flags for word in ("SLAVE", "PRIVATE", "SHARED", "UNBINDABLE"))
        found.append("propagation" if propagation else flags.partition("|")[0])
    if call == "execve":
        found.append("trampoline" if path == "memfd:trampoline" else path)
    return found


def errno(name: str, call: str = "", language: str = ENGLISH) -> Topic | None:
    """Return the topic of an error number, at `call` if one is given; None for an unknown one.

    `name` may be the number (Linux's).
    """
    numbers = room("errnos", language)
    if (number := whole(name, 1)) is not None:
        name = next((one.name for one in numbers.values() if one.number == number), name)
    known = numbers.get(name.upper())
    if known is None or not call:
        return known
    call = ALIASES.get(call, call)
    pair = f"{call} {known.name}"
    found = room("calls_and_errnos", language).get(pair) or replace(
        known, name=pair, kind="error", number=0
    )
    about = event(call)
    return replace(
        found,
        title=known.title,
        here=known.here,
        advice=found.advice or HINTS.get((call, known.name)) or known.advice,
        man=f"{about.man.partition(',')[0]}, ERRORS" if about else known.man,
    )


def error_text(text: str, language: str = ENGLISH) -> list[Topic]:
    """Return what is known of a text that a program, an engine or a runtime has printed.

    Each line has one explanation (minirun.faces.knowledge.marks); each stands once. The words
    around a cause, as those of a hook's failure around the hook's own (kind AROUND), are returned
    only if nothing is known of any cause; warnings, which stop nothing, only if nothing else is
    known.
    """
    lines = [(line, one) for line in text.splitlines() if (one := _of_line(line, language))]
    warnings = [one for line, one in lines if _WARNING.search(line)]
    others = [one for line, one in lines if not _WARNING.search(line)]
    causes = [one for one in others if one.kind != AROUND]
    return list(dict.fromkeys(causes or others or warnings))


def _of_line(line: str, language: str) -> Topic | None:
    """Return what is known of one line: a cause, a line of minirun itself, the words around one."""
    best = marks.of_line(line, language)
    if best is None or (best.kind == AROUND and own.PROGRAM in line):
        return own.topic(line, language) or _of_system(line, language) or best
    return best


def _of_system(line: str, language: str) -> Topic | None:
    """Return the error number with which a line of minirun ends, at the call that it names."""
    _, ours, text = line.rpartition(own.PROGRAM)
    *before, last = re.sub(r" \([^()]*\)$", "", text.strip()).split(": ")
    name = {one.title: one.name for one in room("errnos").values()}.get(last.lower())
    if not name or not (ours or not before):
        return None
    calls = [word for word in before if errno(name, word) and event(word)]
    return errno(name, calls[0] if calls else "", language)


def difference(said: str, language: str = ENGLISH) -> Topic | None:
    """Return why a program does what another does not: "runc runtime prctl PR_SET_…", as a mark of
    differences.toml has it; None if nothing is known."""
    for one in room("differences", language).values():
        if any(fnmatchcase(said, mark) for mark in one.marks):
            return one
    return None


def profile(call: str, language: str = ENGLISH) -> list[Topic]:
    """Return the groups of the default profile of system calls that have this call."""
    whole = f"seccomp {call}"
    return [one for one, calls in groups(language).items() if one.name == whole or call in calls]


def every_hint(language: str = ENGLISH) -> list[Topic]:
    """Return each hint that an error prints, as a topic."""
    return [hint_topic(hint, language) for hint in hints()]


@cache
def _searched(language: str) -> list[tuple[Topic, str]]:
    """Return all topics with the text in which words are looked for; English is always in it."""
    pairs = [errno(name, call, language) for call, name in HINTS]
    found = [one for one in (*topics(language), *pairs, *every_hint(language)) if one]
    texts = [f"{t.name}\n{t.title}\n{t.here}\n{t.cause}\n{t.advice}".lower() for t in found]
    if language != ENGLISH:
        english = (text for _, text in _searched(ENGLISH))
        texts = ["\n".join(both) for both in zip(texts, english, strict=True)]
    return list(zip(found, texts, strict=True))


def search(word: str, language: str = ENGLISH) -> list[Topic]:
    """Return the topics, hints among them, whose text holds `word`; the best first.

    A topic that has the word in its name comes before one that only speaks of it.
    """
    low = word.lower()
    found = [topic for topic, text in _searched(language) if low in text]
    return sorted(
        found, key=lambda topic: (low != topic.name.lower(), low not in topic.name.lower())
    )


def lookup(asked: str, language: str = ENGLISH) -> list[Topic]:
    """Return the topics that `asked` names, or that are known of it as a text."""
    named = [*_stages(asked, language), *_named(asked, language), *_errors(asked, language)]
    return named or profile(asked.lower(), language) or error_text(asked, language)


def _stages(asked: str, language: str) -> list[Topic]:
    """Return the stages that `asked` names: by number, module, or actor."""
    low = asked.lower()
    number = re.fullmatch(r"(?:stage ?|s)?([1-7])", low)
    if number:
        return [stage(int(number[1]), language)]
    return [one for one in room("stages", language).values() if low in one.marks]


def _named(asked: str, language: str) -> list[Topic]:
    """Return the event of this name, and the kinds of it if it has several."""
    names = {one.name.lower(): one.name for one in topics()}
    exact = event(names.get(asked.lower(), asked), language=language)
    if exact is None or exact.kind == STAGE:
        return [exact] if exact else []
    kinds = [one for one in topics(language) if one.name.startswith(f"{exact.name} ")]
    return [exact, *(one for one in kinds if one.kind == exact.kind)]


def _errors(asked: str, language: str) -> list[Topic]:
    """Return the topic of "ENOENT", "2", "mount EPERM" or "EPERM mount"."""
    first, _, second = asked.partition(" ")
    for name, call in ((asked, ""), (second, first), (first, second)):
        found = errno(name, call, language) if name and " " not in call else None
        if found and (not call or event(call)):
            return [found]
    return []


def near(asked: str) -> list[str]:
    """Return at most three names of topics that look like `asked`."""
    known = {one.name.lower(): one.name for one in topics()}
    known |= {mark: mark for one in room("stages").values() for mark in one.marks}
    return [known[name] for name in get_close_matches(asked.lower(), known, n=3, cutoff=0.5)]


__all__ = [
    "ALIASES", "AROUND", "ENGLISH", "HINT", "MOST_FOUND", "Topic", "errno", "error_text", "event",
    "event_names", "every_hint",
    "hints", "lookup", "near", "profile", "search", "stage", "topics", "words",
]  # fmt: skip
