"""`minirun gc`, `doctor` and `teach`: the program looks after itself, its machine and its reader.

gc finishes what killed commands left behind (minirun.running.gc); doctor says what this
machine can and cannot do, stage by stage, with the reason; `teach oracle` compares the log with
what strace saw.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from minirun.cli import GlobalFlags
from minirun.cli.flags import Flags, HelpAsked, flag
from minirun.cli.output import show, write
from minirun.common import called
from minirun.core.errors import MinirunError, StateError, UsageError, from_os
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.keeping.state_file import ForeignDirectory
from minirun.core.keeping.visible import say, warn
from minirun.core.lazy import lazy
from minirun.doctor.attempts import AbilityReport, examine, sweep
from minirun.doctor.rootless import for_user
from minirun.doctor.table import ABILITIES, EITHER
from minirun.image import workshop
from minirun.running import gc as orphans
from minirun.show.text import table

with lazy:
    from minirun.teach.oracle import (
        report,  # 50 ms
        witness,  # 50 ms
    )

STAGES = (
    "this machine",
    "stage 1  clone, namespaces, cgroup, overlay",
    "stage 2  init asks through a FIFO",
    "stage 3  prestart hooks",
    "stage 4  arguments for nvidia-container-cli",
    "stage 5  device nodes, libraries, device rules",
    "stage 6  the answer",
    "stage 7  pivot_root, privileges, exec",
    "without root  what a user can do",
)


class Gc(Flags):
    """Finish what killed commands left behind."""

    command = "gc"
    dry_run: bool = flag("-n")


class Doctor(Flags):
    """What this machine can do."""

    command = "doctor"
    json: bool


class Teach(Flags):
    """Lessons and checks."""

    command, mixed = "teach", False


class Oracle(Flags):
    """Log against strace."""

    command, mixed = "teach oracle", False
    verbose: bool
    json: bool
    keep: str


def main_gc(args: list[str], settings: Settings) -> int:
    """Collect; print one line for each thing that goes."""
    flags = Gc(args)
    flags.none()
    if not flags.dry_run:
        for path in workshop.call("sweep")(settings.store):
            _show_removed(path, "an image that was never finished", dry=False)
        for name in sweep(settings.root) if os.path.isdir(settings.root) else ():
            _show_removed(name, "its doctor died", dry=False)
    for name in (orphans.abandoned if flags.dry_run else orphans.remove_abandoned)(settings.root):
        _show_removed(name, "its maker died", dry=flags.dry_run)
    failed = 0
    for container_id in state.names(settings.root):
        try:
            if reason := orphans.collect(settings, container_id, dry=flags.dry_run):
                _show_removed(container_id, reason, dry=flags.dry_run)
        except ForeignDirectory as error:
            warn(f"{settings.root}/{container_id} is left: {error.reason}")
        except (MinirunError, OSError) as caught:
            failure = from_os(caught) if isinstance(caught, OSError) else caught
            say(f"{container_id}: {failure.line()}")
            failed += 1
    return 1 if failed else 0


def _show_removed(name: str, reason: str, *, dry: bool) -> None:
    show([f"{'would remove' if dry else 'removed'} {name}: {reason}"])


def main_doctor(args: list[str], settings: Settings) -> int:
    """Try everything and report; return 0 where `run` can work, else 1."""
    flags = Doctor(args)
    if flags.args:
        hint = "see 'minirun doctor --help'"
        raise UsageError(f"doctor takes no argument: {flags.args[0]}", hint)
    without_root = unprivileged()
    abilities = for_user(ABILITIES) if without_root else ABILITIES
    findings = examine(abilities, settings.root, settings.store)
    broken = broken_by(findings)
    if flags.json:
        report = {"ok": not broken, "findings": [finding._asdict() for finding in findings]}
        print(json.dumps(report, indent=2))
    else:
        names = ", ".join(broken)
        works = "minirun run works here" + (", without root" if without_root else "")
        told = f"minirun run cannot work here: {names}" if broken else works
        write(_report(findings) + table.title(told))
    return 1 if broken else 0


def broken_by(findings: list[AbilityReport]) -> list[str]:
    """Return the names of what keeps `run` from working; a pair counts where both are missing."""
    works = {finding.name: finding.works for finding in findings}
    pairs = [
        f"{one} or {other}"
        for one, other in EITHER
        if one in works and not (works[one] or works[other])
    ]
    return [finding.name for finding in findings if finding.needed and not finding.works] + pairs


def _report(findings: list[AbilityReport]) -> str:
    width = max(len(finding.name) for finding in findings)
    page = ""
    for stage, title in enumerate(STAGES):
        rows = []
        for finding in findings:
            if finding.stage == stage:
                mark = "ok" if finding.works else "NO" if finding.needed else "--"
                advice = f"  ({finding.advice})" if finding.advice else ""
                rows.append((mark, f"{finding.name:<{width}}", f"{finding.found}{advice}"))
        page += f"{table.title(title)}{table.text(rows, indent=2, heads=False)}\n"
    return page


def main_teach(args: list[str], settings: Settings) -> int:
    """Run a lesson or a check, or list them."""
    flags = Teach(args)
    if not flags.args:
        raise HelpAsked(flags)
    if flags.args[0] != "oracle":
        raise UsageError(f"unknown lesson {flags.args[0]!r}", "minirun teach lists them", 1)
    return _oracle(flags.args[1:], settings)


def _oracle(args: list[str], settings: Settings) -> int:
    """Run a command under strace and report; return 0 where log and strace agree, else 1.

    Raises MinirunError: no strace, nothing to compare.
    """
    flags = Oracle(args)
    if not flags.args:
        hint = "minirun teach oracle -- run --rm busybox true"
        raise UsageError("teach oracle needs a command of minirun's", hint, 1)
    with tempfile.TemporaryFile() as file:  # without a name, so that a killed oracle leaves none
        output = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        command = _command(settings, flags.args)
        join = _waiting(settings, flags.args)
        watched = witness.watch(command, output, join=join, stdout=2 if flags.json else None)
        if flags.keep:
            shutil.copy(output, flags.keep)
    found = witness.judge(watched)
    if flags.json:
        told = report.document(found, watched, flags.args, verbose=flags.verbose)
        print(json.dumps(told, indent=2))
    else:
        report.show(found, watched, verbose=flags.verbose)
    return 1 if found.untrue or found.missing else 0


def _waiting(settings: Settings, words: list[str]) -> tuple[int, ...]:
    """Return the pid of the init that `start ID` lets go on: most of what follows is its work."""
    options = GlobalFlags(words)
    if options.args[:1] != ["start"]:
        return ()
    root = os.path.abspath(options.root) if options.root else settings.root
    try:
        record = state.load(root, options.args[-1])
    except StateError:
        return ()  # `start` will say so
    return (record.pid,) if record.status == state.CREATED else ()


def _command(settings: Settings, words: list[str]) -> list[str]:
    """Return the command line of a minirun like this one, with its global flags before `words`."""
    told = ["--root", settings.root, "--store", settings.store]
    told += ["--cgroup", settings.cgroup_version, "--log-format", settings.log_format]
    told += ["--log", settings.log] if settings.log else []
    told += ["--debug"] if settings.debug else []
    return [*called.program(), *told, *words]
