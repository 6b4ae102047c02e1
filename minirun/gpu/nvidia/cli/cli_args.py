"""The command line of nvidia-container-cli: [GLOBAL OPTION]… info|list|configure [OPTION]…

One table for stage 5, which does `configure` in-line, and for the program of that name. The rules
are argp's (GNU libc): `--name=value`, `--name value`, `-nvalue`, letters of switches in one word, a
long name may be shortened, an error is one line and where help is. Written by hand: argparse would
cost more than all of stage 5.
"""

import os

from minirun.core.errors import UsageError
from minirun.core.record import Record
from minirun.gpu.nvidia.cli.catalog import CAPABILITIES
from minirun.gpu.request import NvidiaRequest

NAME = "nvidia-container-cli"


class Option(Record):
    """An option: long name, letters, what its value is called ("" for a switch), help."""

    name: str
    letters: str
    value: str
    help: str
    optional: bool = False
    """The value may be left out: --user alone is the caller's uid and gid."""


HELP = (
    Option("--help", "?h", "", "Give this help list"),
    Option("--usage", "", "", "Give this help list, too"),
    Option("--version", "V", "", "Print program version"),
)
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
OPTIONS = {
    "": (
        Option("--debug", "d", "FILE", "Log debug information"),
        Option("--load-kmods", "k", "", "Load kernel modules"),
        Option("--no-pivot", "n", "", "Do not use pivot_root"),
        Option("--user", "u", "UID[:GID]", "User and group to ask the driver as", optional=True),
        Option("--root", "r", "PATH", "Path to the driver root directory"),
        Option("--ldcache", "l", "FILE", "Path to the system's DSO cache"),
        Option("--no-create-imex-channels", "", "", "Don't create IMEX channel device nodes"),
        Option("--gpu-driver", "", "NAME", "nvidia or simulated (minirun's own; default nvidia)"),
        *HELP,
    ),
    "info": (Option("--csv", "", "", "Output in CSV format"), *HELP),
    "list": (
        Option("--device", "d", "ID", "Device UUID(s) or index(es) to list"),
        Option("--libraries", "l", "", "List driver libraries"),
        Option("--binaries", "b", "", "List driver binaries"),
        Option("--ipcs", "i", "", "List driver ipcs"),
        Option("--firmwares", "f", "", "List driver firmwares"),
        Option("--compat32", "", "", "Enable 32bits compatibility"),
        *_MIG, *_NO, *HELP,
    ),
    "configure": (
        Option("--pid", "p", "PID", "Container PID (default: around this process)"),
        Option("--device", "d", "ID", "Device UUID(s) or index(es) to isolate"),
        Option("--require", "r", "EXPR", "Check container requirements"),
        Option("--ldconfig", "l", "PATH", "Path to the ldconfig binary, @PATH for the host's"),
        Option("--compute", "c", "", "Enable compute capability"),
        Option("--utility", "u", "", "Enable utility capability"),
        Option("--video", "v", "", "Enable video capability"),
        Option("--graphics", "g", "", "Enable graphics capability"),
        Option("--display", "D", "", "Enable display capability"),
        Option("--ngx", "n", "", "Enable ngx capability"),
        Option("--compat32", "", "", "Enable 32bits compatibility"),
        *_MIG,
        Option("--no-cgroups", "", "", "Don't use cgroup enforcement"),
        Option("--no-devbind", "", "", "Don't bind mount devices"),
        *_NO,
        Option("--cuda-compat-mode", "", "MODE", "CUDA compatibility: mount, ldconfig or disabled"),
        Option("--no-cntlibs", "", "", "The same as --cuda-compat-mode=disabled"),
        *HELP,
    ),
}  # fmt: skip
"""Command → its options, "" → the global ones before it."""
_LISTS = {"--device": "devices", "--imex-channel": "imex_channels", "--require": "requirements"}
"""Option that may be repeated → field of Request; all others are called as their field is."""


class CommandLine(Record):
    """A command line of nvidia-container-cli that was read."""

    command: str
    request: NvidiaRequest
    """What the options say; those of `info` and `list` alone are only among `words`."""
    words: "tuple[str, ...]" = ()
    """The command's words, each option by its whole name and with its value in one word."""
    gpu_driver: str = "nvidia"
    help: str = ""
    """--help, --usage or --version if that was asked for; then nothing else counts."""


def parse(argv: "list[str]") -> CommandLine:
    """Read an argument list (without the program's name). Raises UsageError, in argp's words."""
    words, command, driver = list(argv), "", "nvidia"
    request, typed, arguments = NvidiaRequest(), [], []
    while words:
        if words[0].startswith("-") and words[0] != "-":
            for option, value in _next(command, words):
                if option in HELP:
                    return CommandLine(command, NvidiaRequest(), help=option.name)
                request = _with(request, option, value)
                typed += [f"{option.name}={value}" if option.value else option.name]
                driver = value if option.name == "--gpu-driver" else driver
        elif command:
            arguments.append(words.pop(0))
        else:
            command, typed = words.pop(0), []
            if not command or command not in OPTIONS:
                raise UsageError(synopsis(""), status=1)
    if not command or len(arguments) != (command == "configure"):
        raise UsageError(synopsis(command), status=1)
    capabilities = tuple(name for name in CAPABILITIES if name in request.capabilities)
    request = request._replace(capabilities=capabilities, rootfs="".join(arguments))
    return CommandLine(command, request, (*typed, *arguments), driver)


def synopsis(command: str) -> str:
    """Return the line that says how a command is called; the program itself for ""."""
    arguments = {"": " COMMAND [ARG...]", "configure": " ROOTFS"}.get(command, "")
    return f"Usage: {f'{NAME} {command}'.rstrip()} [OPTION...]{arguments}"


def _next(command: str, words: "list[str]") -> "list[tuple[Option, str]]":
    """Take the next word off `words`; return each option in it, with its value ("" of a switch).

    A word of letters may hold several.
    """
    word = words.pop(0)
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        option = _by_name(command, name)
        return [(option, _value(command, option, value if equals else None, words))]
    found: "list[tuple[Option, str]]" = []
    for at, letter in enumerate(word[1:], 2):
        fitting = (option for option in OPTIONS[command] if letter in option.letters)
        letter_of = next(fitting, None)
        if letter_of is None:
            raise _error(command, f"invalid option -- '{letter}'")
        if letter_of.value:
            return [*found, (letter_of, _value(command, letter_of, word[at:] or None, words))]
        found.append((letter_of, ""))
    return found


def _by_name(command: str, name: str) -> Option:
    """Return the option with this name, or the only one whose name begins so."""
    options = OPTIONS[command]
    found = [option for option in options if option.name == name] or [
        option for option in options if option.name.startswith(name)
    ]
    if len(found) != 1:
        text = f"option '{name}' is ambiguous" if found else f"unrecognized option '{name}'"
        raise _error(command, text)
    return found[0]


def _value(command: str, option: Option, value: "str | None", words: "list[str]") -> str:
    """Return the value of an option: the one given with it, or the next of `words`."""
    if not option.value:
        if value is not None:
            raise _error(command, f"option '{option.name}' doesn't allow an argument")
        return ""
    if value is None and option.optional:
        return f"{os.geteuid()}:{os.getegid()}"
    if value is None and not words:
        raise _error(command, f"option '{option.name}' requires an argument")
    return words.pop(0) if value is None else value


def _with(request: NvidiaRequest, option: Option, value: str) -> NvidiaRequest:
    """Return `request` with what one option says; unchanged if it has no field for that."""
    name, field = option.name[2:], _LISTS.get(option.name, option.name[2:].replace("-", "_"))
    new: object = value if option.value else True
    if name in CAPABILITIES:
        field, new = "capabilities", (*request.capabilities, name)
    elif name == "require":
        new = (*request.requirements, value)
    elif option.name in _LISTS:
        new = (*getattr(request, field), *filter(None, value.split(",")))
    elif name == "pid":
        new = _pid(value)
    fields = request._asdict()
    return NvidiaRequest(**{**fields, field: new}) if field in fields else request


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        raise UsageError(f"{NAME}: --pid={text} is no process id", status=1)
    return int(text)


def _error(command: str, text: str) -> UsageError:
    name = f"{NAME} {command}".rstrip()
    return UsageError(f"{name}: {text}", f"Try `{name} --help'", status=1)
