"""`minirun doctor`: what this machine can and cannot do, stage by stage, with the reason."""

import json
import sys

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core.errors import UsageError
from minirun.core.settings import Settings, unprivileged
from minirun.doctor.attempts import AbilityReport, examine
from minirun.doctor.rootless import for_user
from minirun.doctor.table import ABILITIES, EITHER

FLAGS = (Flag(("--json",), "", "print the findings as JSON"), HELP)
SUMMARY = (
    "Try all that a run needs or can use, for real; say what does not work, why, and what to do."
    "\nThe exit status is 0 where `minirun run` can work, else 1."
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


def main(args: "list[str]", settings: Settings) -> int:
    """Try everything and report; return 0 where `run` can work, else 1."""
    flags = parse("doctor", FLAGS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("doctor", "", SUMMARY, FLAGS))
        return 0
    if flags.args:
        raise UsageError(
            f"doctor takes no argument: {flags.args[0]}", "see 'minirun doctor --help'"
        )
    without_root = unprivileged()
    table = for_user(ABILITIES) if without_root else ABILITIES
    findings = examine(table, settings.root, settings.store)
    broken = broken_by(findings)
    if flags.json:
        report = {"ok": not broken, "findings": [finding._asdict() for finding in findings]}
        print(json.dumps(report, indent=2))
    else:
        print("\n".join(_lines(findings)))
        names = ", ".join(broken)
        works = "minirun run works here" + (", without root" if without_root else "")
        print(f"\nminirun run cannot work here: {names}" if broken else f"\n{works}")
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


def _lines(findings: list[AbilityReport]) -> list[str]:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for stage, title in enumerate(STAGES):
        lines += ["", title] if stage else [title]
        for finding in findings:
            if finding.stage == stage:
                mark = "ok" if finding.works else "NO" if finding.needed else "--"
                advice = f"  ({finding.advice})" if finding.advice else ""
                lines.append(f"  {mark}  {finding.name:<{width}}  {finding.found}{advice}")
    return lines
