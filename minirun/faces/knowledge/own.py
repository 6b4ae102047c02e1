"""Which of minirun's own lines a line is, and what is known of its kind.

own.toml has the kinds. A mark that begins with "minirun: " is the beginning of lines; any other
says from where in the source they come: "oci/seccomp/* *Error: *", with fnmatch's wildcards,
which is compared with "MODULE KIND: TEXT" of minirun.faces.knowledge.source. Of several marks the
one with the most letters counts, so one text of a module can have a kind of its own.
"""

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

from minirun.faces.knowledge.source import GAP, REASON, REMARK, WARNING, MessageSource, said
from minirun.faces.knowledge.texts import ENGLISH, Topic, room, words

PROGRAM = "minirun: "
"""What stands before each line that minirun prints on standard error."""
_LETTERS, _LETTERS_BEGUN, _LETTERS_BARE = 7, 3, 15
"""Letters that a text must have of its own to be recognized: if it begins with a part that only the
event knows; if it begins with its own words; and if the program's name does not stand before it."""
_WORDS_BARE = 3
_HINT = r"(?: \(.*\))?"


def topic(line: str, language: str = ENGLISH) -> Topic | None:
    """Return what is known of a line that minirun has printed; None for any other."""
    text = line.strip()
    _, ours, rest = text.partition(PROGRAM)
    if ours:
        text = rest.removeprefix(f"{WARNING}: ")
        if found := _by_words(rest, language):
            return found
    places = recognize(text, ours=bool(ours))
    found = kind_of(*places[0], language) if places else None
    if found is None:
        return None
    modules = {place.module for place, _ in places}
    form = words(language)["own"]["here"] if len(modules) == 1 else ""
    here = f"{found.here} {form.format(module=places[0][0].module)}".strip()
    return replace(found, name=_filled(text, places[0][1]), here=here)


def _filled(text: str, form: str) -> str:
    """Return the part of a line that is a form of the source, with what stands for each gap."""
    fits = re.search(".*?".join(map(re.escape, form.split(GAP))) + f"(?={_HINT}$)", text)
    return fits[0] if fits else text


def recognize(text: str, *, ours: bool) -> list[tuple[MessageSource, str]]:
    """Return the places of the source that may say a text, with what they say: of all that fit,
    those with the most signs of their own."""
    found: list[tuple[MessageSource, str]] = []
    most = 0
    for size, bare, one, form in _forms():
        if found and size < most:
            break
        parts = form.split(GAP)
        if (ours or bare) and all(part in text for part in parts):
            before = "(?:.*: )?" if ours else ""
            if re.fullmatch(f"{before}{'.*'.join(map(re.escape, parts))}{_HINT}", text):
                found.append((one, form))
                most = size
    return found


@cache
def _forms() -> list[tuple[int, int, MessageSource, str]]:
    """Return every text that tells itself, the most telling first: its size without gaps, the
    letters that tell it without the program's name, its place, and itself."""
    rows = [
        (len(form.replace(GAP, "")), is_telling(form, ours=False), one, form)
        for one in said()
        for form in one.texts
        if is_telling(form)
    ]
    return sorted(rows, key=lambda row: (-row[0], row[2].kind == REASON))


def is_telling(form: str, *, ours: bool = True) -> int:
    """Return how many letters of its own a text has; 0 if they are too few to recognize it by."""
    own = form.removeprefix(f"{WARNING}: ").replace(GAP, " ")
    letters = sum(map(str.isalpha, own))
    begun = not form.startswith(GAP)
    if ours:
        return letters if letters >= (_LETTERS_BEGUN if begun else _LETTERS) else 0
    words = re.findall("[A-Za-z]{2,}", own)
    return letters if begun and letters >= _LETTERS_BARE and len(words) >= _WORDS_BARE else 0


def kind_of(place: MessageSource, form: str, language: str = ENGLISH) -> Topic | None:
    """Return the topic of own.toml for a text of a place; None if no mark fits."""
    key = f"{place.module} {place.kind}: {form}"
    fitting = [
        (len(mark.replace("*", "")), one)
        for one in room("own", language).values()
        for mark in one.marks
        if not mark.startswith(PROGRAM) and fnmatchcase(key, mark)
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


@cache
def _beginnings() -> list[tuple[str, str]]:
    pairs = [(mark, one.name) for one in room("own").values() for mark in one.marks]
    return sorted((pair for pair in pairs if pair[0].startswith(PROGRAM)), key=lambda p: -len(p[0]))


def _by_words(text: str, language: str) -> Topic | None:
    """Return the kind of a line by its first words, without the program's name."""
    for mark, name in _beginnings():
        if text.startswith(mark.removeprefix(PROGRAM)):
            return replace(
                room("own", language)[name], name=mark.removeprefix(PROGRAM).rstrip(": ")
            )
    return None


__all__ = [
    "PROGRAM", "REASON", "REMARK", "WARNING", "is_telling", "kind_of", "recognize", "topic",
]  # fmt: skip
