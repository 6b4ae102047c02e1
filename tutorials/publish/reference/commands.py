"""Writes tutorials/reference/commands.md from the parser of the command line: `make reference`."""

import os
import sys
import tempfile
from pathlib import Path

from minirun import cli
from minirun.cli import help

PAGE = Path(__file__).parents[2] / "reference" / "commands.md"
BELOW = {
    "gpu": ("list", "ps", "why", "diff", "timeslice", "mps"),
    "nvidia-container-cli": ("info", "list", "configure"),
    "nvidia-ctk": (
        "runtime configure", "cdi generate", "cdi list", "cdi transform root",
        "config", "config default", "system create-dev-char-symlinks",
        "system create-device-nodes",
    ),
    "teach": ("oracle",), "image": ("unpack", "inspect", "diff", "gc"), "system": ("df",),
    "lab": ("start", "check", "hint", "reset", "solution"),
}  # fmt: skip
"""Commands with commands of their own."""
HEAD = """\
# All commands and flags

<!-- written from the parser: change minirun/cli, then `make reference` -->

`minirun --help` prints the same, and `minirun COMMAND --help`. Flags before the command hold for
all; `run` ends at the first argument, as docker's does, and so do `exec`, `ps` and `spec`.

| command | what it does |
|---|---|
"""


def help_of(words: list[str]) -> str:
    """Return what `minirun WORDS --help` prints."""
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            assert cli.main([*words, "--help"]) == 0
            sys.stdout.flush()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode()


def text() -> str:
    """Return the page."""
    rows = [f"| [`{name}`](#{name}) | {what} |" for name, what in help.COMMANDS.items()]
    flags = help_of([]).partition("\nFlags:\n")[2].rstrip()
    parts = [HEAD + "\n".join(rows), f"## Flags before the command\n\n```text\n{flags}\n```"]
    for name in help.COMMANDS:
        pages = [help_of([name, *words.split()]) for words in ("", *BELOW.get(name, ()))]
        blocks = [f"```text\n{page.rstrip()}\n```" for page in pages]
        parts.append("\n\n".join([f"## {name}", *blocks]))
    return "\n\n".join(parts) + "\n"
