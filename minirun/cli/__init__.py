"""The command line: a table of commands, each in a module that is imported when it is called."""

import os
import sys

from minirun import __version__
from minirun.cli.flags import LANG, Flags, HelpAsked, flag, write
from minirun.core import jsonlite, state
from minirun.core.choices import Choices
from minirun.core.errors import MinirunError, UsageError, as_runc, from_os
from minirun.core.places import CONTAINERS, ROOT, STORE
from minirun.core.settings import LANGUAGES, Settings
from minirun.engines import rootless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "run": ("cli.run", "run a command in a new container, stage by stage"),
    "create": ("cli.create", "create a container from a bundle; it waits for start"),
    "start": ("cli.oci", "let a created container run its command"),
    "state": ("cli.states", "print a container's state as JSON"),
    "kill": ("cli.oci", "send a signal to a container"),
    "delete": ("cli.oci", "delete a container and all that belongs to it"),
    "exec": ("cli.exec", "run another command in a running container"),
    "ps": ("cli.containers", "list containers, or the processes of one"),
    "list": ("cli.states", "list containers, as runc does"),
    "pause": ("cli.oci", "suspend all processes of a container"),
    "resume": ("cli.oci", "let a paused container go on"),
    "update": ("cli.exec", "change the limits of a container"),
    "events": (
        "cli.containers",
        "show the log as it grows; with an id, what it uses, as runc does",
    ),
    "checkpoint": ("cli.checkpoint", "save a running container to files, through CRIU"),
    "restore": ("cli.checkpoint", "make a container again from such files"),
    "features": ("cli.states", "say as JSON what this runtime can do, for engines"),
    "logs": ("cli.containers", "print what a container has written"),
    "inspect": ("cli.inspect", "show what a container is made of"),
    "timeline": ("cli.show", "show a container's start again: lanes, page, trace or text"),
    "replay": ("cli.show", "play a recorded start; on any system, without root"),
    "diff": ("cli.show", "show what a stage changed in a container"),
    "explain": ("cli.show", "say what an error, an event or a stage means, and what to try"),
    "spec": ("cli.run", "print a config.json"),
    "images": ("cli.images", "list, build, import and remove images"),
    "gpu": ("cli.gpu", "show GPUs and who uses them"),
    "nvidia-container-cli": ("cli.nvidia", "put GPUs into a container: stage 5 alone"),
    "nvidia-container-runtime": (
        "gpu.nvidia.runtime.main",
        "runc for engines, with GPUs in config.json",
    ),
    "nvidia-container-runtime-hook": (
        "cli.nvidia",
        "the prestart hook: stage 4 for any runtime",
    ),
    "nvidia-ctk": ("cli.ctk", "register a runtime with an engine; CDI specs; /dev/char"),
    "nvidia-cdi-hook": ("cli.ctk", "what CDI specs call in a container: links, ld.so.cache"),
    "gc": ("cli.care", "finish what killed commands left behind"),
    "doctor": ("cli.care", "say what this machine can and cannot do, stage by stage"),
    "teach": ("cli.care", "lessons and checks: the oracle compares the log with strace"),
}
"""Name → (module of minirun, one line of help). The module has `main_NAME(args, settings)`, with _
for -, or `main(args, settings)`: both return the exit status."""
RUNC = frozenset(
    (
        "create", "start", "state", "kill", "delete", "ps", "list", "pause", "resume",
        "update", "events", "features", "spec", "checkpoint", "restore",
    )
)  # fmt: skip
"""runc's own: where docker's errors end with status 125, theirs end with 1. (exec: with 255.)"""


class GlobalFlags(Flags):
    """The flags before the command."""

    summary, mixed = "A container runtime that shows its seven stages.", False
    root: str = flag(
        "--root DIR",
        f"where containers are kept ({ROOT}, $MINIRUN_ROOT; without root $XDG_RUNTIME_DIR/minirun)",
    )
    store: str = flag(
        "--store DIR",
        f"where images are kept ({STORE}, $MINIRUN_STORE; without root ~/.local/share/minirun)",
    )
    cgroup: str = flag("--cgroup VERSION", "which cgroups to use: auto, v1 or v2", default="auto")
    log: str = flag("--log FILE", "write errors, and with `run IMAGE` all events, to FILE")
    log_format: str = flag("--log-format FORMAT", "text or json", default="text")
    debug: bool = flag("--debug", "show a traceback with an error")
    lang: str = LANG
    systemd_cgroup: bool = flag(
        "--systemd-cgroup", "create and run: have systemd make the cgroup, over D-Bus"
    )
    rootless: str = flag(
        "--rootless WHEN", "without root: false: insist on a cgroup", default="auto"
    )
    gpu_driver: str = flag(
        "--gpu-driver NAME", "for engines: nvidia, simulated, amd, intel or gaudi"
    )
    gpus: str = flag(
        "--gpus GPUS", "for engines, of amd, intel or gaudi: which, instead of a variable"
    )
    driver_root: str = flag(
        "--driver-root DIR", "for engines: where the GPU driver is, if not in /"
    )
    load_kmods: bool = flag(
        "--load-kmods", "for engines: load NVIDIA's kernel modules and make its nodes"
    )
    gpu_exclusive: bool = flag(
        "--gpu-exclusive", "for engines: no other container gets this one's GPUs"
    )
    version: bool = flag("-v --version", "print the version and exit")

    @classmethod
    def usage(cls) -> str:
        """Return the overview: all commands, and these flags."""
        width = max(map(len, COMMANDS)) + 2
        rows = [f"  {name:<{width}}{text}" for name, (_, text) in COMMANDS.items()]
        flags = [
            f"  {', '.join(f.names)} {f.value}".ljust(24) + f.help for f in cls.known().values()
        ]
        head = (
            "Usage: minirun [flags] COMMAND …\n\nA container runtime that shows its seven stages."
        )
        return "\n".join([head, "", "Commands:", *rows, "", "Flags:", *flags, ""])


_UNKNOWN = 3


def main(argv: "list[str] | None" = None) -> int:
    """Run the program with these arguments (sys.argv's by default); return its exit status."""
    words = _called_as() if argv is None else argv
    settings = Settings()
    try:
        try:
            options = GlobalFlags(words)
            if options.version:
                return write(_version())
            if not options.args:
                return write(options.usage())
            settings = _settings(options)
            return _dispatch(options.args[0], options.args[1:], settings)
        except HelpAsked as asked:
            return write(str(asked))
    except MinirunError as error:
        return report(error, settings)
    except OSError as error:
        if error.errno == 32:  # EPIPE: the reader of our output has gone
            return 141
        return report(from_os(error), settings)
    except KeyboardInterrupt:
        return 130


def _called_as() -> "list[str]":
    """Return the arguments; called by the name of one of NVIDIA's programs, that name is first."""
    name = sys.argv[0].rpartition("/")[2]
    return [name, *sys.argv[1:]] if name.startswith("nvidia-") else sys.argv[1:]


def _dispatch(name: str, args: "list[str]", settings: Settings) -> int:
    if name not in COMMANDS:
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "see 'minirun --help'"
        raise UsageError(f"unknown command {name!r}", hint, status=_UNKNOWN)
    try:
        entry = entry_of(name, COMMANDS)
    except (ImportError, AttributeError, OSError):
        if sys.platform == "linux":
            raise
        raise UsageError(f"{name} needs Linux", "replay and timeline FILE do not") from None
    if name in RUNC:
        return as_runc(lambda: entry(args, settings))
    return entry(args, settings)


def entry_of(
    name: str, table: "dict[str, tuple[str, str]]"
) -> "Callable[[list[str], Settings], int]":
    """Import a command's module, and return its function. `table` is COMMANDS, or one like it."""
    module = __import__(f"minirun.{table[name][0]}", fromlist=["main"])
    own = getattr(module, f"main_{name.replace('-', '_')}", None)
    entry: Callable[[list[str], Settings], int] = own or module.main
    return entry


def _settings(flags: GlobalFlags) -> Settings:
    store = flags.store or os.environ.get("MINIRUN_STORE") or ""
    root = flags.root or os.environ.get("MINIRUN_ROOT") or (store and f"{store}/{CONTAINERS}")
    if not (store and root):
        usual_store, usual_root = rootless.places()
        store, root = store or usual_store, root or usual_root
    if flags.cgroup not in ("auto", "v1", "v2"):
        raise UsageError(f"invalid --cgroup {flags.cgroup!r}", "auto, v1 or v2")
    if flags.log_format not in ("text", "json"):
        raise UsageError(f"invalid --log-format {flags.log_format!r}", "text or json")
    if flags.lang not in ("", *LANGUAGES):
        raise UsageError(f"unknown language {flags.lang!r}", " or ".join(LANGUAGES))
    if flags.rootless not in ("true", "false", "auto"):
        raise UsageError(f"invalid --rootless {flags.rootless!r}", "true, false or auto")
    gates = tuple(stop for stop in os.environ.get("MINIRUN_GATES", "").split(",") if stop)
    return Settings(
        os.path.abspath(root), os.path.abspath(store), flags.cgroup, bool(flags.debug),
        flags.log, flags.log_format, gates, bool(flags.systemd_cgroup),
        flags.rootless, bool(flags.root or os.environ.get("MINIRUN_ROOT")),
        Choices(
            gpu_driver=flags.gpu_driver, gpus=flags.gpus or None,
            driver_root=flags.driver_root, load_kmods=bool(flags.load_kmods),
            exclusive=bool(flags.gpu_exclusive),
        ),
        flags.lang,
    )  # fmt: skip


def report(error: MinirunError, settings: Settings) -> int:
    """Print an error as one line, append it to --log, and return the exit status."""
    if settings.debug:
        import traceback

        traceback.print_exception(error)
    line = f"minirun: {error.line()}\n"
    try:
        if settings.log:
            _append_error(error, settings)
        elif settings.log_format == "json":
            line = _log_line(error, settings)
        os.write(2, line.encode(errors="replace"))
    except OSError:
        pass  # a broken stderr must not change the exit status
    return error.status


def _append_error(error: MinirunError, settings: Settings) -> None:
    fd = os.open(settings.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.write(fd, _log_line(error, settings).encode())
    os.close(fd)


def _log_line(error: MinirunError, settings: Settings) -> str:
    """Return the line that engines look for, as logrus writes it for runc."""
    fields = {"level": "error", "msg": error.line(), "time": state.timestamp()}
    if settings.log_format == "json":
        return jsonlite.dumps(fields) + "\n"
    return f'time="{fields["time"]}" level=error msg={jsonlite.dumps(fields["msg"])}\n'


def _version() -> str:
    """Return what dockerd and podman parse: name and version, commit, spec."""
    python = sys.version.split()[0]
    lines = (
        f"minirun version {__version__}", f"commit: v{__version__}", f"spec: {state.OCI_VERSION}",
        f"python: {python}",
    )  # fmt: skip
    return "\n".join(lines) + "\n"
