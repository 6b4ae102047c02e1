"""Reading a command line, in 100 lines: argparse would cost 8 ms at every start.

GNU's rules: ``--name value``, ``--name=value``, ``-it`` for ``-i -t``, ``-eA=1``, ``--`` ends the
flags. docker's: in a command that takes an image and a command, flags end at the first argument.
"""

import os

from minirun.core.errors import UsageError
from minirun.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Flag(Record):
    """One flag: its names, what its value is called ("" for a switch), and what it does."""

    names: "tuple[str, ...]"
    value: str
    help: str
    many: bool = False
    default: str = ""
    optional: str = ""
    """The value that the flag has without one; with it, a value needs the `=`."""

    @property
    def key(self) -> str:
        """The name under which its value is found: the longest, with _ for -."""
        return max(self.names, key=len).lstrip("-").replace("-", "_")


class Parsed:
    """Values by flag, and the arguments. A switch is a bool, a flag a str, a many-flag a list."""

    def __init__(self, flags: "tuple[Flag, ...]") -> None:
        self.values: dict[str, Any] = {}
        self.given: set[str] = set()
        self.args: list[str] = []
        for flag in flags:
            empty: Any = [] if flag.many else flag.default if flag.value else False
            self.values[flag.key] = empty

    def __getattr__(self, name: str) -> "Any":
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


def parse(
    command: str, flags: "tuple[Flag, ...]", argv: "list[str]", *, mixed: bool = False
) -> Parsed:
    """Read `argv`; with `mixed`, flags may stand after arguments too.

    Raises UsageError in docker's words.
    """
    by_name = {name: flag for flag in flags for name in flag.names}
    parsed = Parsed(flags)
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if word == "-" or not word.startswith("-"):
            parsed.args.append(word)
            if mixed:
                continue
            break
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            _take(command, parsed, by_name, name, value if equals else None, rest)
        else:
            _short(command, parsed, by_name, word, rest)
    parsed.args += rest
    return parsed


def _short(
    command: str, parsed: Parsed, by_name: "dict[str, Flag]", word: str, rest: "list[str]"
) -> None:
    """Read -it, -eA=1 and the like: switches, of which the last may be a flag with its value."""
    for index in range(1, len(word)):
        name = f"-{word[index]}"
        flag = by_name.get(name)
        if flag and flag.value and index + 1 < len(word):
            value = word[index + 1 :].removeprefix("=")
            _take(command, parsed, by_name, name, value, rest)
            return
        _take(command, parsed, by_name, name, None, rest)


def _take(
    command: str,
    parsed: Parsed,
    by_name: "dict[str, Flag]",
    name: str,
    value: "str | None",
    rest: "list[str]",
) -> None:
    flag = by_name.get(name)
    help_hint = f"see 'minirun {command} --help'".replace("  ", " ")
    if flag is None:
        raise UsageError(f"unknown flag: {name}", help_hint)
    parsed.given.add(flag.key)
    if not flag.value:
        if value not in (None, "true", "false"):
            raise UsageError(f"invalid value {value!r} for {name}: true or false", help_hint)
        parsed.values[flag.key] = value != "false"
        return
    if value is None and flag.optional:
        value = flag.optional
    if value is None:
        if not rest:
            raise UsageError(f"flag needs an argument: {name}", help_hint)
        value = rest.pop(0)
    if flag.many:
        parsed.values[flag.key].append(value)
    else:
        parsed.values[flag.key] = value


def usage(command: str, arguments: str, summary: str, flags: "tuple[Flag, ...]") -> str:
    """Return a command's help text."""
    lines = [f"Usage: minirun {command} [flags] {arguments}".rstrip(), "", summary, ""]
    width = max((len(_left(flag)) for flag in flags), default=0) + 2
    if flags:
        lines.append("Flags:")
    lines += [f"  {_left(flag):<{width}}{flag.help}" for flag in flags]
    return "\n".join(lines) + "\n"


def _left(flag: Flag) -> str:
    names = ", ".join(sorted(flag.names, key=len))
    if flag.optional:
        return f"{names}[={flag.value}]"
    return f"{names} {flag.value}".rstrip()


HELP = Flag(("-h", "--help"), "", "show this help and exit")
LANG = Flag(("--lang",), "LANG", "en or ko: speak it, whatever the locale ($LANG) says")


def one_id(command: str, flags: Parsed) -> str:
    """Return the one argument, a container's id. Raises UsageError."""
    if len(flags.args) != 1:
        text = f'"minirun {command}" needs exactly one id, got {len(flags.args)}'
        raise UsageError(text, f"minirun {command} ID", 1)
    return str(flags.args[0])


def show_help(command: str, arguments: str, summary: str, flags: "tuple[Flag, ...]") -> int:
    """Print a command's help; return 0."""
    os.write(1, usage(command, arguments, summary, flags).encode())
    return 0
