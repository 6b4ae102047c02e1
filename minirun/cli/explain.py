"""`minirun explain WORD…`: what an error, an event or a stage means, why, and what to try.

WORD is an error number (ENOENT, 2), an event of the log (mount, "prctl PR_SET_PDEATHSIG",
HOOKS_DONE, "ldconfig ended"), a stage (5, s5, "stage 5", its module or its actor), a call and an
error number together (mount EPERM), words of a hint that an error has printed, or a text about
GPUs that do not work ("Failed to initialize NVML: Unknown Error"); or a system call, for how the
default profile of `run` answers it (io_uring_setup, "seccomp files").
"""

import json
import shutil
from dataclasses import asdict

from minirun import knowledge
from minirun.cli.flags import HELP, LANG, Flag, parse, usage
from minirun.cli.timeline import say
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.knowledge import ENGLISH, HINT, Topic, language
from minirun.knowledge.texts import ERRNO
from minirun.show import paint, text

FLAGS = (
    Flag(("--hints",), "", "list every hint that an error prints, and which errors print it"),
    Flag(("--json",), "", "print topics as JSON"),
    LANG,
    HELP,
)
_INDENT = 14
_NAME = 31
_WIDEST = 100


def main(args: "list[str]", settings: Settings) -> int:
    """Explain a word, or list all that can be explained."""
    flags = parse("explain", FLAGS, args, mixed=True)
    if flags.help:
        summary = "Explain an error, an event of the log, or a stage; without WORD list them all."
        say(usage("explain", "[WORD…]", summary, FLAGS))
        return 0
    tongue = language.choose(flags.lang or settings.lang)
    words = " ".join(flags.args).strip()
    if flags.hints:
        found = [one for one in knowledge.search(words, tongue) if one.kind == HINT]
    else:
        found = knowledge.lookup(words, tongue) if words else knowledge.topics(tongue)
    if not found:
        names = knowledge.near(words)
        hint = f"did you mean {' or '.join(names)}?" if names else "minirun explain lists all"
        raise UsageError(f"nothing is known of {words!r}", hint, status=1)
    if flags.json:
        say(json.dumps([asdict(one) for one in found], indent=2) + "\n")
        return 0
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    if words or flags.hints:
        lines = [line for one in found for line in page(one, width, tongue)]
    else:
        lines = listing(found, width, tongue)
    unicode = paint.speaks_unicode() or tongue != ENGLISH
    say("".join(f"{text.clean(line, unicode)}\n" for line in lines))
    return 0


def page(one: Topic, width: int, language: str = ENGLISH) -> list[str]:
    """Return all that is known of a topic, as lines of at most `width` columns."""
    if one.kind == HINT:  # its title and its advice say nothing more
        return [*text.wrap(one.name, width, "", "  "), *text.wrap(one.cause, width, "  "), ""]
    lines = text.wrap(f"{one.name}: {one.title}", width, "", "  ")
    for field, label in knowledge.words(language)["parts"].items():
        if part := getattr(one, field):
            first = text.padded(f"  {label}", _INDENT)
            lines += text.wrap(part, width, first, " " * _INDENT)
    return [*lines, ""]


def listing(found: list[Topic], width: int, language: str = ENGLISH) -> list[str]:
    """Return every topic as one line of at most `width` columns, in groups."""
    words = knowledge.words(language)
    lines = []
    for kind, title in words["kinds"].items():
        lines.append(f"{title}:")
        for one in found:
            if one.kind == kind:
                number = f" ({one.number})" if kind == ERRNO else ""
                line = f"  {one.name + number:<{_NAME}} {one.title}"
                lines.append(text.cut(line, width, "..."))
        lines.append("")
    return [*lines, words["hint"]["more"].format(count=len(knowledge.hints()))]
