"""Every hint that an error prints, read from the program's own source.

A hint is what stands in parentheses at the end of an error's line. Most are the second argument of
an error class (minirun.faces.knowledge.source finds them), the others the table of
minirun.core.errors. Parts that are known only when the error happens stand as {…}, and are shown as
….
"""

from dataclasses import dataclass
from functools import cache

from minirun.core.errors import _GENERAL, HINTS
from minirun.faces.knowledge import source
from minirun.faces.knowledge.texts import ENGLISH, HINT, Topic, words


@dataclass(frozen=True)
class Hint:
    """A hint, and what prints it: "mount: EPERM", or an error's text and its module."""

    text: str
    by: tuple[str, ...]


@cache
def hints() -> tuple[Hint, ...]:
    """Return all hints, each once, in alphabetical order."""
    found: dict[str, list[str]] = {}
    for (call, errno), text in HINTS.items():
        found.setdefault(text, []).append(f"{call}: {errno}")
    for errno, text in _GENERAL.items():
        found.setdefault(text, []).append(f"any other call: {errno}")
    for one in source.said():
        error = "".join(f": {text}" for text in one.texts[:1])
        for text in one.hints:
            found.setdefault(text, []).append(f"{one.kind}{error} ({one.module})")
    rows = (Hint(text, tuple(dict.fromkeys(by))) for text, by in found.items())
    return tuple(sorted(rows, key=lambda hint: hint.text.lower()))


def topic(hint: Hint, language: str = ENGLISH) -> Topic:
    """Return a hint as a topic: the errors that print it are its causes."""
    form = words(language)["hint"]
    cause = form["cause"].format(errors="; ".join(hint.by)).replace(source.GAP, "…")
    text = hint.text.replace(source.GAP, "…")
    return Topic(text, form["title"], cause=cause, advice=text, kind=HINT)
