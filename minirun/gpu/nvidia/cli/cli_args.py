"""The command line of nvidia-container-cli: [GLOBAL OPTION]… info|list|configure [OPTION]…

One table for stage 5, which does `configure` in-line, and for the program of that name. The rules
are argp's (GNU libc): `--name=value`, `--name value`, `-nvalue`, letters of switches in one word, a
long name may be shortened, an error is one line and where help is. Written by hand: argparse would
cost more than all of stage 5.
"""

import os

from minirun.core.errors import UsageError
from minirun.core.record import Record
from minirun.gpu.request import CAPABILITIES, NvidiaRequest

NAME = "nvidia-container-cli"


_MIG = """\
      --compat32                   Enable 32bits compatibility
      --mig-config=ID              Enable configuration of MIG devices
      --mig-monitor=ID             Enable monitoring of MIG devices
      --imex-channel=CHANNEL       IMEX channel ID(s) to inject
      --no-persistenced            Don't include the NVIDIA persistenced socket
      --no-fabricmanager           Don't include the NVIDIA fabricmanager socket
      --no-gsp-firmware            Don't include GSP firmware
"""
_HELP = """\
  -?, --help                       Give this help list
      --usage                      Give this help list, too
  -V, --version                    Print program version
"""
OPTIONS = {
    "": f"""\
  -d, --debug=FILE                 Log debug information
  -k, --load-kmods                 Load kernel modules
  -n, --no-pivot                   Do not use pivot_root
  -u, --user[=UID[:GID]]           User and group to ask the driver as
  -r, --root=PATH                  Path to the driver root directory
  -l, --ldcache=FILE               Path to the system's DSO cache
      --no-create-imex-channels    Don't create IMEX channel device nodes
      --gpu-driver=NAME            nvidia or simulated (minirun's own; default nvidia)
{_HELP}""",
    "info": f"""\
      --csv                        Output in CSV format
{_HELP}""",
    "list": f"""\
  -d, --device=ID                  Device UUID(s) or index(es) to list
  -l, --libraries                  List driver libraries
  -b, --binaries                   List driver binaries
  -i, --ipcs                       List driver ipcs
  -f, --firmwares                  List driver firmwares
{_MIG}{_HELP}""",
    "configure": f"""\
  -p, --pid=PID                    Container PID (default: around this process)
  -d, --device=ID                  Device UUID(s) or index(es) to isolate
  -r, --require=EXPR               Check container requirements
  -l, --ldconfig=PATH              Path to the ldconfig binary, @PATH for the host's
  -c, --compute                    Enable compute capability
  -u, --utility                    Enable utility capability
  -v, --video                      Enable video capability
  -g, --graphics                   Enable graphics capability
  -D, --display                    Enable display capability
  -n, --ngx                        Enable ngx capability
      --no-cgroups                 Don't use cgroup enforcement
      --no-devbind                 Don't bind mount devices
      --cuda-compat-mode=MODE      CUDA compatibility: mount, ldconfig or disabled
      --no-cntlibs                 The same as --cuda-compat-mode=disabled
{_MIG}{_HELP}""",
}
"""Command → its options, as --help prints them; "" → the global ones before it."""
HELP = ("--help", "--usage", "--version")


class Option(Record):
    """An option: its long name, its letter, and whether it takes a value."""

    name: str
    letter: str
    has_value: bool
    is_optional: bool
    """The value may be left out: --user alone is the caller's uid and gid."""


def options(command: str) -> "list[Option]":
    """Return the options of a command."""
    found = []
    for row in OPTIONS[command].splitlines():
        letter, (name, equals, _) = row[2:4].strip(), row[6:].split(" ", 1)[0].partition("=")
        found.append(Option(name.rstrip("["), letter[1:], bool(equals), name.endswith("[")))
    return found


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
    request, rows, typed, arguments = NvidiaRequest(), options(""), [], []
    while words:
        if words[0].startswith("-") and words[0] != "-":
            for option, value in _next(command, rows, words):
                if option.name in HELP:
                    return CommandLine(command, NvidiaRequest(), help=option.name)
                request = _with(request, option, value)
                typed += [f"{option.name}={value}" if option.has_value else option.name]
                driver = value if option.name == "--gpu-driver" else driver
        elif command:
            arguments.append(words.pop(0))
        else:
            command, typed = words.pop(0), []
            if not command or command not in OPTIONS:
                raise UsageError(synopsis(""), status=1)
            rows = options(command)
    if not command or len(arguments) != (command == "configure"):
        raise UsageError(synopsis(command), status=1)
    capabilities = tuple(name for name in CAPABILITIES if name in request.capabilities)
    request = request._replace(capabilities=capabilities, rootfs="".join(arguments))
    return CommandLine(command, request, (*typed, *arguments), driver)


def synopsis(command: str) -> str:
    """Return the line that says how a command is called; the program itself for ""."""
    arguments = {"": " COMMAND [ARG...]", "configure": " ROOTFS"}.get(command, "")
    return f"Usage: {f'{NAME} {command}'.rstrip()} [OPTION...]{arguments}"


def _next(command: str, rows: "list[Option]", words: "list[str]") -> "list[tuple[Option, str]]":
    """Take the next word off `words`; return each option in it, with its value ("" of a switch).

    `rows` are the command's options. A word of letters may hold several.
    """
    word = words.pop(0)
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        option = _by_name(command, rows, name)
        return [(option, _value(command, option, value if equals else None, words))]
    found: "list[tuple[Option, str]]" = []
    for at, letter in enumerate(word[1:], 2):
        named = "?" if letter == "h" else letter
        row = next((row for row in rows if row.letter == named), None)
        if row is None:
            raise _error(command, f"invalid option -- '{letter}'")
        if row.has_value:
            return [*found, (row, _value(command, row, word[at:] or None, words))]
        found.append((row, ""))
    return found


def _by_name(command: str, rows: "list[Option]", name: str) -> Option:
    """Return the option with this name, or the only one whose name begins so."""
    found = [row for row in rows if row.name == name]
    found = found or [row for row in rows if row.name.startswith(name)]
    if len(found) != 1:
        text = f"option '{name}' is ambiguous" if found else f"unrecognized option '{name}'"
        raise _error(command, text)
    return found[0]


def _value(command: str, option: Option, value: "str | None", words: "list[str]") -> str:
    """Return the value of an option: the one given with it, or the next of `words`."""
    if not option.has_value:
        if value is not None:
            raise _error(command, f"option '{option.name}' doesn't allow an argument")
        return ""
    if value is None and option.is_optional:
        return f"{os.geteuid()}:{os.getegid()}"
    if value is None and not words:
        raise _error(command, f"option '{option.name}' requires an argument")
    return words.pop(0) if value is None else value


def _with(request: NvidiaRequest, option: Option, value: str) -> NvidiaRequest:
    """Return `request` with what one option says; unchanged if it has no field for that."""
    name, field = option.name[2:], _LISTS.get(option.name, option.name[2:].replace("-", "_"))
    new: object = value if option.has_value else True
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
