"""What the store has of one kind, networks or volumes: `ls` and `rm` of it, as docker has them.

A record for each kind says what differs. `inspect` of all kinds: minirun.docker.inspecting, `prune`
of all: minirun.docker.prune. Containers have `ps` and `rm`, images the workshop's commands: what
docker lists of these, and how it removes one, is not of this form.
"""

from __future__ import annotations

from minirun.cli import words
from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.output import show, write
from minirun.cli.several import each
from minirun.common import table
from minirun.core.errors import MinirunError
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy

with lazy:
    from minirun.faces.show.template import formats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from minirun.faces.show.template.values import Fields

    Wanted = dict[str, list[str]]
    """--filter: name → values."""


class Kind(Record):
    """One kind. `Any` is a thing of it: a Network, a Volume; each has a `name`."""

    names: Callable[[str], list[str]]
    """A store → the names of those that are there."""
    load: Callable[[str, str], Any]
    """A store and a name → the thing. Raises MinirunError."""
    labels: Callable[[Any], dict[str, str]]
    in_use: Callable[[Any, Settings], bool]
    """True if a container has it."""
    filters: tuple[str, ...]
    """What --filter of `ls` knows."""
    fits: Callable[[Any, Wanted], bool]
    """Whether it is let through by those that are not common to all kinds."""
    headings: dict[str, str]
    """Fields of --format → what stands above each as a column."""
    fields: Callable[[Any, Settings], Fields]
    """What a template sees of it."""
    heads: tuple[str, ...]
    """What stands above the columns of the table."""
    row: Callable[[Any, Settings], tuple[str, ...]]
    """Its row in the table."""
    id: Callable[[Any], str]
    """Its id, as a list shows it."""
    named: Callable[[str, str], str]
    """A store, and a name or an id → the name."""
    remove: Callable[[Settings, str], None]
    """Remove the one with a name. Raises MinirunError, of status 1, if a container has it, or if
    there is none."""

    def all(self, store: str) -> list[Any]:
        """Return all that can be read; a line says which cannot."""
        found = []
        for name in self.names(store):
            try:
                found.append(self.load(store, name))
            except MinirunError as error:
                say(error.line())
        return found


class Listed(Flags):
    """Flags of `ls`."""

    quiet: bool = flag("-q")
    filter: list[str] = flag("-f")
    format: str = flag(default="table")


class Removed(Flags):
    """Flags of `rm`."""

    force: bool = flag("-f")


def ls(kind: Kind, flags: Listed, settings: Settings) -> int:
    """Print a table, or what --format asks for. Raises UsageError, TemplateError, OSError."""
    flags.none()
    wanted = words.filters(flags.filter, kind.filters)
    dangling = words.dangling(wanted)
    found = [
        one for one in kind.all(settings.store)
        if _fits(kind, one, wanted)
        and (not dangling or dangling == {not kind.in_use(one, settings)})
    ]  # fmt: skip
    if flags.quiet:
        return show(kind.id(each) for each in found)
    if flags.format == "table":
        return write(table.text([kind.heads, *(kind.row(each, settings) for each in found)], 3))
    rows: Sequence[Fields] = [kind.fields(each, settings) for each in found]
    return write(formats.lines(flags.format, rows, kind.headings))


def _fits(kind: Kind, one: Any, wanted: Wanted) -> bool:
    """Return True if all filters of `ls` let it through, but dangling, which asks who has it."""
    return (
        any(part in one.name for part in wanted.get("name", [""]))
        and words.has_labels(kind.labels(one), wanted.get("label", ()))
        and kind.fits(one, wanted)
    )


def rm(kind: Kind, flags: Removed, settings: Settings) -> int:
    """Remove those that are named, and print their names; one that fails stops none of the others.

    With --force one that is not there is no failure. Raises OSError.
    """
    flags.takes(1, ANY)

    def remove(name: str) -> None:
        if not flags.force or kind.named(settings.store, name) in kind.names(settings.store):
            kind.remove(settings, name)

    return each(flags.args, remove)
