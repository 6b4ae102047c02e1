"""`minirun help [COMMAND]`, and what --help prints: the texts are in help.toml.

A section of it belongs to one class of flags, or to a command that has none. What several classes
say of a flag of one name stands with their base, down to [Flags] for all.
"""

import os
import re
import textwrap
import tomllib
from typing import Any

from minirun import cli
from minirun.cli.flags import Flag, Flags, HelpAsked
from minirun.cli.output import write
from minirun.core.keeping.settings import Settings
from minirun.show.text import table

with open(os.path.join(os.path.dirname(__file__), "help.toml"), "rb") as file:
    TEXTS: dict[str, Any] = tomllib.load(file)


_CALLING = frozenset(("run", "exec", "spec", "ps", "observe", "nvidia-container-runtime"))
"""Commands whose flags end at the first argument: --help behind it is another program's."""


class Help(Flags):
    """Print the overview, or the help of a command."""

    command, mixed = "help", False


def main(args: list[str], settings: Settings) -> int:
    """Print what --help behind the same words prints."""
    words = Help(args).args
    return cli.main([*(words[:1] if words[:1] and words[0] in _CALLING else words), "--help"])


def answer(asked: HelpAsked) -> int:
    """Print the help that was asked for; return the exit status."""
    text = usage(type(asked.flags), asked.flags.command)
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


def usage(flags: type[Flags], command: str) -> str:
    """Return the help text of one command, or of the whole program."""
    names = [command] if flags is Flags else [base.__name__ for base in flags.__mro__]
    texts = next(TEXTS[name] for name in names if "text" in TEXTS.get(name, ()))
    words = ["Usage: minirun", command, "[flags]", texts.get("arguments", "")]
    blocks = [" ".join(filter(None, words)), texts["text"].rstrip()]
    if flags is cli.GlobalFlags:
        blocks.append(_table("Commands:", TEXTS["commands"]))
    known = flags.known().items()
    blocks.append(_table("Flags:", dict(row(flags, key, one) for key, one in known)))
    return "\n\n".join(blocks) + "\n"


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
