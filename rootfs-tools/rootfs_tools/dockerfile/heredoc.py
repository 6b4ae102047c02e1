"""Here-documents: lines of a Dockerfile that are a file, or what a shell reads.

    RUN <<EOF                      a script: these lines are what the shell runs
    RUN python3 <<EOF              the shell gets the line with its document behind it
    COPY <<one <<-"two" /etc/      files of these names; of <<- leading tabs are taken away,
                                   and between quotes nothing is filled in

In $(( 1 << 3 )) the sign is a shift, as a shell has it. A document ends with a line that is its
name alone. Source: buildkit's frontend/dockerfile/parser
(heredocsFromLine), which has it as a shell has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from minirun.core.errors import ImageError

_WORD = re.compile(
    r"""(?:<<[ \t\r]*(?=\S)|\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\])+""", re.DOTALL
)  # fmt: skip
_BLANKS = re.compile(r"\s*")
_MARK = re.compile(r"\d*<<(-?)\s*([^<]+)")
_QUOTED = re.compile(r"""\\(.)|'([^']*)'|"([^"]*)\"""")
_ARITHMETIC = re.compile(r"\(\((?:[^()]|\([^()]*\))*\)\)")
_TABS = re.compile(r"^\t+", re.MULTILINE)


class Document(NamedTuple):
    """One here-document."""

    name: str
    text: str
    """As it stands there, each line with its end."""
    expands: bool
    """Variables are filled in, if it becomes a file."""
    chomps: bool
    """Tabs at the begin of its lines are no part of it."""

    def content(self) -> str:
        """Return what is in it."""
        return _TABS.sub("", self.text) if self.chomps else self.text


def announced(line: str) -> list[Document]:
    """Return the documents that an instruction announces, in order, still without their text."""
    if "<<" not in line:
        return []
    line = _ARITHMETIC.sub("(())", line)
    return [found for word in _words(line) if (found := _of_word(word))]


def of_word(word: str) -> str:
    """Return the name of the document that one word stands for; "" if it stands for none."""
    found = _of_word(word) if "<<" in word else None
    return found.name if found else ""


def read(document: Document, lines: Iterator[tuple[int, str]]) -> Document:
    """Return it with its text, which is taken from the lines. Raises ImageError without an end."""
    text = ""
    for _, line in lines:
        end = line.rstrip("\r\n")
        if (end.lstrip("\t") if document.chomps else end) == document.name:
            return document._replace(text=text)
        text += line
    raise ImageError(f"unterminated here-document: there is no line {document.name!r}")


def _words(line: str) -> list[str]:
    """Return the words of a line, with their quotes; none if a quote has no end."""
    found, at = [], 0
    while at < len(line):
        at = _skipped(line, at)
        if at == len(line):
            break
        match = _WORD.match(line, at)
        if not match:
            return []
        found.append(match[0])
        at = match.end()
    return found


def _skipped(line: str, at: int) -> int:
    match = _BLANKS.match(line, at)
    return match.end() if match else at


def _of_word(word: str) -> Document | None:
    match = _MARK.fullmatch(word)
    if not match:
        return None
    name = _QUOTED.sub(lambda found: found[1] or found[2] or found[3] or "", match[2])
    if not name or len(_words(match[2])) != 1:
        return None
    return Document(name, "", not set("'\"") & set(match[2]), match[1] == "-")
