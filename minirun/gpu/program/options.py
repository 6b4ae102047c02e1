"""The command line of nvidia-container-cli: [GLOBAL OPTION]… info|list|configure [OPTION]…

The rules are argp's (GNU libc): `--name=value`, `--name value`, `-nvalue`, letters of switches in
one word, a long name may be shortened, an error is one line and where help is. `configure` is the
same list that stage 5 reads (minirun.gpu.cli_args); this module, which only the program needs,
turns whatever was typed into that list, and reads the rest.
"""

import os

from minirun.errors import UsageError
from minirun.gpu import cli_args, compat
from minirun.gpu.request import Request
from minirun.record import Record

NAME = "nvidia-container-cli"
COMMANDS = ("info", "list", "configure")


class Option(Record):
    """An option: long name, letter, what its value is called ("" for a switch), help."""

    name: str
    letter: str
    value: str
    help: str
    optional: bool = False


GLOBAL = (
    Option("--debug", "-d", "FILE", "Log debug information"),
    Option("--load-kmods", "-k", "", "Load kernel modules"),
    Option("--no-pivot", "-n", "", "Do not use pivot_root"),
    Option("--user", "-u", "UID[:GID]", "User and group to ask the driver as", optional=True),
    Option("--root", "-r", "PATH", "Path to the driver root directory"),
    Option("--ldcache", "-l", "FILE", "Path to the system's DSO cache"),
    Option("--no-create-imex-channels", "", "", "Don't create IMEX channel device nodes"),
    Option("--gpu-driver", "", "NAME", "nvidia or simulated (minirun's own; default nvidia)"),
)
INFO = (Option("--csv", "", "", "Output in CSV format"),)
_MIG = (
    Option("--mig-config", "", "ID", "Enable configuration of MIG devices"),
    Option("--mig-monitor", "", "ID", "Enable monitoring of MIG devices"),
    Option("--imex-channel", "", "CHANNEL", "IMEX channel ID(s) to inject"),
)
_NO = (
    Option("--no-persistenced", "", "", "Don't include the NVIDIA persistenced socket"),
    Option("--no-fabricmanager", "", "", "Don't include the NVIDIA fabricmanager socket"),
    Option("--no-gsp-firmware", "", "", "Don't include GSP firmware"),
)
LIST = (
    Option("--device", "-d", "ID", "Device UUID(s) or index(es) to list"),
    Option("--libraries", "-l", "", "List driver libraries"),
    Option("--binaries", "-b", "", "List driver binaries"),
    Option("--ipcs", "-i", "", "List driver ipcs"),
    Option("--firmwares", "-f", "", "List driver firmwares"),
    Option("--compat32", "", "", "Enable 32bits compatibility"),
    *_MIG, *_NO,
)  # fmt: skip
CONFIGURE = (
    Option("--pid", "-p", "PID", "Container PID (default: around this process)"),
    Option("--device", "-d", "ID", "Device UUID(s) or index(es) to isolate"),
    Option("--require", "-r", "EXPR", "Check container requirements"),
    Option("--ldconfig", "-l", "PATH", "Path to the ldconfig binary, @PATH for the host's"),
    Option("--compute", "-c", "", "Enable compute capability"),
    Option("--utility", "-u", "", "Enable utility capability"),
    Option("--video", "-v", "", "Enable video capability"),
    Option("--graphics", "-g", "", "Enable graphics capability"),
    Option("--display", "-D", "", "Enable display capability"),
    Option("--ngx", "-n", "", "Enable ngx capability"),
    Option("--compat32", "", "", "Enable 32bits compatibility"),
    *_MIG,
    Option("--no-cgroups", "", "", "Don't use cgroup enforcement"),
    Option("--no-devbind", "", "", "Don't bind mount devices"),
    *_NO,
    Option("--cuda-compat-mode", "", "MODE", "CUDA compatibility: mount, ldconfig or disabled"),
    Option("--no-cntlibs", "", "", "The same as --cuda-compat-mode=disabled"),
)  # fmt: skip
OPTIONS = {"": GLOBAL, "info": INFO, "list": LIST, "configure": CONFIGURE}
HELP = ("--help", "--usage", "-?", "-h", "--version", "-V")


class Line(Record):
    """A command line that was read."""

    command: str
    request: Request
    switches: "frozenset[str]"
    """The switches of info and list, by name."""
    gpu_driver: str
    words: "tuple[str, ...]"
    """The command's words, each option by its whole name and with its value in one word."""
    help: str = ""
    """--help, --usage or --version, where that was asked for; then nothing else counts."""


def parse(argv: "list[str]") -> Line:
    """Read the command line. Raises UsageError, in argp's words."""
    words = list(argv)
    before, driver = [], "nvidia"
    while words and words[0].startswith("-"):
        for word in _next("", words):
            if word in HELP:
                return Line("", Request(), frozenset(), driver, (), word)
            if word.startswith("--gpu-driver="):
                driver = word.partition("=")[2]
            else:
                before.append(word)
    command = words.pop(0) if words else ""
    if command not in COMMANDS:
        raise UsageError(usage("").splitlines()[0], status=1)
    options: "list[str]" = []
    arguments: "list[str]" = []
    while words:
        if words[0].startswith("-") and words[0] != "-":
            options += _next(command, words)
        else:
            arguments.append(words.pop(0))
    for word in options:
        if word in HELP:
            return Line(command, Request(), frozenset(), driver, (), word)
    return _line(command, before, options, arguments, driver)


def _line(
    command: str, before: "list[str]", options: "list[str]", arguments: "list[str]", driver: str
) -> Line:
    """Check the arguments, and read the options as stage 5 does."""
    if len(arguments) != (command == "configure"):
        raise UsageError(usage(command).splitlines()[0], status=1)
    if arguments and (not arguments[0].startswith("/") or arguments[0] == "/"):
        raise UsageError(f"{NAME}: input error: invalid rootfs directory", status=1)
    known = [word for word in options if word.partition("=")[0] in _readable()]
    own = frozenset(options) - frozenset(known)
    request = cli_args.parse([*before, "configure", *known, *(arguments or ["/"])])
    if request.cuda_compat_mode not in ("", *compat.MODES):
        raise UsageError(f"{NAME}: input error: invalid cuda-compat-mode", status=1)
    words = (*options, *arguments)
    return Line(command, request, own | frozenset(known), driver, words)


def _readable() -> "frozenset[str]":
    return frozenset(option.name for option in CONFIGURE)


def _next(command: str, words: "list[str]") -> "list[str]":
    """Take the next option off `words`; return it as --name or --name=value.

    A word of letters may hold several.
    """
    word = words.pop(0)
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if name in HELP:
            return [name]
        return [_whole(command, _long(command, name), value if equals else None, words)]
    found: "list[str]" = []
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}" in HELP and not any(o.letter == f"-{letter}" for o in OPTIONS[command]):
            return [*found, f"-{letter}"]
        option = next((o for o in OPTIONS[command] if o.letter == f"-{letter}"), None)
        if option is None:
            raise _error(command, f"invalid option -- '{letter}'")
        if option.value:
            return [*found, _whole(command, option, word[at:] or None, words)]
        found.append(option.name)
    return found


def _long(command: str, name: str) -> Option:
    """Return the option with this name, or the only one that begins with it."""
    options = OPTIONS[command]
    found = [o for o in options if o.name == name] or [
        option for option in options if option.name.startswith(name)
    ]
    if len(found) != 1:
        text = f"option '{name}' is ambiguous" if found else f"unrecognized option '{name}'"
        raise _error(command, text)
    return found[0]


def _whole(command: str, option: Option, value: "str | None", words: "list[str]") -> str:
    if not option.value:
        if value is not None:
            raise _error(command, f"option '{option.name}' doesn't allow an argument")
        return option.name
    if value is None and option.optional:
        value = f"{os.geteuid()}:{os.getegid()}"  # of --user alone
    if value is None:
        if not words:
            raise _error(command, f"option '{option.name}' requires an argument")
        value = words.pop(0)
    return f"{option.name}={value}"


def _error(command: str, text: str) -> UsageError:
    name = f"{NAME} {command}".rstrip()
    return UsageError(f"{name}: {text}", f"Try `{name} --help'", status=1)


def usage(command: str) -> str:
    """Return the help of a command, of the program itself for ""."""
    name = f"{NAME} {command}".rstrip()
    arguments = {"": "COMMAND [ARG...]", "configure": "ROOTFS"}.get(command, "")
    lines = [f"Usage: {name} [OPTION...] {arguments}".rstrip(), "", " Options:"]
    for option in OPTIONS[command]:
        value = f"[={option.value}]" if option.optional else f"={option.value}" * bool(option.value)
        left = f"{option.letter + ',' if option.letter else '   '} {option.name}{value}"
        lines.append(f"  {left:<32} {option.help}")
    lines.append(f"  {'-?, --help':<32} Give this help list")
    if not command:
        lines += ["", " Commands:"]
        lines.append("  info        Report information about the driver and devices")
        lines.append("  list        List driver components")
        lines.append("  configure   Configure a container with GPU support")
    return "\n".join(lines) + "\n"
