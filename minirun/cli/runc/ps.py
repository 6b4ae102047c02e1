"""`minirun ps ID`: a container's processes, as runc has it; `ps` alone is docker's.

Engines read --format json, a list of pids on the host.
"""

from __future__ import annotations

from minirun.cgroups import cgroup_of
from minirun.cli.output import show, write
from minirun.core.errors import UsageError
from minirun.core.keeping import jsonlite
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import lookup

with lazy:
    from minirun.running import processes  # subprocess: 10 ms

FORMATS = ("table", "json")


def main(args: list[str], form: str, settings: Settings) -> int:
    """Print the processes of a container. `args`: its id, then options of ps(1).

    `form`: "" for a table. Raises MinirunError, OSError.
    """
    container = lookup.load(*roots.locate(settings, args[0]))
    form, options = _options(form, args[1:])
    pids = cgroup_of(container).processes() if cgroup_of(container).exists() else []
    if form == "json":
        return write(jsonlite.dumps(pids) + "\n")
    return show(processes.table(pids, options))


def _options(form: str, rest: list[str]) -> tuple[str, list[str]]:
    """Return the format, and ps's options; --format and `-f json` may stand behind the id too."""
    options = []
    while rest:
        word = rest.pop(0)
        if word.startswith("--format="):
            form = word.partition("=")[2]
        elif word == "--format" or (word == "-f" and rest and rest[0] in FORMATS):
            form = rest.pop(0) if rest else ""
        else:
            options.append(word)
    if form not in ("", *FORMATS):
        raise UsageError(f"invalid --format {form!r}", " or ".join(FORMATS))
    return form, options
