"""`minirun diff`: what a stage changed in a container, out of the snapshots of its recording."""

import json
import sys

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core.errors import StateError, UsageError
from minirun.core.settings import Settings
from minirun.engines import roots
from minirun.show import differ
from minirun.show.find import find

FLAGS = (
    Flag(("--stage",), "N", "what happened from the begin of this stage to its end"),
    Flag(("--between",), "A,B", "from the end of stage A to the end of stage B: s4,s5"),
    Flag(("--only",), "PART", f"one of {', '.join(differ.PARTS)}"),
    Flag(("--files",), "", "only names of files, as `diff before.txt after.txt` prints them"),
    Flag(("--json",), "", "as JSON"),
    HELP,
)
SUMMARY = "Show what a stage changed: run the container with --snapshots (or --step)."


def main(args: "list[str]", settings: Settings) -> int:
    """Print the difference of two snapshots of a container, or of a recording."""
    flags = parse("diff", FLAGS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("diff", "ID|FILE", SUMMARY, FLAGS))
        return 0
    if len(flags.args) != 1 or bool(flags.stage) == bool(flags.between):
        hint = "minirun diff ID --stage 5, or minirun diff ID --between s4,s5"
        raise UsageError("diff needs a container and what to compare", hint, status=1)
    if flags.only and flags.only not in differ.PARTS:
        raise UsageError(f"unknown part {flags.only!r}", ", ".join(differ.PARTS), status=1)
    first, second = differ.boundaries(flags.between, flags.stage)
    recordings = find(flags.args[0], *roots.known(settings))
    if len(recordings) > 1:
        names = ", ".join(recording.id for recording in recordings)
        raise StateError(f"{flags.args[0]} holds several containers: {names}", status=1)
    (recording,) = recordings
    before, after = differ.choose(recording, first), differ.choose(recording, second)
    parts = [p for p in differ.compare(before, after) if flags.only in ("", p.name)]
    if flags.files:
        sys.stdout.write(differ.normal_form(before, after))
    elif flags.json:
        rows = {part.name: {"gone": part.gone, "new": part.new} for part in parts}
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        sys.stdout.write(differ.text(parts))
    return 0
