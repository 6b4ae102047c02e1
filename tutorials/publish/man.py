"""Makes man pages of the tables that --help prints, below build/man: `make man`.

minirun.1 is about the program and the flags before the command, minirun-COMMAND.1 about a command
and the commands below it. Requests and escapes are those of groff_man(7) and groff(7).
"""

import contextlib
import io
import sys
from pathlib import Path

from minirun import __version__, cli
from minirun.cli import help
from minirun.cli.flags import Flags, HelpAsked
from minirun.cli.run.run_flags import CreateFlags
from minirun.core.keeping.settings import Settings
from tutorials.publish.reference.commands import BELOW, help_of

FOLDER = Path(__file__).parents[2] / "build" / "man" / "man1"
_SIGNS = {
    "\\": "\\e", "-": "\\-", "…": "...", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti",
}  # fmt: skip


def escaped(text: str) -> str:
    """Return a text as roff takes it; a line that begins with a dot is no request."""
    shown = "".join(
        _SIGNS.get(sign, sign if sign.isascii() else f"\\[u{ord(sign):04X}]") for sign in text
    )
    return "\n".join(f"\\&{line}" if line[:1] == "." else line for line in shown.split("\n"))


def flags_of(words: list[str]) -> tuple[type[Flags], str] | None:
    """Return the class of flags of a command, and its name; None if it has a parser of its own."""
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept):
        try:
            cli.dispatch(words[0], [*words[1:], "--help"], Settings())
        except HelpAsked as asked:
            return type(asked.flags), asked.flags.command
    return None


def _of(words: list[str]) -> list[str]:
    """Return the description of a command: of one with a parser of its own, its help as it is."""
    if found := flags_of(words):
        return _described(*found)
    return [".PP", ".nf", escaped(help_of(words).rstrip()), ".fi"]


def _described(flags: type[Flags], command: str) -> list[str]:
    """Return the usage, the text and the flags of one command: what --help prints."""
    usage, text = help.head(flags, command)
    lines = [
        ".PP",
        f".B {escaped(usage.removeprefix('Usage: '))}",
        ".PP",
        ".nf",
        escaped(text),
        ".fi",
    ]
    for key, one in flags.known().items():
        left, right = help.row(flags, key, one)
        lines += [".TP", f".B {escaped(left)}", escaped(right)]
    return lines


def _page(title: str, name: str, what: str, body: list[str], also: list[str]) -> str:
    shown = ", ".join(f"\n.BR {escaped(each)} (1)" for each in also).replace(", \n", " ,\n")
    lines = [
        f'.TH "{title.upper()}" 1 "" "minirun {__version__}" "minirun"',
        ".SH NAME", f"{escaped(name)} \\- {escaped(what)}", ".SH DESCRIPTION", *body,
        ".SH SEE ALSO", shown.strip(),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return file name → man page."""
    commands: dict[str, str] = help.COMMANDS
    body = _described(cli.GlobalFlags, "")
    body.append(".SH COMMANDS")
    for name, what in commands.items():
        body += [".TP", f".BR minirun\\-{escaped(name)} (1)", escaped(what)]
    what = "a container runtime that shows its seven stages"
    found = {"minirun.1": _page("minirun", "minirun", what, body, ["minirun-run", "minirun-help"])}
    for name, what in commands.items():
        body = _of([name])
        if name == "create":
            body += [".SS minirun create IMAGE", *_described(CreateFlags, "create")]
        for below in BELOW.get(name, ()):
            body += [f".SS minirun {escaped(f'{name} {below}')}"]
            body += _of([name, *below.split()])
        page = f"minirun-{name}"
        found[f"{page}.1"] = _page(page, page, what, body, ["minirun"])
    return found


def main(folder: Path = FOLDER) -> None:
    """Write the pages into a folder, which is emptied before."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("minirun*.1"):
        old.unlink()
    for name, text in pages().items():
        (folder / name).write_text(text)
    print(f"man -M {folder.parent} minirun", file=sys.stdout)


if __name__ == "__main__":
    main()
