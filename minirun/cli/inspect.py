"""`minirun inspect ID`: what a container is made of, as the kernel sees it.

With --devices only its effective device rules, with --json all of it as data.
"""

import json
import shutil
import sys

from minirun.cgroups.ruleset import listing
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core.container import Container
from minirun.core.errors import StateError
from minirun.core.settings import Settings
from minirun.core.visible import clean
from minirun.engines import roots
from minirun.inspect import anatomy, device_names, edits_of, page
from minirun.running import existing
from minirun.show import find, paint

FLAGS = (
    Flag(("--devices",), "", "only the effective device rules, from the kernel"),
    Flag(("--json",), "", "print everything as JSON"),
    HELP,
)
_WIDEST = 120


def main(args: "list[str]", settings: Settings) -> int:
    """Print what a container is made of, or its device rules."""
    flags = parse("inspect", FLAGS, args, mixed=True)
    if flags.help or len(flags.args) != 1:
        sys.stdout.write(usage("inspect", "ID", "Show what a container is made of.", FLAGS))
        return 0 if flags.help else 1
    container = _load(settings, flags.args[0])
    if flags.devices:
        lines = _rules(container)
    elif flags.json:
        lines = [json.dumps(anatomy(container), indent=2)]
    else:
        found = anatomy(container)
        rules = _rules(container) if found["deviceRules"] is not None else []
        width = min(shutil.get_terminal_size().columns, _WIDEST)
        lines = page.lines(found, rules, width, unicode=paint.speaks_unicode())
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _load(settings: Settings, name: str) -> Container:
    """Return the container. Raises StateError, which says so where only its log is left."""
    place = roots.locate(settings, name)
    try:
        return existing.load(*place)
    except StateError:
        events = find.of_container(name, *roots.known(settings))
        if events is None or find.id_of(events) != name:
            raise
        hint = f"what it did is left: minirun timeline {name}"
        raise StateError(f"container {name!r} has been deleted", hint) from None


def _rules(container: Container) -> list[str]:
    """Return the effective device rules with names, in the form of the project's beginnings.

    Raises MinirunError, OSError.
    """
    rules = container.cgroup.effective_device_rules()
    return [clean(line) for line in listing(rules, device_names(container))]


__all__ = ["FLAGS", "device_names", "edits_of", "main"]
