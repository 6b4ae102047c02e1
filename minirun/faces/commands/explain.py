"""`minirun explain`: what an error, an event or a stage means, why, and what to try.

`explain WORD…`: WORD is an error number (ENOENT, 2), an event of the log (mount, "prctl
PR_SET_PDEATHSIG", HOOKS_DONE, "ldconfig ended"), a stage (5, s5, "stage 5", its module, its actor),
a call and an error number together (mount EPERM), words of a hint that an error has printed, or a
text about a container that does not start, from runc, crun or an engine ("exec format error"), or
about GPUs that do not work ("Failed to initialize NVML: Unknown Error"); or a system call, for how
the default profile of `run` answers it (io_uring_setup, "seccomp files").

After a pipe it explains what another program has written; with --journal, why a container failed.
A whole phrase is explained, not its words. If only the words around a cause are known, as "OCI
runtime create failed", the first line says so, and the status is 1.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import time
from dataclasses import asdict

from minirun.cli.flags import Flags
from minirun.cli.output import write
from minirun.common import screen, table
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping.settings import Settings
from minirun.engines import journal
from minirun.faces import knowledge
from minirun.faces.knowledge import AROUND, ENGLISH, HINT, Topic, language
from minirun.faces.show.log import event_row, recorded
from minirun.faces.show.text import explained

_WIDEST = 100
_MOST_BYTES = 1 << 20
_LONGEST_WORD = 80
"""Characters of a word that is named in an error; what is longer is a text."""


class Explain(Flags):
    """Explain an error, an event of the log, or a stage; without WORD list them all."""

    command = "explain"
    hints: bool
    journal: bool
    json: bool
    lang: str


def main(args: list[str], settings: Settings) -> int:
    """Explain a word or a text, or list all that can be explained. Raises MinirunError, OSError."""
    flags = Explain(args)
    tongue = language.choose(flags.lang or settings.lang)
    words = " ".join(flags.args).strip()
    if flags.journal:
        if words:
            raise UsageError("--journal takes no WORD", status=1)
        return _show(_of_last_failure(settings, tongue), flags, tongue)
    if words == "-" or (not flags.args and not flags.hints and _is_piped()):
        words = sys.stdin.buffer.read(_MOST_BYTES).decode(errors="replace").strip()
    if not words and not flags.hints:
        return _show(knowledge.topics(tongue), flags, tongue, pages=False)
    found, first = [], ""
    if not flags.hints:
        found = knowledge.lookup(words, tongue)
    if not found:
        found, first = _speaking_of(words, flags, tongue)
    if not found and len(words) > _LONGEST_WORD:
        raise UsageError("nothing is known of this text", "give the line with the error", status=1)
    if not found:
        names = knowledge.near(words)
        hint = f"did you mean {' or '.join(names)}?" if names else "minirun explain lists all"
        raise UsageError(f"nothing is known of {words!r}", hint, status=1)
    return _show(found, flags, tongue, first)


def _speaking_of(words: str, flags: Explain, tongue: str) -> tuple[list[Topic], str]:
    """Return the topics, or with --hints the hints, that speak of words; and a line to say so."""
    found = knowledge.search(words, tongue)
    if flags.hints:
        return [one for one in found if one.kind == HINT], ""
    return found[: knowledge.MOST_FOUND], knowledge.words(tongue)["first"]["search"]


def _show(
    found: list[Topic], flags: Explain, tongue: str, first: str = "", *, pages: bool = True
) -> int:
    """Print topics, below a first line if there is one; return 1 if no cause is among them."""
    only_around = bool(found) and all(one.kind == AROUND for one in found)
    status = int(only_around)
    if flags.json:
        return write(json.dumps([asdict(one) for one in found], indent=2) + "\n") or status
    if only_around:
        first = knowledge.words(tongue)["first"]["around"]
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    if pages:
        lines = [line for one in found for line in explained.page(one, width, tongue)]
    else:
        lines = explained.listing(found, width, tongue)
    if first:
        lines = [*event_row.wrap(first, width, ""), "", *lines]
    unicode = screen.speaks_unicode() or tongue != ENGLISH
    return write(table.page(lines, unicode=unicode)) or status


def _is_piped() -> bool:
    """Return True if another program, or a file, gives the text that is to be explained."""
    kind = os.fstat(0).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)


def _of_last_failure(settings: Settings, tongue: str) -> list[Topic]:
    """Say on standard error which container failed last, and return what is known of why.

    By minirun's own logs or by the journal, whichever is newer. Raises StateError.
    """
    entry, own = journal.last_failure(), recorded.last_failure(settings)
    if own and (not entry or own.when >= entry.when):
        _say(own.when, f"container {own.name}, stage {own.stage}", own.error)
        return knowledge.error_text(own.error, tongue) or [knowledge.stage(own.stage, tongue)]
    if entry:
        _say(entry.when, entry.program, entry.text)
        if found := knowledge.error_text(entry.text, tongue):
            return found
        raise StateError("nothing is known of this text", "minirun explain lists all", status=1)
    hint = "neither minirun's logs nor the journal have one"
    raise StateError("no container is known that failed to start", hint, status=1)


def _say(when: float, who: str, said: str) -> None:
    shown = time.strftime("%m-%d %H:%M:%S", time.localtime(when))
    write(event_row.clean(f"{shown} {who}: {said}", screen.speaks_unicode()) + "\n\n", 2)
