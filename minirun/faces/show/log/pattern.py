"""Which event is meant by words such as `mknodat /dev/nvidia*`.

mknodat                  an event by name; letters' case does not matter
mount*                   a pattern as in fnmatch(3)
mknodat /dev/nvidia*     an event by name and by one of its arguments
gpus chosen              a name that has a blank
/dev/nvidia0             any event with this argument (the first word has a slash)
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any

from minirun.core.errors import UsageError

ANY = "*"
"""The pattern of `--step=syscall`: each event."""
LONGEST = 4000
"""Bytes of a pattern; the page of memory that it is passed in has 4096."""


class Pattern:
    """Which events are meant. Raises UsageError if the text means none."""

    def __init__(self, text: str) -> None:
        name, _, argument = text.strip().partition(" ")
        if "/" in name:
            name, argument = ANY, text.strip()
        if not name or len(text.encode()) > LONGEST:
            hint = "a name or a pattern: mknodat, mount*, mknodat /dev/nvidia*, /dev/nvidia0"
            raise UsageError(f"no event can be called {text[:40]!r}", hint)
        self.text = text.strip()
        self.name = re.compile(fnmatch.translate(name.lower()))
        self.whole = re.compile(fnmatch.translate(self.text.lower()))
        """A name may have blanks: gpus chosen."""
        self.argument = re.compile(fnmatch.translate(argument.strip().lower()))
        self.needs_argument = bool(argument.strip())

    def names(self, name: str) -> bool:
        """Return True if an event with this name may be meant."""
        low = name.lower()
        return bool(self.name.match(low) or self.whole.match(low))

    def matches(self, name: str, args: dict[str, Any]) -> bool:
        """Return True if an event with this name and these arguments is meant."""
        low = name.lower()
        if not self.needs_argument or not self.name.match(low):
            return self.whole.match(low) is not None
        return any(self.argument.match(_spoken(value)) for value in args.values())


def _spoken(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(str(each) for each in value).lower()
    return str(value).lower()
