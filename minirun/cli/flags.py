"""Reading a command line, in 100 lines: argparse would cost 8 ms at every start.

GNU's rules: ``--name value``, ``--name=value``, ``-it`` for ``-i -t``, ``-eA=1``, ``--`` ends the
flags. docker's: in a command that takes an image and a command, flags end at the first argument.
"""

import os

from minirun.core.errors import UsageError
from minirun.core.record import Record
from minirun.core.visible import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
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
    def empty(self) -> "bool | str | list[str]":
        """What the flag is if the command line does not have it."""
        return [] if self.many else self.default if self.value else False


def flag(names: str, text: str, default: str = "", optional: str = "") -> "Any":
    """Declare a switch ("-q --quiet"), a bool, or a flag with a value ("--name NAME"), a str."""
    return _flag(names, text)._replace(default=default, optional=optional)


def each(names: str, text: str) -> "Any":
    """Declare a flag that may stand more than once: a list."""
    return _flag(names, text)._replace(many=True)


def _flag(names: str, text: str) -> Flag:
    words = names.split()
    value = words.pop() if words[-1][0] != "-" else ""
    return Flag(tuple(words), value, text)


class HelpAsked(Exception):
    """The command line has --help; its argument is the help text."""


class Flags:
    """What one command line says. A command's subclass declares its flags as typed attributes.

    class Kill(Flags):
        "Send a signal to a container."  # its help
        command, arguments = "kill", "ID [SIGNAL]"
        all: bool = flag("-a --all", "signal all processes")
    """

    command = ""
    arguments = ""
    summary = ""
    """The help, if it is not the docstring: one of many lines, or one that is put together."""
    mixed = True
    """Flags may stand after arguments too."""
    help: bool = flag("-h --help", "show this help and exit")

    def __init__(self, argv: "list[str]") -> None:
        """Read `argv`. Raises UsageError in docker's words, and HelpAsked for --help."""
        self.args: list[str] = []
        self.given: set[str] = set()
        """Names of the attributes whose flags the command line has."""
        self._by_name: dict[str, tuple[str, Flag]] = {}
        for key, one in self.known().items():
            setattr(self, key, one.empty)
            self._by_name.update((name, (key, one)) for name in one.names)
        self._read(list(argv))
        if self.help:
            raise HelpAsked(self.usage())

    @classmethod
    def known(cls) -> "dict[str, Flag]":
        """Return the flags by attribute: the class's own, then those of its bases."""
        found: dict[str, Flag] = {}
        for base in cls.__mro__:
            for key, one in vars(base).items():
                if isinstance(one, Flag):
                    found.setdefault(key, one)
        return found

    def _read(self, rest: "list[str]") -> None:
        while rest:
            word = rest.pop(0)
            if word == "--":
                break
            if word == "-" or not word.startswith("-"):
                self.args.append(word)
                if self.mixed:
                    continue
                break
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                self._take(name, value if equals else None, rest)
            else:
                self._read_letters(word, rest)
        self.args += rest

    def _read_letters(self, word: str, rest: "list[str]") -> None:
        """Read -it, -eA=1 and the like: switches; the last may be a flag with its value."""
        for index in range(1, len(word)):
            name = f"-{word[index]}"
            _, one = self._by_name.get(name, ("", None))
            if one and one.value and index + 1 < len(word):
                self._take(name, word[index + 1 :].removeprefix("="), rest)
                return
            self._take(name, None, rest)

    def _take(self, name: str, value: "str | None", rest: "list[str]") -> None:
        hint = f"see 'minirun {self.command} --help'".replace("  ", " ")
        if name not in self._by_name:
            raise UsageError(f"unknown flag: {name}", hint)
        key, one = self._by_name[name]
        self.given.add(key)
        if not one.value:
            if value not in (None, "true", "false"):
                raise UsageError(f"invalid value {value!r} for {name}: true or false", hint)
            setattr(self, key, value != "false")
            return
        if value is None and one.optional:
            value = one.optional
        if value is None:
            if not rest:
                raise UsageError(f"flag needs an argument: {name}", hint)
            value = rest.pop(0)
        if one.many:
            getattr(self, key).append(value)
        else:
            setattr(self, key, value)

    def one_id(self) -> str:
        """Return the one argument, a container's id. Raises UsageError."""
        if len(self.args) != 1:
            text = f'"minirun {self.command}" needs exactly one id, got {len(self.args)}'
            raise UsageError(text, f"minirun {self.command} ID", 1)
        return self.args[0]

    @classmethod
    def usage(cls) -> str:
        """Return the command's help text."""
        first = f"Usage: minirun {cls.command} [flags] {cls.arguments}".rstrip()
        flags = cls.known().values()
        width = max(len(_left(one)) for one in flags) + 2
        rows = [f"  {_left(one):<{width}}{one.help}" for one in flags]
        return "\n".join([first, "", cls.summary or str(cls.__doc__), "", "Flags:", *rows]) + "\n"

    def show_help(self) -> int:
        """Print the help to a caller who has not asked for it; return 1."""
        return write(self.usage()) or 1


def _left(one: Flag) -> str:
    names = ", ".join(sorted(one.names, key=len))
    return f"{names}[={one.value}]" if one.optional else f"{names} {one.value}".rstrip()


LANG = flag("--lang LANG", "en or ko: speak it, whatever the locale ($LANG) says")


def show(lines: "Iterable[str]") -> int:
    """Print lines, made printable whatever they hold; return 0. Raises OSError."""
    return write("".join(f"{clean(line)}\n" for line in lines))


def write(text: str) -> int:
    """Write to standard output, at once; return 0. Raises OSError."""
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(1, data) :]
    return 0
