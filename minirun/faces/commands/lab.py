"""`minirun lab …`: broken containers to be mended; faces.teach.lab says how they are made."""

from __future__ import annotations

import os

from minirun.cli import entry_of, verb
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import screen, table
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.faces.knowledge import language
from minirun.faces.show.log.event_row import wrap
from minirun.faces.teach.lab import checks, labs
from minirun.faces.teach.lab.folder import LabFolder
from minirun.faces.teach.lab.labs import SOLVED, LabTexts

COMMANDS = dict.fromkeys(("list", "start", "check", "hint", "reset", "solution"), __name__)
_WIDTH = 92


class LabCommand(Flags):
    """Labs: broken containers to be mended."""

    command, mixed = "lab", False


class LabNamed(Flags):
    """A lab by its name."""

    command = "lab check"


class LabStart(LabNamed):
    """Break something."""

    command = "lab start"
    predict: str
    graded: bool


class LabReset(LabNamed):
    """Forget a lab."""

    command = "lab reset"
    all: bool = flag("-a")


class LabSolution(LabNamed):
    """One way to mend it."""

    command = "lab solution"
    apply: bool


def main(args: list[str], settings: Settings) -> int:
    """Call the command of the table that `args` names."""
    name, rest = verb(LabCommand(args), COMMANDS)
    return entry_of(name, COMMANDS)(rest, settings)


def main_list(args: list[str], settings: Settings) -> int:
    """Print all labs."""
    LabCommand(args).none()
    tongue = language.choose(settings.lang)
    word = labs.words(tongue)["running"]
    rows = [
        (str(lab.number), lab.name, lab.lesson[:2],
         word if _folder(lab, settings).is_started else "-", lab.title)
        for lab in labs.labs(tongue)
    ]  # fmt: skip
    return write(table.text([("NO", "NAME", "LESSON", "STATE", "TITLE"), *rows]))


def main_start(args: list[str], settings: Settings) -> int:
    """Announce what is broken, ask for a prediction, break it, and show what happened."""
    flags = LabStart(args)
    lab, words = _of(flags, settings)
    numbers = [str(number) for number in range(1, len(lab.choices) + 1)]
    if flags.predict and flags.predict not in [*lab.choices, *numbers]:
        raise UsageError(f"--predict {flags.predict}: one of {', '.join(lab.choices)}", status=1)
    folder = _folder(lab, settings)
    folder.make(graded=flags.graded)
    show([f"{lab.number} · {lab.title}", "", *_wrapped(lab.says), ""])
    show([*_wrapped(f"{words['predict']} {lab.question}"), *_choices(lab)])
    believed = flags.predict or _ask(words["ask"].format(count=len(lab.choices)))
    if believed in numbers:
        believed = list(lab.choices)[int(believed) - 1]
    found = checks.run_check(folder)
    show(["", words["happened"], *_wrapped(_seen(lab, found, words), "  ")])
    if believed in lab.choices:
        word = words["right" if believed == found else "wrong"]
        show([word.format(choice=lab.choices[believed])])
    printed = folder.output().splitlines()
    if printed:
        show(["", words["printed"], *(f"  {line}" for line in printed[-8:])])
    where, command, more = (
        words[word].format(folder=folder.path, name=lab.name)
        for word in ("started", "commands", "more")
    )
    return show(["", *_wrapped(where), f"  {command}", *_wrapped(more)])


def main_check(args: list[str], settings: Settings) -> int:
    """Start it anew and say whether it is mended: 0, else 1."""
    lab, words = _of(LabNamed(args), settings)
    folder = _started(lab, settings)
    found = checks.run_check(folder)
    if found == SOLVED:
        return show([words["solved"], *_wrapped(lab.why)])
    show([words["not_yet"].format(finding=found), *_wrapped(_seen(lab, found, words), "  ")])
    printed = folder.output().splitlines()
    if printed:
        show([words["printed"], *(f"  {line}" for line in printed[-8:])])
    if folder.has_own_make():
        show(_wrapped(words["own_make"].format(name=lab.name)))
    return 1


def main_hint(args: list[str], settings: Settings) -> int:
    """Give a hint, by how it fails now."""
    lab, words = _of(LabNamed(args, "lab hint"), settings)
    found = checks.run_check(_started(lab, settings))
    if found == SOLVED:
        return show([words["solved"]])
    about = lab.findings.get(found)
    hint = about.hint if about else words["hangs_hint"]
    return show([words["hint"].format(finding=found), *_wrapped(hint, "  ")])


def main_reset(args: list[str], settings: Settings) -> int:
    """Remove all that a lab has made; without a word if it was not started."""
    flags = LabReset(args)
    _as_root()
    named = labs.labs() if flags.all else [labs.find(_name(flags))]
    for lab in named:
        folder = _folder(lab, settings)
        if folder.is_started:
            folder.remove()
            show([lab.name])
    return 0


def main_solution(args: list[str], settings: Settings) -> int:
    """Print one way to mend it; with --apply, do it."""
    flags = LabSolution(args)
    lab = labs.find(_name(flags))
    if _folder(lab, settings).is_graded:
        hint = f"minirun lab hint {lab.name}"
        raise UsageError(f"the lab {lab.name} is graded: its solution is not shown", hint, status=1)
    if not _folder(lab, settings).solution().exists():
        raise UsageError(f"this minirun has no solution of {lab.name}", "it was removed", status=1)
    if flags.apply:
        _as_root()
        _started(lab, settings).solve()
    return show(_folder(lab, settings).solution().read_text().splitlines())


def _of(flags: Flags, settings: Settings) -> tuple[LabTexts, dict[str, str]]:
    """Return the named lab and its texts, in the user's language. Raises UsageError unless root."""
    _as_root()
    tongue = language.choose(settings.lang)
    return labs.find(_name(flags), tongue), labs.words(tongue)


def _name(flags: Flags) -> str:
    if len(flags.args) != 1:
        flags.refuse()
    return flags.args[0]


def _as_root() -> None:
    if unprivileged():
        raise UsageError("labs break real mounts, cgroups and devices", "run as root", status=1)


def _folder(lab: LabTexts, settings: Settings) -> LabFolder:
    return LabFolder(lab.name, settings)


def _started(lab: LabTexts, settings: Settings) -> LabFolder:
    folder = _folder(lab, settings)
    if not folder.is_started:
        raise UsageError(f"the lab {lab.name} is not started", f"minirun lab start {lab.name}", 1)
    return folder


def _seen(lab: LabTexts, found: str, words: dict[str, str]) -> str:
    if found == SOLVED:
        return lab.choices[SOLVED]
    about = lab.findings.get(found)
    return f"{found}: {about.seen if about else words['hangs']}"


def _choices(lab: LabTexts) -> list[str]:
    return [f"  {number}  {text}" for number, text in enumerate(lab.choices.values(), 1)]


def _ask(question: str) -> str:
    """Ask, if a person sits there; return the answer, or nothing."""
    if not (os.isatty(0) and os.isatty(1)):
        return ""
    try:
        return input(f"{question} ").strip()
    except EOFError:
        return ""


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, min(_WIDTH, screen.width(1)), indent)
