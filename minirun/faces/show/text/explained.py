"""Topics of minirun.faces.knowledge as text, for `minirun explain`."""

from minirun.common import screen
from minirun.faces import knowledge
from minirun.faces.knowledge import ENGLISH, HINT, Topic
from minirun.faces.knowledge.texts import ERRNO
from minirun.faces.show.log import event_row

_INDENT = 14
_NAME = 31


def page(one: Topic, width: int, language: str = ENGLISH) -> list[str]:
    """Return all that is known of a topic, as lines of at most `width` columns."""
    if one.kind == HINT:  # its title and its advice say nothing more
        return [
            *event_row.wrap(one.name, width, "", "  "),
            *event_row.wrap(one.cause, width, "  "),
            "",
        ]
    lines = event_row.wrap(f"{one.name}: {one.title}", width, "", "  ")
    for field, label in knowledge.words(language)["parts"].items():
        if part := getattr(one, field):
            first = screen.padded(f"  {label}", _INDENT)
            lines += event_row.wrap(part, width, first, " " * _INDENT)
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
                line = f"  {one.name + number:<{_NAME - 1}}  {one.title}"
                lines.append(event_row.cut(line, width, "..."))
        lines.append("")
    return [*lines, words["hint"]["more"].format(count=len(knowledge.hints()))]
