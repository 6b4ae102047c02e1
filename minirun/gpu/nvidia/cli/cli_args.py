"""The command line of nvidia-container-cli: [GLOBAL OPTION]… info|list|configure [OPTION]…

The rules are argp's (GNU libc): `--name=value`, `--name value`, `-nvalue`, letters of switches in
one word, a long name may be shortened, an error is one line and where help is. Each option becomes
one whole word, as the hook writes it, and is read as in stage 5: minirun.gpu.nvidia.hook.read.
"""

from __future__ import annotations

import os

from minirun.core.errors import UsageError
from minirun.core.keeping.record import Record
from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.nvidia import hook

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
      --gpu-driver=NAME            nvidia or simulated (default: as $MINIRUN_SIM is set)
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


def options(command: str) -> list[Option]:
    """Return the options of a command."""
    found = []
    for row in OPTIONS[command].splitlines():
        letter, (name, equals, _) = row[2:4].strip(), row[6:].split(" ", 1)[0].partition("=")
        found.append(Option(name.rstrip("["), letter[1:], bool(equals), name.endswith("[")))
    return found


class CommandLine(Record):
    """A command line of nvidia-container-cli that was read."""

    command: str
    request: NvidiaRequest
    """What the options say; those of `info` and `list` alone are only among `words`."""
    words: tuple[str, ...] = ()
    """The command's words, each option by its whole name and with its value in one word."""
    gpu_driver: str = ""
    is_bare: bool = False
    """Nothing follows the command, or one word that names IMEX channels: `list` lists all then."""
    help: str = ""
    """--help, --usage or --version if that was asked for; then nothing else counts."""


def parse(argv: list[str]) -> CommandLine:
    """Read an argument list (without the program's name). Raises UsageError, in argp's words."""
    words, command, given = list(argv), "", 0
    rows, arguments = options(""), []
    before: list[str] = []
    typed: list[str] = []
    while words:
        if words[0].startswith("-") and words[0] != "-":
            typed += _next(command, rows, words)
            if asked := next((word for word in typed if word in HELP), ""):
                return CommandLine(command, NvidiaRequest(), help=asked)
        elif command:
            arguments.append(words.pop(0))
        else:
            command, before, typed = words.pop(0), typed, []
            if not command or command not in OPTIONS:
                raise UsageError(synopsis(""), status=1)
            rows, given = options(command), len(words)
    if not command or len(arguments) != (command == "configure"):
        raise UsageError(synopsis(command), status=1)
    request = hook.read([command, *before, *typed, "".join(arguments)])
    driver = dict(word.partition("=")[::2] for word in before).get("--gpu-driver", "")
    is_bare = given == (1 if request.imex_channels else 0)
    return CommandLine(command, request, (*typed, *arguments), driver, is_bare)


def synopsis(command: str) -> str:
    """Return the line that says how a command is called; the program itself for ""."""
    arguments = {"": " COMMAND [ARG...]", "configure": " ROOTFS"}.get(command, "")
    return f"Usage: {f'{NAME} {command}'.rstrip()} [OPTION...]{arguments}"


def _next(command: str, rows: list[Option], words: list[str]) -> list[str]:
    """Take the next word off `words`; return each option in it as a whole word, with its value.

    `rows` are the command's options. A word of letters may hold several.
    """
    word = words.pop(0)
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        option = _by_name(command, rows, name)
        return [_whole(command, option, value if equals else None, words)]
    found: list[str] = []
    for at, letter in enumerate(word[1:], 2):
        named = "?" if letter == "h" else letter
        row = next((row for row in rows if row.letter == named), None)
        if row is None:
            raise _error(command, f"invalid option -- '{letter}'")
        if row.has_value:
            return [*found, _whole(command, row, word[at:] or None, words)]
        found.append(row.name)
    return found


def _by_name(command: str, rows: list[Option], name: str) -> Option:
    """Return the option with this name, or the only one whose name begins so."""
    found = [row for row in rows if row.name == name]
    found = found or [row for row in rows if row.name.startswith(name)]
    if len(found) != 1:
        text = f"option '{name}' is ambiguous" if found else f"unrecognized option '{name}'"
        raise _error(command, text)
    return found[0]


def _whole(command: str, option: Option, value: str | None, words: list[str]) -> str:
    """Return an option with its value: the one given with it, or the next of `words`."""
    if not option.has_value:
        if value is not None:
            raise _error(command, f"option '{option.name}' doesn't allow an argument")
        return option.name
    if value is None and option.is_optional:
        value = f"{os.geteuid()}:{os.getegid()}"
    if value is None and not words:
        raise _error(command, f"option '{option.name}' requires an argument")
    return f"{option.name}={words.pop(0) if value is None else value}"


def _error(command: str, text: str) -> UsageError:
    name = f"{NAME} {command}".rstrip()
    return UsageError(f"{name}: {text}", f"Try `{name} --help'", status=1)
