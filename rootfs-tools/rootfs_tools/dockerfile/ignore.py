"""Which files of the build context .dockerignore leaves out.

One pattern a line, as in Go's filepath.Match, and `**` for any number of folders; `!` brings back
what an earlier line left out; the last line that fits decides. A pattern that fits a folder fits
all in it. Lines with # at the start are comments; only a line feed ends a line. COPY --exclude has
the same patterns. Source: docs.docker.com/build/concepts/context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from minirun.core.errors import ImageError

LIMIT = 1 << 20


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    brings_back: bool


class Ignore:
    """The rules of one .dockerignore."""

    def __init__(self, text: str = "") -> None:
        """Read the rules. Raises ImageError, which names the line."""
        if len(text) > LIMIT:
            raise ImageError(f".dockerignore: more than {LIMIT} bytes")
        self._rules = [
            _rule(line.strip(), number)
            for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1)
            if line.strip() and not line.startswith("#")
        ]

    @classmethod
    def of(cls, patterns: Iterable[str]) -> Ignore:
        """Return the rules of these patterns alone. Raises ImageError, which names the pattern."""
        found = cls()
        for pattern in patterns:
            try:
                found._rules.append(_rule(pattern, 0))
            except ImageError:
                raise ImageError(f"{pattern!r} is no pattern: syntax error in pattern") from None
        return found

    @property
    def has_rules(self) -> bool:
        """If not, all is to be seen."""
        return bool(self._rules)

    @property
    def may_bring_back(self) -> bool:
        """If not, nothing in a folder that is left out needs to be looked at."""
        return any(rule.brings_back for rule in self._rules)

    def __contains__(self, path: str) -> bool:
        """Return True if `path`, relative to the context, is left out."""
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        ignored = False
        for rule in self._rules:
            if ignored == rule.brings_back and any(rule.pattern.fullmatch(each) for each in above):
                ignored = not rule.brings_back
        return ignored


def _rule(line: str, number: int) -> _Rule:
    brings_back = line.startswith("!")
    pattern = _cleaned(line.removeprefix("!").strip())
    try:
        return _Rule(re.compile(as_regex(pattern)), brings_back)
    except (re.error, ValueError):
        raise ImageError(f".dockerignore: line {number}: {line!r} is no pattern") from None


def _cleaned(pattern: str) -> str:
    """Return a pattern relative to the context, without "." and what ".." takes back."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def as_regex(pattern: str) -> str:
    """Return a pattern of Go's filepath.Match, with `**`, as a regular expression.

    What stands between two stars is matched at its first place and nowhere else (an atomic group):
    no later place would leave more room for the rest. So the time does not grow with each star.
    Raises ValueError for a set of characters without its end.
    """
    pieces, names, at = [], [""], 0
    while at < len(pattern):
        if stars := _STARS.match(pattern, at):
            at = stars.end()
            if stars[0] == "*":
                names.append("[^/]*?")
                continue
            pieces.append(names[0] + _at_first_places(names[1:]))
            names = ["(?:[^/]*/)*?" if stars[0].endswith("/") else "(?s:.*?)"]
        else:
            text, at = _character(pattern, at)
            names[-1] += text
    return _at_first_places([*pieces, names[0] + _at_first_places(names[1:])])


_STARS = re.compile(r"(?:^|(?<=/))(?:\*\*/)+|\*+")
"""`**/` where a name begins, however often it is repeated; or any number of stars."""


def _at_first_places(parts: list[str]) -> str:
    return "".join(f"(?>{part})" for part in parts[:-1]) + "".join(parts[-1:])


def _character(pattern: str, at: int) -> tuple[str, int]:
    """Return what one character, or one set, of a pattern means, and where it ends."""
    letter = pattern[at]
    if letter == "?":
        return "[^/]", at + 1
    if letter == "[":
        end = pattern.index("]", at + 2)
        inside = re.sub(r"[\[&|~]|(?<=-)-", r"\\\g<0>", pattern[at + 1 : end])
        return f"(?!/)[{inside}]", end + 1
    if letter == "\\" and at + 1 < len(pattern):
        at += 1
    return re.escape(pattern[at]), at + 1
