"""`minirun help [COMMAND]`, and what --help prints: the texts are in help.toml.

A section of it belongs to one class of flags, or to a command that has none. What several classes
say of a flag of one name stands with their base, down to [Flags] for all. Commands stand in groups,
and so do flags, of a class that has many: `run --help GPU` prints one group.
"""

import os
import re
import textwrap
import tomllib
from typing import Any

from minirun import cli
from minirun.cli.flags import Flag, Flags, HelpAsked
from minirun.cli.output import write
from minirun.common import table
from minirun.core.keeping.settings import Settings

with open(os.path.join(os.path.dirname(__file__), "help.toml"), "rb") as file:
    TEXTS: dict[str, Any] = tomllib.load(file)


COMMANDS: dict[str, str] = {
    name: said for group in TEXTS["commands"].values() for name, said in group.items()
}
"""Each command, and what it does, in the order of the overview."""
_CALLING = frozenset(("run", "exec", "spec", "ps", "observe", "nvidia-container-runtime"))
"""Commands whose flags end at the first argument: --help behind it is another program's."""


class Help(Flags):
    """Print the overview, or the help of a command."""

    command, mixed = "help", False


def main(args: list[str], settings: Settings) -> int:
    """Print what --help among the same words prints."""
    words = Help(args).args
    called = 1 if words and words[0] in _CALLING else len(words)
    return cli.main([*words[:called], "--help", *words[called:]])


def answer(asked: HelpAsked) -> int:
    """Print the help that was asked for; return the exit status."""
    group = "" if asked.status else "".join(asked.flags.args[:1])
    text = usage(type(asked.flags), asked.flags.command, group)
    columns = os.get_terminal_size(asked.fd).columns if os.isatty(asked.fd) else 0
    folded = "\n".join(_folded(line, columns) for line in text.splitlines()) if columns else text
    return write(table.page(folded.splitlines(), fd=asked.fd), asked.fd) or asked.status


def _folded(line: str, columns: int) -> str:
    """Fold a line that is wider than the terminal; in a table, below its right column."""
    row = re.match(r"  \S.*?\S  +", line)
    indent = row.end() if row and row.end() < columns - 20 else 0
    return textwrap.fill(
        line, columns, subsequent_indent=" " * indent,
        replace_whitespace=False, drop_whitespace=True, break_on_hyphens=False,
    )  # fmt: skip


def usage(flags: type[Flags], command: str, group: str = "") -> str:
    """Return the help text of one command, or of the whole program; or one group of its flags."""
    line, text = head(flags, command)
    known = flags.known()
    tables = {
        title: dict(row(flags, key, known[key]) for key in keys.split() if key in known)
        for title, keys in groups(flags).items()
    }
    blocks = [
        _table(f"Flags, {title}:" if title else "Flags:", rows)
        for title, rows in tables.items()
        if rows and (title.lower() == group.lower() or group.lower() not in map(str.lower, tables))
    ]
    if len(blocks) == 1 < len(tables):
        return "\n\n".join([line, *blocks]) + "\n"
    if flags is cli.GlobalFlags:
        blocks[:0] = [_table(f"{title}:", rows) for title, rows in TEXTS["commands"].items()]
    if len(tables) > 1:
        shown = ", ".join(title for title, rows in tables.items() if rows)
        blocks.insert(0, f"minirun {command} --help GROUP shows one group of flags: {shown}")
    return "\n\n".join([line, text, *blocks]) + "\n"


def head(flags: type[Flags], command: str) -> tuple[str, str]:
    """Return the line that begins with Usage, and the text below it."""
    names = [command] if flags is Flags else [base.__name__ for base in flags.__mro__]
    texts = next(TEXTS[name] for name in names if "text" in TEXTS.get(name, ()))
    words = ["Usage: minirun", command, "[flags]", texts.get("arguments", "")]
    return " ".join(filter(None, words)), texts["text"].rstrip()


def groups(flags: type[Flags]) -> dict[str, str]:
    """Return the flags of a class in groups: title → keys, with a space between; one may be ""."""
    found = (TEXTS.get(base.__name__, {}).get("groups") for base in flags.__mro__)
    return next(filter(None, found), {"": " ".join(flags.known())})


def _table(title: str, rows: dict[str, str]) -> str:
    width = max(map(len, rows)) + 2
    return "\n".join([title, *(f"  {left:<{width}}{right}" for left, right in rows.items())])


def row(flags: type[Flags], key: str, one: Flag) -> tuple[str, str]:
    """Return a flag as the command line has it, and what it does."""
    if one.text:
        return f"{', '.join(sorted(one.names, key=len))} {one.value}".strip(), one.text
    said = next(
        texts[key]
        for base in flags.__mro__
        if key in (texts := TEXTS.get(base.__name__, {}).get("flags", {}))
    )
    names = ", ".join(sorted(one.names, key=len))
    if one.kind == "bool":
        return names, said
    value, text = said
    return (f"{names}[={value}]" if one.optional else f"{names} {value}"), text
