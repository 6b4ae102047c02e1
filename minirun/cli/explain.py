"""`minirun explain WORD…`: what an error, an event or a stage means, why, and what to try.

WORD is an error number (ENOENT, 2), an event of the log (mount, "prctl PR_SET_PDEATHSIG",
HOOKS_DONE, "ldconfig ended"), a stage (5, s5, "stage 5", its module or its actor), a call and an
error number together (mount EPERM), words of a hint that an error has printed, or a text about
GPUs that do not work ("Failed to initialize NVML: Unknown Error"); or a system call, for how the
default profile of `run` answers it (io_uring_setup, "seccomp files").
"""

import json
import re
import shutil
import sys
import textwrap
from dataclasses import asdict
from difflib import get_close_matches

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.errors import UsageError
from minirun.settings import Settings
from minirun.view import knowledge, paint, text
from minirun.view.knowledge import Topic, errnos, stages, topic

FLAGS = (
    Flag(("--hints",), "", "list every hint that an error prints, and which errors print it"),
    Flag(("--json",), "", "print topics as JSON"),
    HELP,
)
_PARTS = (
    ("here", "here"), ("cause", "cause"), ("advice", "try"), ("man", "man page"),
    ("spec", "OCI spec"), ("real", "real stack"),
)  # fmt: skip
_GROUPS = (
    (topic.STAGE, "Stages"), (topic.SYSTEM_CALL, "System calls"), (topic.MESSAGE, "Messages"),
    (topic.NOTE, "Notes"), (topic.GATE, "Gates"), (topic.ERRNO, "Errors"),
    (topic.TROUBLE, "Troubles with GPUs"), (topic.PROFILE, "The default profile of system calls"),
)  # fmt: skip
_INDENT = 14
_MOST_FOUND = 8
_WIDEST = 100


def main(args: "list[str]", settings: Settings) -> int:
    """Explain a word, or list all that can be explained."""
    flags = parse("explain", FLAGS, args, mixed=True)
    if flags.help:
        summary = "Explain an error, an event of the log, or a stage; without WORD list them all."
        sys.stdout.write(usage("explain", "[WORD…]", summary, FLAGS))
        return 0
    words = " ".join(flags.args).strip()
    if flags.hints:
        found = [one for one in knowledge.search(words) if one.kind == topic.HINT]
    else:
        found = find(words) if words else knowledge.topics()
    if not found:
        raise UsageError(f"nothing is known of {words!r}", _near(words), status=1)
    if flags.json:
        sys.stdout.write(json.dumps([asdict(one) for one in found], indent=2) + "\n")
        return 0
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    whole = words or flags.hints
    lines = [line for one in found for line in page(one, width)] if whole else listing(found, width)
    unicode = paint.speaks_unicode()
    sys.stdout.write("".join(f"{text.clean(line, unicode)}\n" for line in lines))
    return 0


def find(words: str) -> list[Topic]:
    """Return the topics that `words` names; where it names none, those that speak of it."""
    named = [*_stages(words), *_named(words), *_errors(words)]
    named = named or knowledge.profile(words.lower())
    return named or knowledge.troubles(words) or knowledge.search(words)[:_MOST_FOUND]


def _stages(words: str) -> list[Topic]:
    """Return the stages that `words` names: by number, module, or actor."""
    low = words.lower()
    number = re.fullmatch(r"(?:stage ?|s)?([1-7])", low)
    if number:
        return [knowledge.stage(int(number[1]))]
    found = [n for n, names in stages.WORDS.items() if low in names]
    return [knowledge.stage(n) for n in (found or stages.ACTORS.get(low, ()))]


def _named(words: str) -> list[Topic]:
    """Return the event of this name, and where it has several kinds, those too."""
    names = {one.name.lower(): one.name for one in knowledge.topics()}
    exact = knowledge.event(names.get(words.lower(), words))
    if exact is None or exact.kind == topic.STAGE:
        return [exact] if exact else []
    kinds = [one for one in knowledge.topics() if one.name.startswith(f"{exact.name} ")]
    return [exact, *(one for one in kinds if one.kind == exact.kind)]


def _errors(words: str) -> list[Topic]:
    """Return what "ENOENT", "2", "mount EPERM" or "EPERM mount" means."""
    first, _, second = words.partition(" ")
    for name, call in ((words, ""), (second, first), (first, second)):
        found = knowledge.errno(name, call) if name and " " not in call else None
        if found and (not call or knowledge.event(call)):
            return [found]
    return []


def _near(words: str) -> str:
    known = {one.name.lower(): one.name for one in knowledge.topics()}
    known |= {word: word for names in stages.WORDS.values() for word in names}
    near = get_close_matches(words.lower(), known, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(known[name] for name in near) + "?"
    return "minirun explain lists all"


def page(one: Topic, width: int) -> list[str]:
    """Return all that is known of a topic, as lines of at most `width` columns."""
    if one.kind == topic.HINT:  # its title and its advice say nothing more
        lines = textwrap.wrap(one.name, width, subsequent_indent="  ")
        return [*lines, *_wrap(one.cause, width, "  ", "  "), ""]
    lines = textwrap.wrap(f"{one.name}: {one.title}", width, subsequent_indent="  ")
    for field, label in _PARTS:
        if said := getattr(one, field):
            lines += _wrap(said, width, f"  {label:<{_INDENT - 2}}", " " * _INDENT)
    return [*lines, ""]


def _wrap(said: str, width: int, first: str, other: str) -> list[str]:
    return textwrap.wrap(
        said, width, initial_indent=first, subsequent_indent=other,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def listing(found: list[Topic], width: int) -> list[str]:
    """Return every topic as one line of at most `width` columns, in groups."""
    numbers = {name: number for number, name in errnos.NUMBERS.items()}
    lines = []
    for kind, title in _GROUPS:
        lines.append(f"{title}:")
        for one in found:
            if one.kind == kind:
                number = f" ({numbers[one.name]})" if kind == topic.ERRNO else ""
                line = f"  {one.name + number:<31} {one.title}"
                lines.append(line if len(line) <= width else line[: width - 3] + "...")
        lines.append("")
    count = len(knowledge.hints())
    return [*lines, f"And {count} hints that errors print: minirun explain --hints"]
