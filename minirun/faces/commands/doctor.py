"""`minirun doctor`: what this machine can and cannot do, stage by stage, with the reason."""

from __future__ import annotations

import json

from minirun.cli.flags import Flags
from minirun.cli.output import write
from minirun.common import table
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.faces.doctor.attempts import AbilityReport, examine
from minirun.faces.doctor.rootless import for_user
from minirun.faces.doctor.table import ABILITIES, EITHER

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


class Doctor(Flags):
    """What this machine can do."""

    command = "doctor"
    json: bool


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
