"""The command line: a table of commands, each in a module that is imported when it is called.

runc      runc's commands, to the letter
run       `run IMAGE` and `create IMAGE`, with their flags
gc        gc
either    create, start, kill, pause, ps: runc's or docker's, as the container is
help      help, and --help: help.toml has the texts
flags     a command line is read; words: the value of one flag
completion   what a shell completes command lines with
elsewhere  docker's and podman's commands that are not here: why, and what to do
settings  what counts for all runs of a user
output    what a command prints on standard output; several: for each of several things

The other commands are those of the three shelves: minirun.docker, minirun.toolkit, minirun.faces.
"""

from __future__ import annotations

import errno
import os
import sys

from minirun.cli.flags import BEFORE, Flags, HelpAsked, flag
from minirun.core.errors import SIGNALLED, MinirunError, UsageError, from_os, reason
from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.places import CONTAINERS, ROOT, STORE
from minirun.core.keeping.settings import LANGUAGES, Settings, unprivileged
from minirun.core.lazy import lazy

with lazy:
    import difflib
    import traceback

    from minirun.cli import elsewhere
    from minirun.cli.runc import state as state_command
    from minirun.engines import rootless
    from minirun.image import workshop
    from minirun.running import shelves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

MODULES = {
    "minirun.cli.run.run_image": "run",
    "minirun.cli.runc.exec": "exec",
    "minirun.docker.logs": "logs",
    "minirun.cli.runc.events": "events",
    "minirun.docker.start": "restart",
    "minirun.docker.attach": "attach",
    "minirun.docker.stop": "stop rm",
    "minirun.docker.watching": "wait top stats rename",
    "minirun.docker.about": "info version",
    "minirun.docker.groups": "container system",
    "minirun.cli.completion": "completion",
    "minirun.cli.settings": "settings",
    "minirun.docker.network": "network",
    "minirun.docker.network_of": "port",
    "minirun.docker.volume": "volume",
    "minirun.cli.either": "create start kill pause unpause ps",
    "minirun.cli.runc.control": "delete resume",
    "minirun.cli.runc.state": "state list features",
    "minirun.cli.runc.update": "update",
    "minirun.toolkit.commands.checkpoint": "checkpoint restore",
    "minirun.cli.runc.spec": "spec",
    "minirun.faces.commands.timeline": "timeline replay diff",
    "minirun.faces.commands.inspect": "inspect",
    "minirun.faces.commands.explain": "explain",
    "minirun.faces.commands.gpu": "gpu",
    "minirun.faces.commands.lab": "lab",
    "minirun.faces.commands.level": "level",
    "minirun.faces.commands.observe": "observe",
    "minirun.cli.gc": "gc",
    "minirun.faces.commands.doctor": "doctor",
    "minirun.faces.commands.teach": "teach",
    "minirun.cli.help": "help",
    "rootfs_tools.cli.images": "images import",
    "rootfs_tools.cli.image": "image load",
    "rootfs_tools.cli.save": "save tag rmi",
    "rootfs_tools.cli.pull": "pull",
    "rootfs_tools.cli.push": "push",
    "rootfs_tools.cli.login": "login logout",
    "rootfs_tools.cli.build": "build",
    "rootfs_tools.cli.history": "history",
    "rootfs_tools.cli.export": "export",
    "rootfs_tools.cli.copy": "cp",
    "rootfs_tools.cli.commit": "commit",
    "minirun.toolkit.commands.container_cli": "nvidia-container-cli nvidia-container-runtime-hook",
    "minirun.toolkit.commands.ctk": "nvidia-ctk nvidia-cdi-hook",
    "minirun.toolkit.runtime.wrapper": "nvidia-container-runtime",
}
"""Module → its commands. It has `main_NAME(args, settings)` for each, with _ for -, or
`main(args, settings)`: both return the exit status."""
COMMANDS = {name: module for module, names in MODULES.items() for name in names.split()}
RUNC = frozenset(
    (
        "create", "start", "state", "kill", "delete", "list", "pause", "resume", "features",
        "spec", "checkpoint", "restore",
    )
)  # fmt: skip
"""runc's own: where docker's errors end with status 125, theirs end with 1. (exec: with 255; ps and
events: with an id; update: of a bundle's container.)"""


class GlobalFlags(Flags):
    """The flags before the command."""

    mixed, wrong = False, 1
    root: str
    store: str
    cgroup: str = flag(default="auto")
    log: str
    log_format: str = flag(default="text")
    debug: bool = flag("-D")
    lang: str
    systemd_cgroup: bool
    rootless: str = flag(default="auto")
    gpu_driver: str
    gpus: str
    driver_root: str
    dev_root: str
    load_kmods: bool
    gpu_exclusive: bool
    version: bool = flag("-v")

    def absent(self) -> dict[str, str]:
        """Return docker's and podman's flags that are left out."""
        return elsewhere.FLAGS


BEFORE.append(GlobalFlags)

DOCKERS = frozenset(
    (
        "attach", "cp", "events", "export", "history", "image", "images", "import", "info", "load",
        "login", "logout", "logs", "network", "port", "pull", "push", "rename", "restart", "rm",
        "rmi", "save", "stats", "stop", "tag", "top", "version", "volume", "wait",
    )
)  # fmt: skip
"""docker's whose errors end with 1: run's end with 125, and so does a wrong flag of any."""
_SYNONYMS = {"list": "ls", "remove": "rm"}
"""docker's other names of a group's commands."""


def main(argv: list[str] | None = None) -> int:
    """Run the program with these arguments (sys.argv's by default); return its exit status."""
    words = _called_as() if argv is None else argv
    settings = Settings()
    try:
        try:
            options = GlobalFlags(words)
            if options.version:
                return int(state_command.version())
            if not options.args:
                raise HelpAsked(options)
            settings = _settings(options)
            return dispatch(options.args[0], options.args[1:], settings)
        except HelpAsked as asked:
            return int(part(COMMANDS["help"], "answer")(asked))
    except MinirunError as error:
        return report(error, settings)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of our output has gone
            return SIGNALLED + 13  # SIGPIPE
        return report(from_os(error), settings)
    except ModuleNotFoundError as error:
        reason = workshop.missing(error) or shelves.missing(error)
        if reason is None:
            raise
        return report(reason, settings)


def _called_as() -> list[str]:
    """Return the arguments; called by the name of one of NVIDIA's programs, that name is first."""
    name = sys.argv[0].rpartition("/")[2]
    return [name, *sys.argv[1:]] if name.startswith("nvidia-") else sys.argv[1:]


def dispatch(name: str, args: list[str], settings: Settings) -> int:
    """Run a command; return its exit status. Raises MinirunError, OSError, HelpAsked."""
    if name not in COMMANDS:
        if found := elsewhere.DOCKERS.get(name) or elsewhere.PODMANS.get(name):
            reason, hint = found
            raise UsageError(f"{name} is left out: {reason}", hint, 1)
        near = difflib.get_close_matches(name, COMMANDS, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "see 'minirun --help'"
        raise UsageError(f"unknown command {name!r}", hint, 1)
    try:
        entry = entry_of(name, COMMANDS)
    except (ImportError, AttributeError, OSError):
        if sys.platform == "linux":
            raise
        raise UsageError(f"{name} needs Linux", "replay and timeline FILE do not") from None
    if name in RUNC:
        return as_runc(lambda: entry(args, settings))
    try:
        return entry(args, settings)
    except MinirunError as error:
        if name in DOCKERS and "status" not in vars(error):  # it says none of its own
            error.status = 1
        raise


def as_runc(act: Callable[[], int]) -> int:
    """Return what `act` returns; errors of it end with status 1, as runc's do: docker's is 125.

    Raises MinirunError; OSError if the reader of our output has gone.
    """
    try:
        return act()
    except OSError as caught:
        if caught.errno == errno.EPIPE:
            raise
        error = from_os(caught)
    except MinirunError as caught:
        error = caught
    if 125 <= error.status <= 127:
        error.status = 1
    raise error from None


def entry_of(name: str, table: dict[str, str]) -> Callable[[list[str], Settings], int]:
    """Import a command's module, and return its function. `table` is COMMANDS, or one like it."""
    try:
        entry: Callable[[list[str], Settings], int]
        entry = part(table[name], f"main_{name.replace('-', '_')}")
    except AttributeError:
        entry = part(table[name], "main")
    return entry


def verb(flags: Flags, known: Collection[str]) -> tuple[str, list[str]]:
    """Return which of a group's commands is named (ls in `volume ls`), and the words behind it.

    Raises UsageError for one that there is not; HelpAsked if none is named.
    """
    if not flags.args:
        raise HelpAsked(flags)
    name, *rest = flags.args
    name = name if name in known else _SYNONYMS.get(name, name)
    if name not in known:
        raise UsageError(
            f"unknown command '{flags.command} {name}'", f"one of {', '.join(known)}", 1
        )
    return name, rest


def group(flags: Flags, verbs: dict[str, str], settings: Settings) -> int:
    """Run the verb of a group that is named; return its exit status.

    `verbs`: each is a function, as "minirun.docker.volume.main_ls", or a command of minirun.
    """
    name, rest = verb(flags, verbs)
    module, _, function = verbs[name].rpartition(".")
    return int(part(module, function)(rest, settings)) if module else dispatch(name, rest, settings)


def part(module: str, name: str) -> Any:
    """Return what a module has by that name. The module is a row of a table; it is imported now."""
    return getattr(lazy.load(module), name)


def _settings(flags: GlobalFlags) -> Settings:
    """Return what the flags before the command say, or else the environment. Raises UsageError."""
    store = flags.store or os.environ.get("MINIRUN_STORE") or ""
    root = flags.root or os.environ.get("MINIRUN_ROOT") or (store and f"{store}/{CONTAINERS}")
    if not (store and root):
        is_root = sys.platform != "linux" or not unprivileged()
        usual = (STORE, ROOT) if is_root else rootless.places()
        store, root = store or usual[0], root or usual[1]
    flags.check("cgroup", "auto", "v1", "v2")
    flags.check("log_format", "text", "json")
    flags.check("lang", "", *LANGUAGES)
    flags.check("rootless", "true", "false", "auto")
    if flags.log:
        try:
            _append(flags.log, "")
        except OSError as error:
            raise UsageError(f"--log {flags.log}: {reason(error)}", status=1) from None
    gates = tuple(stop for stop in os.environ.get("MINIRUN_GATES", "").split(",") if stop)
    return Settings(
        _absolute(root), _absolute(store), flags.cgroup, bool(flags.debug),
        flags.log, flags.log_format, gates, bool(flags.systemd_cgroup),
        flags.rootless, bool(flags.root or os.environ.get("MINIRUN_ROOT")),
        Choices(
            gpu_driver=flags.gpu_driver, gpus=flags.gpus or None,
            driver_root=flags.driver_root, dev_root=flags.dev_root,
            load_kmods=bool(flags.load_kmods),
            exclusive=bool(flags.gpu_exclusive),
        ),
        flags.lang,
    )  # fmt: skip


def _absolute(path: str) -> str:
    """Return an absolute path. Raises UsageError if it is not UTF-8, as JSON needs it."""
    path = os.path.abspath(path)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{path}: the path is not UTF-8", "another --root or --store", 1) from None
    return path


def report(error: MinirunError, settings: Settings) -> int:
    """Print an error as one line, append it to --log, and return the exit status."""
    if settings.debug:
        traceback.print_exception(error)
    line = f"minirun: {error.line()}\n"
    try:
        if settings.log:
            _append(settings.log, _log_line(error, settings))
        elif settings.log_format == "json":
            line = _log_line(error, settings)
        os.write(2, line.encode(errors="replace"))
    except OSError:
        pass  # a broken stderr must not change the exit status
    return error.status


def _append(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.write(fd, text.encode())
    os.close(fd)


def _log_line(error: MinirunError, settings: Settings) -> str:
    """Return the line that engines look for, as logrus writes it for runc."""
    fields = {"level": "error", "msg": error.line(), "time": state.timestamp()}
    if settings.log_format == "json":
        return jsonlite.dumps(fields) + "\n"
    return f'time="{fields["time"]}" level=error msg={jsonlite.dumps(fields["msg"])}\n'
