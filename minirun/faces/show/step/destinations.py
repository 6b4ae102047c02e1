"""Where a run can be sent on to: a boundary of a stage, or an event that there is.

An unknown name is refused at once. A run that waited for it would pass all its stages.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from minirun.core.errors import UsageError
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces import knowledge
from minirun.faces.show.log.pattern import Pattern


def boundary(words: str) -> str:
    """Return the boundary that is meant: "5:begin", or "5" for it; "" if an event is."""
    return next((name for name in (words, f"{words}:begin") if name in BOUNDARIES), "")


def check(words: str, others: Iterable[str] = ()) -> None:
    """Raise UsageError if no event can be meant. `others`: names besides those of the log.

    A recording of another runtime has such names.
    """
    names = {*knowledge.event_names(), *others}
    pattern = Pattern(words)
    if boundary(words) or any(map(pattern.names, names)):
        return
    asked = pattern.text.partition(" ")[0]
    near = _near(asked.lower(), {name.lower(): name for name in names})
    hint = f"did you mean {near}?" if near else "minirun explain lists all"
    raise UsageError(f"no event is called {asked!r}", hint)


def _near(asked: str, names: dict[str, str]) -> str:
    """Return the name that is most like what was asked for; "" if none is. All in lower case."""
    if asked in knowledge.ALIASES:
        return knowledge.ALIASES[asked]
    longer = [name for name in names if name.startswith(f"{asked} ")]
    near = longer or get_close_matches(asked, names, n=1, cutoff=0.5)
    return names[near[0]] if near else ""
