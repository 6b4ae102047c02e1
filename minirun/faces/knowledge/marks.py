"""Which topic a line of another program is about: a frame decides before a word does.

A mark is a phrase that one program prints, so it is enough by itself. Many errors are words of a
library that any program may print: Go's "executable file not found in $PATH" is the image's fault
if runc says it of a container's command, and the client's if docker says it of its credential
helper. Such words are a topic's `inner` marks, and count only in its frame: the words before them
that say which program speaks, and of what (frames.toml). Of several frames the last one before the
words counts. A topic whose frame fits comes before any that has none.
"""

import re
from dataclasses import dataclass
from functools import cache

from minirun.faces.knowledge.texts import AROUND, ENGLISH, Topic, room, table

ROOMS = ("error_texts", "users", "programs", "clusters", "reports", "networks")
"""The files of what people see: of containers and runtimes; without root; of programs and services
of the host; of registries and clusters; of engines and GPUs; of networks."""
_WIDEST_GAP = 300
"""Characters for which a `*` may stand. It bounds the search in a long line."""
_AROUND, _PHRASE, _FRAMED = 0, 1, 2
"""How much a mark says: words around a cause, a phrase of one program, words in their frame."""
_HEAD = re.compile(
    r'\s*(?:\S*time="[^"]*" level=\w+ msg=|(?:erro|fata)\[\d+\]\S*|[\w/.-]*docker:|error:|fatal:'
    r'|error response from daemon:|["`\'\\(]|\s)*'
)
"""What stands before any error, and is no frame."""


@dataclass(frozen=True)
class Frame:
    """Words that say which program speaks, and of what."""

    marks: tuple[str, ...]
    is_alone: bool = False
    """Words before which nothing stands are taken to be of this frame, which was left out."""


@cache
def frames() -> dict[str, Frame]:
    """Return the frames by their names."""
    rows = table("frames").items()
    return {name: Frame(row["marks"], row.get("alone", False)) for name, row in rows}


@cache
def topics(language: str = ENGLISH) -> tuple[Topic, ...]:
    """Return every topic that is about a line of a program."""
    return tuple(one for name in ROOMS for one in room(name, language).values())


def of_line(line: str, language: str = ENGLISH) -> Topic | None:
    """Return the topic of a line: one whose frame fits, else the one with the longest mark.

    If there are only words around a cause, it is those that stand nearest to it: the last ones.
    """
    low = line.lower()
    fitting: list[tuple[int, int, Topic]] = []
    for one in topics(language):
        name = one.name.lower()
        if low.strip() == name:
            return one
        phrases = one.marks if one.frame else (name, *one.marks)
        places = [(mark, at, _PHRASE) for mark in phrases if (at := place(low, mark)) >= 0]
        for mark in (name, *one.inner) if one.frame else ():
            if (at := place(low, mark)) >= 0 and (frame := _in_frame(low, at, one.frame)):
                places.append((mark, at, frame))
        if one.kind == AROUND:
            fitting += [(_AROUND, at, one) for _, at, _ in places]
        else:
            fitting += [(frame, len(mark), one) for mark, _, frame in places]
    return max(fitting, key=lambda row: row[:2])[2] if fitting else None


def _in_frame(low: str, at: int, frame: str) -> int:
    """Return _FRAMED if words at a place stand in a frame, _PHRASE if they are alone and may be
    taken for it, 0 if not."""
    if speaks := speaker(low, at):
        return _FRAMED if speaks == frame else 0
    return _PHRASE if frames()[frame].is_alone and _HEAD.fullmatch(low[:at]) else 0


def speaker(low: str, at: int) -> str:
    """Return the name of the frame that is the last before a place; "" if there is none."""
    found, ends = "", 0
    for name, frame in frames().items():
        for mark in frame.marks:
            begins = low.rfind(mark, 0, at + len(mark))
            if begins >= 0 and begins + len(mark) > ends:
                found, ends = name, begins + len(mark)
    return found


def place(low: str, mark: str) -> int:
    """Return where a line in lower case has a mark, or -1; `*` in it is any text.

    A mark with `*` begins where a word begins, so `exec /*` is not in "fork/exec /bin/sh".
    """
    if "*" not in mark:
        return low.find(mark)
    gap = f"[^\n]{{0,{_WIDEST_GAP}}}?"
    found = re.search(r"(?<![\w/])" + gap.join(map(re.escape, mark.split("*"))), low)
    return found.start() if found else -1


__all__ = ["ROOMS", "Frame", "frames", "of_line", "place", "speaker", "topics"]
