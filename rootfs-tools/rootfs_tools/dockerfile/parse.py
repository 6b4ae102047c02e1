"""From the text of a Dockerfile to its stages.

    # escape=`                     a directive: before the first instruction
    ARG VERSION=12                 before the first FROM, for FROM lines alone
    FROM debian:$VERSION AS base   begins a stage
    RUN --mount=… make \\
        all                        a line goes on behind a backslash; comments between are left out
    COPY <<EOF /etc/motd           a here-document follows (rootfs_tools.dockerfile.heredoc)

Only a line feed ends a line, as in docker. Instructions that minirun does not know are refused, as
is ONBUILD.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from minirun.core.errors import ImageError
from rootfs_tools.dockerfile import heredoc
from rootfs_tools.dockerfile.heredoc import Document

LIMIT = 1 << 20
"""Bytes of a Dockerfile."""
KNOWN = frozenset(
    ("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
     "MAINTAINER", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR")
)  # fmt: skip
FLAGS = {
    "ADD": ("chown", "chmod", "link", "exclude"),
    "COPY": ("chown", "chmod", "from", "link", "exclude", "parents"),
    "FROM": ("platform",),
    "RUN": ("mount", "network"),
    "HEALTHCHECK": ("interval", "timeout", "start-period", "start-interval", "retries"),
}  # fmt: skip
"""Instruction → its flags. --link changes nothing: each step has a layer of its own anyway."""
_LISTS = ("ADD", "CMD", "COPY", "ENTRYPOINT", "RUN", "SHELL", "VOLUME")
"""Instructions that may be a JSON list of words."""
_DIRECTIVE = re.compile(r"#\s*([a-zA-Z]+)\s*=\s*(.*?)\s*")
_FLAG = re.compile(r"""--([a-z-]+)(?:=((?:"[^"]*"|'[^']*'|\\.|[^\s"'\\])*))?(?:\s+|$)""")
_QUOTED = re.compile(r"""\\(.)|"([^"]*)"|'([^']*)'""")
_BLANKS = re.compile("[ \t\v\f\r]+")
_TEXTS = ("RUN", "COPY", "ADD")
"""Instructions that may have here-documents."""
_STAGE_NAME = re.compile("[a-z][a-z0-9-_.]*")


class Instruction(NamedTuple):
    """One instruction; variables are not yet filled in."""

    name: str
    """In capitals."""
    flags: tuple[tuple[str, str], ...]
    text: str
    """What follows name and flags."""
    words: tuple[str, ...] | None
    """The words of a JSON list; None if it is not one."""
    line: int
    """The line that it begins on, from 1."""
    documents: tuple[Document, ...] = ()
    """Its here-documents."""

    def flag(self, name: str) -> str:
        """Return the value of a flag; "" if it is not given."""
        return dict(self.flags).get(name, "")

    def values(self, name: str) -> list[str]:
        """Return all values of a flag that may stand more than once."""
        return [value for key, value in self.flags if key == name]

    def switch(self, name: str) -> bool:
        """Return True for --name, or --name=true. Raises ImageError for another value."""
        value = dict(self.flags).get(name, "false") or "true"
        if value not in ("true", "false"):
            raise ImageError(f"expecting boolean value for flag {name}, not: {value}")
        return value == "true"


class DockerfileStage(NamedTuple):
    """One FROM, and what follows it."""

    base: Instruction
    image: str
    """As written: an image, another stage or `scratch`."""
    name: str
    instructions: tuple[Instruction, ...]


class Dockerfile(NamedTuple):
    """The whole of it."""

    args: tuple[Instruction, ...]
    """ARG before the first FROM."""
    stages: tuple[DockerfileStage, ...]
    escape: str


def parse(text: str) -> Dockerfile:
    """Return what a Dockerfile says. Raises ImageError, which names the line."""
    if len(text) > LIMIT:
        raise ImageError(f"Dockerfile: more than {LIMIT} bytes")
    if "\0" in text:
        raise wrong(text.partition("\0")[0].count("\n") + 1, "a NUL byte")
    escape = _escape(text)
    found = _instructions(text, escape)
    starts = [at for at, each in enumerate(found) if each.name == "FROM"]
    head = found[: starts[0]] if starts else found
    for each in head:
        if each.name != "ARG":
            raise wrong(each.line, f"no build stage in current context: {each.name} before FROM")
    if not starts:
        raise ImageError("Dockerfile: no build stage: there is no FROM")
    stages: list[DockerfileStage] = []
    for start, end in zip(starts, [*starts[1:], len(found)], strict=True):
        image, name = _from(found[start])
        if name and any(stage.name == name for stage in stages):
            raise wrong(found[start].line, f"duplicate name {name}")
        stages.append(DockerfileStage(found[start], image, name, tuple(found[start + 1 : end])))
    return Dockerfile(tuple(head), tuple(stages), escape)


def wrong(line: int, what: str, hint: str = "") -> ImageError:
    """Return an error at this line, in docker's words."""
    return ImageError(f"dockerfile parse error on line {line}: {what}", hint)


def _escape(text: str) -> str:
    """Return the escape character that the directives at the top name."""
    for line in text.removeprefix("\ufeff").split("\n"):
        match = _DIRECTIVE.fullmatch(line.strip())
        if not match:
            break
        if match[1].lower() == "escape":
            if match[2] not in ("\\", "`"):
                raise wrong(1, f"invalid escape token {match[2]!r}: it is \\ or `")
            return match[2]
    return "\\"


def _instructions(text: str, escape: str) -> list[Instruction]:
    """Return all instructions, with their here-documents."""
    lines = enumerate(re.findall(r"[^\n]*\n|[^\n]+", text.removeprefix("\ufeff")), 1)
    found = []
    for number, line in _logical(lines, escape):
        one = _instruction(line, number)
        if one.name in _TEXTS and one.words is None:
            documents = heredoc.announced(one.text)
            try:
                texts = tuple(heredoc.read(each, lines) for each in documents)
            except ImageError as error:
                raise wrong(number, str(error)) from None
            one = one._replace(documents=texts)
        found.append(one)
    return found


def _logical(lines: Iterator[tuple[int, str]], escape: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line), continued lines as one; comments and empty lines are left out.

    Between two of them the caller may take lines that belong to the first.
    """
    goes_on = re.compile(rf"(?:^|[^{re.escape(escape)}]){re.escape(escape)}[ \t]*$")
    whole, start = "", 0
    for number, raw in lines:
        line = raw.rstrip("\r\n")
        if line.lstrip().startswith("#") or not line.strip():
            continue
        if not whole:
            start = number
            line = line.lstrip()
        if goes_on.search(line):
            whole += line.rstrip(" \t")[:-1]
            continue
        yield start, whole + line
        whole = ""
    if whole:
        yield start, whole


def _instruction(line: str, number: int) -> Instruction:
    word = _BLANKS.split(line, maxsplit=1)[0]
    name, rest = word.upper(), line[len(word) :].lstrip()
    if name not in KNOWN:
        raise wrong(number, f"unknown instruction: {word}", f"known: {', '.join(sorted(KNOWN))}")
    flags = []
    while match := _FLAG.match(rest):
        if match[1] not in FLAGS.get(name, ()):
            raise wrong(number, f"unknown flag: {name} --{match[1]}")
        flags.append((match[1], _unquoted(match[2] or "")))
        rest = rest[match.end() :]
    if not rest.strip():
        raise wrong(number, f"{name} requires at least one argument")
    return Instruction(name, tuple(flags), rest.strip(), _json(name, rest, number), number)


def _unquoted(text: str) -> str:
    return _QUOTED.sub(lambda match: match[1] or match[2] or match[3] or "", text)


def _json(name: str, rest: str, number: int) -> tuple[str, ...] | None:
    """Return the words of a JSON list; what is not one is a command for the shell, or plain words.

    HEALTHCHECK has its list behind CMD.
    """
    text = rest.strip()
    if name == "HEALTHCHECK" and text[:3].upper() == "CMD":
        text = text[3:].lstrip()
    if not text.startswith("[") or name not in (*_LISTS, "HEALTHCHECK"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        return None
    if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for each in found for sign in each):
        raise wrong(number, "a NUL byte, or half of a surrogate pair")
    return tuple(found)


def _from(instruction: Instruction) -> tuple[str, str]:
    """Return image and name of a FROM."""
    words = instruction.text.split()
    if len(words) == 1:
        return words[0], ""
    if len(words) != 3 or words[1].lower() != "as":
        raise wrong(instruction.line, "FROM requires either one or three arguments")
    name = words[2].lower()
    if not _STAGE_NAME.fullmatch(name):
        raise wrong(instruction.line, f"invalid name for build stage: {words[2]!r}")
    return words[0], name
