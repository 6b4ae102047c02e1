"""Reading a command line, without argparse, which would cost 8 ms at every start.

GNU's rules: ``--name value``, ``--name=value``, ``-it`` for ``-i -t``, ``-eA=1``, ``--`` ends the
flags. docker's: in a command that takes an image and a command, flags end at the first argument.
Go's: a long name may have one dash, ``-no-subreaper``, as containerd writes it for runc.

What each flag is for stands in help.toml, which is read for --help alone (minirun.cli.help).
"""

from __future__ import annotations

from minirun.core.errors import UsageError
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy

with lazy:
    import difflib  # for a flag that there is not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class Flag(Record):
    """What the parser knows of one flag."""

    names: tuple[str, ...] = ()
    kind: str = "str"
    """Its annotation. bool: a switch; str: it has a value; list[str]: it may stand more than once.
    """
    default: str = ""
    optional: str = ""
    """The value that the flag has without one; with it, a value needs the `=`."""
    value: str = ""
    """What --help has for its value: SIZE."""
    text: str = ""
    """What --help says of it; empty: help.toml does."""
    read: str = ""
    """The function of minirun.cli.run.properties that reads the value; empty: the command does.
    """
    path: str = ""
    """The property of config.json that the value is for: linux.resources.memory.limit."""

    @property
    def many(self) -> bool:
        """The flag may stand more than once."""
        return self.kind not in ("bool", "str")

    @property
    def empty(self) -> bool | str | list[str]:
        """What the flag is if the command line does not have it."""
        return [] if self.many else False if self.kind == "bool" else self.default


def flag(*names: str, default: str = "", optional: str = "") -> Any:
    """Declare a flag that has further names, such as -q, or a default."""
    return Flag(names, "str", default, optional)


def name_of(key: str) -> str:
    """Return the flag of an attribute: --cap-add of cap_add, --from of from_."""
    return "--" + key.rstrip("_").replace("__", ".").replace("_", "-")


_PLAIN = Flag()
ANY = 1 << 30
"""As many arguments as there are."""


class HelpAsked(Exception):
    """The command line has --help, or (with a status) is so wrong that the help is the answer."""

    def __init__(self, flags: Flags, status: int = 0, fd: int = 1) -> None:
        super().__init__(flags, status, fd)
        self.flags, self.status, self.fd = flags, status, fd


BEFORE: list[type[Flags]] = []
"""The flags that stand before any command: minirun.cli puts their class here."""


class Flags:
    """What one command line says. A command's subclass declares its flags: annotated attributes.

    class Kill(Flags):
        command = "kill"
        all: bool = flag("-a")  # --all, or -a: a switch
        cap_add: list[str]      # --cap-add, which may stand more than once

    The name is made of the attribute's; `cdi__enabled` is --cdi.enabled, `from_` is --from.
    """

    command = ""
    mixed = True
    """Flags may stand after arguments too."""
    wrong = 125
    """The exit status of a flag that there is not, or of a wrong value: docker's; runc's is 1."""
    once = ("gpus",)
    """Flags of which a line says that the last one counts. It does so of all, as with docker."""
    left_out = dict[str, str]()
    """Flags that another program has of this command, and this one has not: why, and what to do."""
    rows = dict[str, Flag]()
    """Flags that are declared by a table instead, by attribute."""
    help: bool = flag("-h")

    def __init__(self, argv: list[str], command: str = "") -> None:
        """Read `argv`. Raises UsageError in docker's words, and HelpAsked for --help.

        `command`: one that has no flag but --help, and so no class.
        """
        self.command = command or self.command
        self.args: list[str] = []
        self.given: set[str] = set()
        """Names of the attributes whose flags the command line has."""
        self.taken = ("", "")
        """The flag before the first argument, or the end, and the word that it took as its value:
        the two are written apart, so a user may mean the word as an argument."""
        self._by_name: dict[str, tuple[str, Flag]] = {}
        for key, one in self.known().items():
            setattr(self, key, one.empty)
            self._by_name.update((name, (key, one)) for name in one.names)
        self._read(list(argv))
        if self.help:
            raise HelpAsked(self)

    @classmethod
    def known(cls) -> dict[str, Flag]:
        """Return the flags by attribute: the class's own, then those of its bases."""
        found: dict[str, Flag] = {}
        for base in cls.__mro__[:-1]:
            for key, kind in base.__annotations__.items():
                if key not in found:
                    one = vars(base).get(key, _PLAIN)
                    kind = kind if isinstance(kind, str) else kind.__name__
                    found[key] = one._replace(names=(name_of(key), *one.names), kind=kind)
            found.update(vars(base).get("rows", {}))
        return found

    def absent(self) -> dict[str, str]:
        """Return `left_out`, for a flag that is not known."""
        return self.left_out

    @classmethod
    def has(cls, name: str) -> bool:
        """Return True for the name of one of the flags: --lang."""
        return any(name in one.names for one in cls.known().values())

    def _read(self, rest: list[str]) -> None:
        """Read words up to the first argument, or, with `mixed`, all. Raises UsageError."""
        while rest:
            word = rest.pop(0)
            if word == "--":
                break
            if word == "-" or not word.startswith("-"):
                self.args.append(word)
                if self.mixed:
                    continue
                break
            self.taken = ("", "")
            name, equals, value = word.partition("=")
            if len(name) > 2 and f"-{name}" in self._by_name:
                name = f"-{name}"
            if name.startswith("--"):
                self._take(name, value if equals else None, rest)
            else:
                self._read_letters(word, rest)
        self.args += rest

    def _read_letters(self, word: str, rest: list[str]) -> None:
        """Read -it, -eA=1, -t=false and the like: switches; the last may have a value."""
        for index in range(1, len(word)):
            name = f"-{word[index]}"
            _, one = self._by_name.get(name, ("", None))
            value = word[index + 1 :]
            if one and value and (one.kind != "bool" or value[0] == "="):
                self._take(name, value.removeprefix("="), rest)
                return
            self._take(name, None, rest)

    def _take(self, name: str, value: str | None, rest: list[str]) -> None:
        """Take one flag, and its value, which may be the first of `rest`. Raises UsageError."""
        hint = f"see 'minirun {self.command} --help'".replace("  ", " ")
        if name not in self._by_name and name in self.absent():
            raise UsageError(f"{name} is left out", self.absent()[name], self.wrong)
        if name not in self._by_name and self.command and any(one.has(name) for one in BEFORE):
            before = f"it stands before the command: minirun {name} … {self.command}"
            raise UsageError(f"unknown flag: {name}", before, self.wrong)
        if name not in self._by_name:
            near = difflib.get_close_matches(name, self._by_name, n=1) if len(name) > 2 else []
            hint = f"did you mean {near[0]}? {hint}" if near else hint
            raise UsageError(f"unknown flag: {name}", hint, self.wrong)
        key, one = self._by_name[name]
        repeated = key in self.given and key in self.once
        self.given.add(key)
        if one.kind == "bool":
            if value not in (None, "true", "false"):
                text = f"invalid value {value!r} for {name}: true or false"
                raise UsageError(text, hint, self.wrong)
            setattr(self, key, value != "false")
            return
        if value is None and one.optional:
            value = one.optional
        if value is None:
            if not rest:
                if name == "-h":  # docker's -h NAME is the host name, runc's -h alone is --help
                    raise HelpAsked(self)
                raise UsageError(f"flag needs an argument: {name}", hint, self.wrong)
            value = rest.pop(0)
            self.taken = (name, value)
        if repeated and value != getattr(self, key):
            say(f"{one.names[0]} is given twice: the last one counts, {value}")
        if one.many:
            getattr(self, key).append(value)
        else:
            setattr(self, key, value)

    def value(self, key: str) -> Any:
        """Return the value of a flag that a table declares."""
        return getattr(self, key)

    def check(self, key: str, *words: str) -> None:
        """Raise UsageError if the flag's value is none of `words`."""
        value = getattr(self, key)
        if value not in words:
            shown = [word for word in words if word]
            hint = " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
            raise UsageError(f"invalid {name_of(key)} {value!r}", hint, self.wrong)

    def one_id(self) -> str:
        """Return the one argument, a container's id. Raises UsageError."""
        if len(self.args) != 1:
            text = f'"minirun {self.command}" needs exactly one id, got {len(self.args)}'
            raise UsageError(text, f"minirun {self.command} ID", 1)
        return self.args[0]

    def refuse_flags(self, keys: set[str], when: str, hint: str) -> None:
        """Raise UsageError if one of these flags is given, since `when` it would have no effect."""
        if given := sorted(key for key in keys & self.given if getattr(self, key)):
            names = ", ".join(self.known()[key].names[0] for key in given)
            raise UsageError(f"{names}: no effect {when}", hint, self.wrong)

    def none(self) -> None:
        """Raise UsageError, in runc's words, if there is an argument."""
        if self.args:
            text = f'"minirun {self.command}" needs no argument, got {len(self.args)}'
            raise UsageError(text, status=1)

    def takes(self, least: int, most: int | None = None) -> None:
        """Raise UsageError, in docker's words, for fewer arguments than `least`, more than `most`.

        Without `most` there are to be exactly so many; ANY: it has no bound.
        """
        most = least if most is None else most
        if least <= len(self.args) <= most:
            return
        number = least or most
        count = f"{number} argument{'s' if number > 1 else ''}"
        bound = "exactly" if least == most else "at least" if least else "at most"
        if least and least < most < ANY:
            count = f"{least} and at most {most} arguments"
        self.wants(f"{bound} {count}")

    def wants(self, what: str) -> NoReturn:
        """Raise UsageError that says which arguments are missing, or are too many."""
        hint = self.took() or f"see 'minirun {self.command} --help'"
        raise UsageError(f'"minirun {self.command}" requires {what}', hint, 1)

    def took(self) -> str:
        """Return the hint that a flag has taken the word behind it, if one has."""
        flag_name, word = self.taken
        return f"{flag_name} has taken {word} as its value" if word and not self.args else ""

    def refuse(self) -> NoReturn:
        """Answer a command line that has too few or too many arguments with the help, and 1."""
        raise HelpAsked(self, 1)
