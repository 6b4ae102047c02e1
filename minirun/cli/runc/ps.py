"""`minirun ps ID`: a container's processes, as runc has it; `ps` alone is docker's.

Engines read --format json, a list of pids on the host. What lists containers: minirun.docker.ps.
"""

from __future__ import annotations

from minirun.cgroups import cgroup_of
from minirun.cli import as_runc, part
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.core.keeping import jsonlite
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import lookup

with lazy:
    from minirun.running import processes  # subprocess: 10 ms

PROCESS_FORMATS = ("table", "json")


class Ps(Flags):
    """List containers, or the processes of one, with the options of ps(1)."""

    command, mixed = "ps", False
    all: bool = flag("-a")
    filter: list[str] = flag("-f")
    format: str
    last: str = flag("-n", default="-1")
    latest: bool = flag("-l")
    no_trunc: bool
    quiet: bool = flag("-q")
    size: bool = flag("-s")


def main_ps(args: list[str], settings: Settings) -> int:
    """List containers, or with an id its processes."""
    flags = Ps(args)
    _take_runcs(flags)
    if flags.args:
        return as_runc(lambda: _processes(flags, settings))
    return int(part("minirun.docker.ps", "list_containers")(flags, settings))


def _take_runcs(flags: Ps) -> None:
    """Read -f json as runc's --format: a filter has an equals sign."""
    forms = [text for text in flags.filter if text in PROCESS_FORMATS]
    if forms:
        flags.format = forms[-1]
        flags.filter = [text for text in flags.filter if text not in PROCESS_FORMATS]


def _processes(flags: Ps, settings: Settings) -> int:
    """Print the processes of a container. Raises MinirunError, OSError."""
    keys = {"all", "quiet", "filter", "last", "latest", "no_trunc", "size"}
    flags.refuse_flags(keys, "with an id", "ps ID -o pid prints the pids alone")
    container = lookup.load(*roots.locate(settings, flags.args[0]))
    options = _options(flags)
    pids = cgroup_of(container).processes() if cgroup_of(container).exists() else []
    if flags.format == "json":
        return write(jsonlite.dumps(pids) + "\n")
    return show(processes.table(pids, options))


def _options(flags: Ps) -> list[str]:
    """Return ps's options; --format and `-f json` may stand behind the id too."""
    rest = flags.args[1:]
    options = []
    while rest:
        word = rest.pop(0)
        if word.startswith("--format="):
            flags.format = word.partition("=")[2]
        elif word == "--format" or (word == "-f" and rest and rest[0] in PROCESS_FORMATS):
            flags.format = rest.pop(0) if rest else ""
        else:
            options.append(word)
    flags.format = flags.format or "table"
    flags.check("format", *PROCESS_FORMATS)
    return options
