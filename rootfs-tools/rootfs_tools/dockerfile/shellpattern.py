"""Patterns in ${NAME#pattern}, ${NAME%pattern} and ${NAME/pattern/text}: * and ?, as in a shell.

A backslash takes the meaning from the character behind it. Sets such as [a-z] have no meaning, as
in docker: buildkit's frontend/dockerfile/shell. No pattern takes long: what stands between two
stars is looked for at its first place and nowhere else, since no later one leaves more room.
"""

import re
from collections.abc import Iterator

from minirun.core.errors import ImageError

_LONGEST = 1000
"""Characters of a pattern."""


def without_prefix(value: str, pattern: str, *, longest: bool) -> str:
    """Return `value` without the shortest or the longest begin that fits. Raises ImageError."""
    found = _Pattern(pattern).match(value, 0, longest=longest)
    return value if found is None else value[found:]


def without_suffix(value: str, pattern: str, *, longest: bool) -> str:
    """Return `value` without the shortest or the longest end that fits. Raises ImageError."""
    found = _Pattern(pattern, backwards=True).match(value[::-1], 0, longest=longest)
    return value if found is None else value[: len(value) - found]


def replaced(value: str, pattern: str, new: str, *, everywhere: bool) -> str:
    """Return `value` with `new` for the first part that fits, as long as it can be; or for each.

    Raises ImageError.
    """
    wanted = _Pattern(pattern)
    parts, at = [], 0
    while pattern and (found := wanted.search(value, at)):
        parts += [value[at : found[0]], new]
        at = found[1]
        if not everywhere or at == len(value):
            break
    return "".join([*parts, value[at:]])


class _Pattern:
    """A pattern, as the pieces that stand between its stars."""

    def __init__(self, pattern: str, *, backwards: bool = False) -> None:
        if len(pattern) > _LONGEST:
            raise ImageError(f"a pattern of more than {_LONGEST} characters: {pattern[:60]!r}…")
        pieces: list[list[str]] = [[]]
        letters = iter(pattern)
        for letter in letters:
            if letter == "*":
                pieces.append([])
            else:
                pieces[-1].append(_character(letter, letters))
        turn = -1 if backwards else 1
        self._pieces = [re.compile("".join(each[::turn]), re.DOTALL) for each in pieces[::turn]]

    def match(self, text: str, at: int, *, longest: bool) -> int | None:
        """Return where a part ends that begins at `at`; None if none fits."""
        found = self._pieces[0].match(text, at)
        return self._end(text, found.end(), longest) if found else None

    def search(self, text: str, at: int) -> tuple[int, int] | None:
        """Return the first part that fits, as long as it can be; an empty one does not count."""
        found = self._pieces[0].search(text, at)
        if not found:
            return None
        # if the rest does not follow here, it does not follow at a later place either
        end = self._end(text, found.end(), True)
        return None if end is None or end == found.start() < len(text) else (found.start(), end)

    def _end(self, text: str, at: int, longest: bool) -> int | None:
        """Return where the pieces behind the first one end; the last may be found late."""
        start = at
        for piece in self._pieces[1:]:
            found = piece.search(text, at)
            if not found:
                return None
            start, at = found.span()
        last, size = self._pieces[-1], at - start
        if not longest or len(self._pieces) == 1:
            return at
        places = range(len(text) - size, start - 1, -1)
        return next(place for place in places if last.match(text, place)) + size


def _character(letter: str, rest: Iterator[str]) -> str:
    """Return one character of a pattern as a regular expression. Raises ImageError."""
    if letter == "?":
        return "."
    if letter == "\\":
        letter = next(rest, "")
        if letter not in ("*", "?", "\\", "}", "/"):
            raise ImageError(f"invalid escape '\\{letter}' in a pattern")
    return re.escape(letter)
