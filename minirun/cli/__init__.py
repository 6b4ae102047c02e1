"""The command line: a table of commands, each in a module that is imported when it is called."""

import os
import sys

from minirun import __version__
from minirun.cli.flags import HELP, LANG, Flag, parse
from minirun.core.choices import Choices
from minirun.core.errors import MinirunError, UsageError, as_runc, from_os
from minirun.core.places import ROOT, STORE, default_root
from minirun.core.settings import LANGUAGES, Settings
from minirun.engines import rootless

COMMANDS = {
    "run": ("run", "run a command in a new container, stage by stage"),
    "create": ("oci", "create a container from a bundle; it waits for start"),
    "start": ("start", "let a created container run its command"),
    "state": ("state", "print a container's state as JSON"),
    "kill": ("kill", "send a signal to a container"),
    "delete": ("delete", "delete a container and all that belongs to it"),
    "exec": ("exec", "run another command in a running container"),
    "ps": ("ps", "list containers, or the processes of one"),
    "list": ("list", "list containers, as runc does"),
    "pause": ("pause", "suspend all processes of a container"),
    "resume": ("pause", "let a paused container go on"),
    "update": ("update", "change the limits of a container"),
    "events": ("watch", "show the log as it grows; with an id, what it uses, as runc does"),
    "checkpoint": ("checkpoint", "save a running container to files, through CRIU"),
    "restore": ("checkpoint", "make a container again from such files"),
    "features": ("features", "say as JSON what this runtime can do, for engines"),
    "logs": ("logs", "print what a container has written"),
    "inspect": ("inspect", "show what a container is made of"),
    "timeline": ("timeline", "show a container's start again: lanes, page, trace or text"),
    "replay": ("replay", "play a recorded start; on any system, without root"),
    "diff": ("diff", "show what a stage changed in a container"),
    "explain": ("explain", "say what an error, an event or a stage means, and what to try"),
    "spec": ("spec", "print a config.json"),
    "images": ("images", "list, build, import and remove images"),
    "gpu": ("gpu", "show GPUs and who uses them"),
    "nvidia-container-cli": ("nvidia_container_cli", "put GPUs into a container: stage 5 alone"),
    "nvidia-container-runtime": ("nvidia_runtime", "runc for engines, with GPUs in config.json"),
    "nvidia-container-runtime-hook": ("nvidia_hook", "the prestart hook: stage 4 for any runtime"),
    "nvidia-ctk": ("nvidia_ctk", "register a runtime with an engine; CDI specs; /dev/char"),
    "nvidia-cdi-hook": ("cdi_hook", "what CDI specs call in a container: links, ld.so.cache"),
    "gc": ("gc", "finish what killed commands left behind"),
    "doctor": ("doctor", "say what this machine can and cannot do, stage by stage"),
    "teach": ("teach", "lessons and checks: the oracle compares the log with strace"),
}
"""Name → (module in minirun.cli, one line of help). tests/cli checks each."""
RUNC = frozenset(
    (
        "create", "start", "state", "kill", "delete", "ps", "list", "pause", "resume",
        "update", "events", "features", "spec", "checkpoint", "restore",
    )
)  # fmt: skip
"""runc's own: where docker's errors end with status 125, theirs end with 1. (exec: with 255.)"""

_OWN_ROOT = "without root $XDG_RUNTIME_DIR/minirun"
_OWN_STORE = "without root ~/.local/share/minirun"
GLOBAL_FLAGS = (
    Flag(("--root",), "DIR", f"where containers are kept ({ROOT}, $MINIRUN_ROOT; {_OWN_ROOT})"),
    Flag(("--store",), "DIR", f"where images are kept ({STORE}, $MINIRUN_STORE; {_OWN_STORE})"),
    Flag(("--cgroup",), "VERSION", "which cgroups to use: auto, v1 or v2", default="auto"),
    Flag(("--log",), "FILE", "write errors, and with `run IMAGE` all events, to FILE"),
    Flag(("--log-format",), "FORMAT", "text or json", default="text"),
    Flag(("--debug",), "", "show a traceback with an error"),
    LANG,
    Flag(("--systemd-cgroup",), "", "create and run: have systemd make the cgroup, over D-Bus"),
    Flag(("--rootless",), "WHEN", "without root: false: insist on a cgroup", default="auto"),
    Flag(("--gpu-driver",), "NAME", "for engines: nvidia, simulated, amd, intel or gaudi"),
    Flag(("--gpus",), "GPUS", "for engines, of amd, intel or gaudi: which, instead of a variable"),
    Flag(("--driver-root",), "DIR", "for engines: where the GPU driver is, if not in /"),
    Flag(("--load-kmods",), "", "for engines: load NVIDIA's kernel modules and make its nodes"),
    Flag(("--gpu-exclusive",), "", "for engines: no other container gets this one's GPUs"),
    Flag(("-v", "--version"), "", "print the version and exit"),
    HELP,
)
_NO_COMMAND, _UNKNOWN = 0, 3


def main(argv: "list[str] | None" = None) -> int:
    """Run the program with these arguments (sys.argv's by default); return its exit status."""
    words = _called_as() if argv is None else argv
    settings = Settings()
    try:
        options = parse("", GLOBAL_FLAGS, words)
        if options.version:
            return _print(_version())
        if options.help or not options.args:
            return _print(_overview())
        settings = _settings(options.values)
        return _dispatch(options.args[0], options.args[1:], settings)
    except MinirunError as error:
        return report(error, settings)
    except OSError as error:
        if error.errno == 32:  # EPIPE: whoever read our output has gone
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
        module = __import__(f"minirun.cli.{COMMANDS[name][0]}", fromlist=["main"])
    except (ImportError, AttributeError, OSError):
        if sys.platform == "linux":
            raise
        raise UsageError(f"{name} needs Linux", "replay and timeline FILE do not") from None
    entry = getattr(module, f"main_{name}", None) or module.main
    if name in RUNC:
        return as_runc(lambda: int(entry(args, settings)))
    return int(entry(args, settings))


def _settings(values: "dict[str, str]") -> Settings:
    store = values["store"] or os.environ.get("MINIRUN_STORE") or ""
    root = values["root"] or os.environ.get("MINIRUN_ROOT") or (store and default_root(store))
    if not (store and root):
        usual_store, usual_root = rootless.places()
        store, root = store or usual_store, root or usual_root
    if values["cgroup"] not in ("auto", "v1", "v2"):
        raise UsageError(f"invalid --cgroup {values['cgroup']!r}", "auto, v1 or v2")
    if values["log_format"] not in ("text", "json"):
        raise UsageError(f"invalid --log-format {values['log_format']!r}", "text or json")
    if values["lang"] not in ("", *LANGUAGES):
        raise UsageError(f"unknown language {values['lang']!r}", " or ".join(LANGUAGES))
    if values["rootless"] not in ("true", "false", "auto"):
        raise UsageError(f"invalid --rootless {values['rootless']!r}", "true, false or auto")
    gates = tuple(stop for stop in os.environ.get("MINIRUN_GATES", "").split(",") if stop)
    return Settings(
        os.path.abspath(root), os.path.abspath(store), values["cgroup"], bool(values["debug"]),
        values["log"], values["log_format"], gates, bool(values["systemd_cgroup"]),
        values["rootless"], bool(values["root"] or os.environ.get("MINIRUN_ROOT")),
        Choices(
            gpu_driver=values["gpu_driver"], gpus=values["gpus"] or None,
            driver_root=values["driver_root"], load_kmods=bool(values["load_kmods"]),
            exclusive=bool(values["gpu_exclusive"]),
        ),
        values["lang"],
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
    from minirun.core import jsonlite
    from minirun.core.state import timestamp

    fields = {"level": "error", "msg": error.line(), "time": timestamp()}
    if settings.log_format == "json":
        return jsonlite.dumps(fields) + "\n"
    return f'time="{fields["time"]}" level=error msg={jsonlite.dumps(fields["msg"])}\n'


def _version() -> str:
    """Return what dockerd and podman parse: name and version, commit, spec."""
    from minirun.core.state import OCI_VERSION

    python = sys.version.split()[0]
    lines = (
        f"minirun version {__version__}", f"commit: v{__version__}", f"spec: {OCI_VERSION}",
        f"python: {python}",
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def _overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    rows = [f"  {name:<{width}}{text}" for name, (_, text) in COMMANDS.items()]
    flags = [f"  {', '.join(f.names)} {f.value}".ljust(24) + f.help for f in GLOBAL_FLAGS]
    head = "Usage: minirun [flags] COMMAND …\n\nA container runtime that shows its seven stages."
    return "\n".join([head, "", "Commands:", *rows, "", "Flags:", *flags, ""])


def _print(text: str) -> int:
    os.write(1, text.encode())
    return 0
