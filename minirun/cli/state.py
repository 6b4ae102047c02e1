"""`minirun state`: what engines ask most often, so it loads next to nothing."""

import sys

from minirun.cli.flags import HELP, one_id, parse, show_help
from minirun.core import jsonlite, state
from minirun.core.settings import Settings
from minirun.running.visible_json import clean_json


def main(args: "list[str]", settings: Settings) -> int:
    """Print a container's state as JSON (runtime.md, "Query State")."""
    flags = parse("state", (HELP,), args, mixed=True)
    if flags.help:
        return show_help("state", "ID", "Print a container's state as JSON.", (HELP,))
    record = state.load(settings.root, one_id("state", flags))
    sys.stdout.write(clean_json(jsonlite.dumps(state.public(record), indent=2)) + "\n")
    return 0
