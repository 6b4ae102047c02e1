"""`minirun level …`: the ladder of programs that the learner writes; minirun.faces.teach.levels."""

from __future__ import annotations

import difflib
import itertools
import os
import shlex
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from minirun.cli import entry_of, verb
from minirun.cli.flags import Flags
from minirun.cli.output import show, write
from minirun.common import rich_console, screen, table
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.lazy import lazy
from minirun.faces.knowledge import language
from minirun.faces.show.log.event_row import wrap
from minirun.faces.teach.levels import attacks, checks, held, material, programs, sandbox
from minirun.faces.teach.levels.held import LastCheck
from minirun.faces.teach.levels.programs import Level
from minirun.faces.teach.levels.sandbox import CheckAnswer, Job

with lazy:
    from rich import syntax  # pygments: only a diff needs it

COMMANDS = dict.fromkeys(
    ("list", "start", "check", "attack", "solution", "diff", "image", "driver"), __name__
)
_WIDTH = 92
_CHECK_SECONDS, _LOOK_SECONDS = 900.0, 0.3
_FIRST_STAGES, _FIRST_GPUS, _ENGINES = 3, 5, 9
"""The levels from which a program has the handshake that observe draws, GPUs, an engine's words."""


class LevelCommand(Flags):
    """The ladder: programs that the learner writes."""

    command, mixed = "level", False


class LevelStart(Flags):
    """Write a level's skeleton, or go on with a program of one's own."""

    command = "level start"
    from_: str
    in_: str


class LevelCheck(Flags):
    """Check a program."""

    command = "level check"
    first: bool
    watch: bool


class LevelAttack(Flags):
    """Try to get out."""

    command, mixed = "level attack", False


class LevelSolution(Flags):
    """Print a level's whole program."""

    command = "level solution"


class LevelDiff(Flags):
    """Show the step from one level to another."""

    command = "level diff"


class LevelImage(Flags):
    """Print an image's layers."""

    command = "level image"


def main(args: list[str], settings: Settings) -> int:
    """Call the command of the table that `args` names."""
    name, rest = verb(LevelCommand(args), COMMANDS)
    return entry_of(name, COMMANDS)(rest, settings)


def main_list(args: list[str], settings: Settings) -> int:
    """Print all levels, and what of the learner's own programs held when they were checked last."""
    LevelCommand(args).none()
    own = held.look(settings.root)
    rows = [("LEVEL", "PROGRAM", "GAPS", "HELD", "TITLE")]
    for level in programs.levels(language.choose(settings.lang)):
        last = own.get(level.name)
        shown = f"{last.held} of {last.asked}" if last else "-"
        rows.append((str(level.number), level.file, str(len(level.gaps)), shown, level.title))
    return write(table.text(rows))


def main_start(args: list[str], settings: Settings) -> int:
    """Write a level's skeleton into a directory, with the library beside it.

    With --from it is a copy of the learner's own program, and with --in the beginning of one, in
    which the level's sentences stand.
    """
    flags = LevelStart(args)
    flags.check("in_", "", *programs.STARTERS)
    if not 1 <= len(flags.args) <= 2:
        flags.refuse()
    level, words = _level(flags.args[0], settings)
    if flags.in_ and (flags.from_ or level.number):
        raise UsageError("--in is for level 0", "go on from there with --from FILE", status=1)
    directory = Path(flags.args[1] if len(flags.args) > 1 else ".")
    own = Path(flags.from_) if flags.from_ else None
    if flags.in_:
        own = programs.folder() / programs.STARTERS[flags.in_]
    try:
        path = programs.begin(level, directory, own) if own else programs.start(level, directory)
    except FileExistsError as error:
        raise UsageError(f"{error.filename} {words['exists']}", status=1) from None
    values = {"number": level.number, "title": level.title, "idea": level.idea, "path": path,
              "count": len(level.gaps)}  # fmt: skip
    is_copy = own or level.is_open
    lines = [words[key].format(**values) for key in ("started", "own" if is_copy else "file")]
    after = words["next"] if path.suffix == ".py" else words["next_built"]
    return show([*_wrapped(lines[0]), *_wrapped(lines[1]), after.format(**values)])


def main_check(args: list[str], settings: Settings) -> int:
    """Start a learner's program and ask the kernel: 0 if all holds, else 1.

    With --watch again and again, when the program has changed, until ^C.
    """
    end = args.index("--") if "--" in args else len(args)
    flags = LevelCheck(args[:end])
    flags.args += args[end:]
    if len(flags.args) < 2:
        flags.refuse()
    level, command = _program(flags, settings)
    while flags.watch:
        seen = _changed(command)
        _check(level, command, settings, first=flags.first)
        while _changed(command) in ("", seen):
            time.sleep(_LOOK_SECONDS)
        show([""])
    return _check(level, command, settings, first=flags.first)


def main_attack(args: list[str], settings: Settings) -> int:
    """Let small programs try to leave the container of a learner's program, for decoys beside it.

    0 if those get out that the level does not hold yet, and no others, else 1.
    """
    flags = LevelAttack(args)
    if len(flags.args) < 2:
        flags.refuse()
    level, command = _program(flags, settings)
    texts = programs.attacks(language.choose(settings.lang))
    answer = _answer(level, command, settings, attack=True)
    if answer.results[0][0] not in ("", attacks.OUT):
        return _check(level, command, settings, first=True)  # it says why nothing runs
    status = int(bool(answer.harmed))
    for attack, (key, detail) in zip(attacks.attacks(level.number), answer.results, strict=True):
        is_expected = key == attacks.OUT and level.number < attack.since
        status |= bool(key) and not is_expected
        mark, name = "✓✗"[bool(key)], attack.check.__name__
        show([f"{mark} {attack.since}  {texts[name]}"])
        if key == attacks.OUT:
            word = "attack_expected" if is_expected else "attack_out"
            said = programs.words(language.choose(settings.lang))[word]
            show(_wrapped(said.format(detail=detail, level=attack.since), "     "))
            show([f"     {attacks.SCRIPTS[name]}"])
        elif key:
            finding = programs.findings(language.choose(settings.lang))[key]
            show(_wrapped(finding.seen.format(detail=detail), "     "))
    return status


def _program(flags: Flags, settings: Settings) -> tuple[Level, list[str]]:
    """Return the level and the program that are named. Raises UsageError, unless root too."""
    level, _ = _level(flags.args[0], settings)
    command = _command(flags.args[1:])
    if unprivileged():
        raise UsageError(f"{flags.command} needs root: it makes namespaces and cgroups", "sudo", 1)
    return level, command


def _changed(command: list[str]) -> str:
    """Return when the program of a command line was changed; "" while an editor replaces it."""
    with suppress(OSError):
        return str(max(os.stat(word).st_mtime_ns for word in command if os.path.isfile(word)))
    return ""


def _check(level: Level, command: list[str], settings: Settings, *, first: bool) -> int:
    """Check a program once, and print what was found."""
    words = programs.words(language.choose(settings.lang))
    answer = _answer(level, command, settings, first=first)
    count = len(checks.promises(level.number))
    holding = [key for key, _ in answer.results].count("")
    held.remember(settings.root, level.name, LastCheck(holding, count, shlex.join(command)))
    found = [row for row in answer.results if row[0] not in ("", checks.WITHHELD)][:1]
    show(_list(answer, level, settings))
    if answer.changed:  # whatever else holds: on the host it would have been the host's
        found = [["host-changed", answer.changed]]
    if answer.harmed:
        text = words["harmed"].format(harm="; ".join(answer.harmed))
        print(f"minirun: {text}", file=sys.stderr)
    if answer.refused:
        show(_wrapped(words["refused"].format(types=", ".join(answer.refused)), ""))
    if not found:
        after = words["up" if level.number < checks.TOP else "top"]
        lines = [words["solved"].format(number=level.number, count=count)]
        lines += [words["observe"].format(line=line) for line in _observed(level, command)]
        return show([*lines, after.format(number=level.number + 1)]) or bool(answer.harmed)
    ((key, detail),) = found
    texts = programs.findings(language.choose(settings.lang))[key]
    show([words["not_yet"].format(finding=key, held=holding, count=count),
          *_wrapped(texts.seen.format(detail=detail), "  ")])  # fmt: skip
    if key == "not-written" and detail in level.gaps:
        show([words["gap"], *_wrapped(level.gaps[detail], "  ")])
    else:
        tongue = language.choose(settings.lang)
        show([words["hint"], *_wrapped(programs.hint(key, detail, tongue), "  ")])
    return 1


def main_solution(args: list[str], settings: Settings) -> int:
    """Print a level's whole program."""
    flags = LevelSolution(args)
    if len(flags.args) != 1:
        flags.refuse()
    level, _ = _level(flags.args[0], settings)
    return write(level.text)


def main_diff(args: list[str], settings: Settings) -> int:
    """Show what one level adds to another."""
    flags = LevelDiff(args)
    if len(flags.args) != 2:
        flags.refuse()
    (old, words), (new, _) = (_level(text, settings) for text in flags.args)
    lines = difflib.unified_diff(
        old.text.splitlines(), new.text.splitlines(), old.file, new.file,
        lineterm="",
    )  # fmt: skip
    text = "\n".join(lines) or words["same"]
    if not screen.has_colours(1):
        return show(text.splitlines())
    console = rich_console.console(1, styled=True)
    console.print(syntax.Syntax(text, "diff", theme="ansi_dark", background_color="default"))
    return 0


def main_image(args: list[str], settings: Settings) -> int:
    """Print an image's layers as overlay's lowerdir has them."""
    flags = LevelImage(args)
    if len(flags.args) > 1:
        flags.refuse()
    name = flags.args[0] if flags.args else material.IMAGE
    return write(material.lowerdir(material.image(name, settings)) + "\n")


def main_driver(args: list[str], settings: Settings) -> int:
    """Print the root directory of a simulated driver."""
    LevelCommand(args).none()
    return write(f"{material.driver(settings)}\n")


def _level(text: str, settings: Settings) -> tuple[Level, dict[str, str]]:
    """Return the level that is named, and the words around it, in the user's language."""
    tongue = language.choose(settings.lang)
    return programs.find(text, tongue), programs.words(tongue)


def _command(words: list[str]) -> list[str]:
    """Return the command line of a program: FILE alone, of Python if it ends so, or -- COMMAND …"""
    if words[0] == "--" and len(words) > 1:
        program = shutil.which(words[1])
        if not program:
            raise UsageError(f"{words[1]}: no such program", status=1)
        return [os.path.abspath(program), *words[2:]]
    if len(words) > 1 or not os.path.isfile(words[0]):
        raise UsageError(f"{words[-1]}: no such file", "FILE, or -- COMMAND …", 1)
    path = os.path.abspath(words[0])
    return [_python(), path] if path.endswith(".py") else [path]


def _python() -> str:
    """Return an interpreter that finds the packages by itself, also if it starts itself anew.

    The launcher is the system's own, which is told where those of a virtual environment are.
    """
    for folder in map(Path, sys.path):
        if folder.name == "site-packages" and (folder.parents[2] / "pyvenv.cfg").exists():
            return str(folder.parents[2] / "bin/python3")
    return sys.executable


def _observed(level: Level, command: list[str]) -> list[str]:
    """Return the command line that draws the program's stages; none where there are no stages."""
    if level.number < _FIRST_STAGES:
        return []
    driver, called = 'env NVIDIA_DRIVER_ROOT="$(minirun level driver)" ', shlex.join(command)
    asked = '"$(minirun level image)"'
    if level.number >= _ENGINES:
        return [f"minirun observe -- {called} run --bundle DIR ID"]
    if level.number < _FIRST_GPUS:
        return [f"minirun observe -- {called} run {asked} true"]
    return [f"minirun observe -- {driver}{called} run --gpus 0,1 {asked} nvidia-smi -L"]


def _list(answer: CheckAnswer, level: Level, settings: Settings) -> list[str]:
    """Return a line for each check: ✓ it holds, ✗ it does not; and how many could not be asked."""
    tongue = language.choose(settings.lang)
    texts, withheld = programs.promises(tongue), programs.words(tongue)["withheld"]
    rows = zip(checks.promises(level.number), answer.results, strict=False)
    lines: list[str] = []
    for since, group in itertools.groupby(rows, key=lambda row: row[0].since):
        found = [(promise, key) for promise, (key, _) in group]
        asked = [(promise, key) for promise, key in found if key != checks.WITHHELD]
        lines += [f"{'✗' if key else '✓'} {since}  {texts[promise.name]}" for promise, key in asked]
        if count := len(found) - len(asked):
            lines.append(f"– {since}  {withheld.format(count=count)}")
    return lines


def _answer(
    level: Level, command: list[str], settings: Settings, *, first: bool = False,
    attack: bool = False,
) -> CheckAnswer:  # fmt: skip
    """Try the program in a sandbox. Raises MinirunError, OSError."""
    lower = material.lowerdir(material.image(material.IMAGE, settings))
    driver = str(material.driver(settings))
    job = Job(level.number, command, lower, driver, material.majors(driver), first, attack)
    return sandbox.run(job, _CHECK_SECONDS)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, min(_WIDTH, screen.width(1)), indent)
