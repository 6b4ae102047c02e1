"""Variables and quotes in a Dockerfile's words: $NAME, and in braces what a shell knows.

    ${NAME:-word} ${NAME-word}      the word if it is not set; with : also if it is empty
    ${NAME:+word} ${NAME+word}      the word if it is set
    ${NAME:?word} ${NAME?word}      an error if it is not set
    ${NAME#pattern} ${NAME##…}      without the shortest, or longest, begin that fits
    ${NAME%pattern} ${NAME%%…}      without such an end
    ${NAME/pattern/new} ${NAME//…}  the first, or each, part that fits is another text

Quotes are taken away, as a shell does: nothing is filled in between single ones, and a backslash
(or what `# escape=` names) takes the meaning from the character behind it. A variable that is not
set is empty.
"""

from collections.abc import Iterator, Mapping

from minirun.core.errors import ImageError
from rootfs_tools.dockerfile import shellpattern

Variables = Mapping[str, str]
_LIMIT = 1 << 20
"""Characters that variables may bring into one text: one that holds another ten times, and so on,
would soon fill the memory."""
BLANKS = " \t\v\f\r\n"
"""What parts the words of all instructions but ENV, LABEL and ARG, in docker too."""


def word(text: str, variables: Variables, escape: str = "\\") -> str:
    """Return `text` as one word, blanks kept. Raises ImageError."""
    return "".join(_Reader(text, variables, escape).pieces())


def document(text: str, variables: Variables) -> str:
    """Return a here-document with its variables filled in; quotes stay. Raises ImageError."""
    return "".join(_Reader(text, variables, "\\", quotes="").pieces())


def words(text: str, variables: Variables, escape: str = "\\") -> tuple[str, ...]:
    """Return the words of `text`; what a variable holds is never split. Raises ImageError."""
    return tuple(word(raw, variables, escape) for raw in split(text, escape, BLANKS))


def split(text: str, escape: str = "\\", blanks: str = "") -> tuple[str, ...]:
    """Return `text` cut at its blanks, except between quotes and behind a backslash.

    `blanks`: these alone, and no other of Unicode's.
    """
    found: list[str] = []
    current, quote, skip = "", "", False
    for letter in text:
        if skip:
            skip = False
        elif letter == escape and quote != "'":
            skip = True
        elif letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        elif (letter in blanks if blanks else letter.isspace()) and not quote:
            if current:
                found.append(current)
            current = ""
            continue
        current += letter
    return (*found, current) if current else tuple(found)


def pairs(text: str, variables: Variables, escape: str = "\\") -> dict[str, str]:
    """Return the names and values of ENV and LABEL: NAME=VALUE …, or NAME VALUE. Raises ImageError.

    All of one instruction see the variables as they were before it.
    """
    raw = split(text, escape)
    if raw and "=" not in raw[0]:
        name, _, value = text.strip().partition(" ")
        if not value.strip():
            raise ImageError(f"{name} must have two arguments")
        return {word(name, variables, escape): word(value.strip(), variables, escape)}
    found = {}
    for one in raw:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ImageError(f"can't find = in {one!r}: must be of the form NAME=VALUE")
        found[word(name, variables, escape)] = word(value, variables, escape)
    return found


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, variables: Variables, escape: str, quotes: str = "'\"") -> None:
        self._text, self._variables, self._escape = text, variables, escape
        self._quotes = quotes
        self._at = self._brought = 0

    def pieces(self, end: str = "", *, raw: bool = False) -> Iterator[str]:
        """Yield what the text means, up to the character `end`, if that is given.

        `raw`: backslashes stay, with what is behind them.
        """
        quote = ""
        while self._at < len(self._text):
            letter = self._text[self._at]
            self._at += 1
            if letter == end and not quote:
                return
            if quote == "'":
                if letter == "'":
                    quote = ""
                else:
                    yield letter
            elif letter == self._escape and raw:
                yield "\\" + self._escaped("")
            elif letter == self._escape:
                yield self._escaped(quote)
            elif letter in self._quotes and quote in ("", letter):
                quote = "" if quote else letter
            elif letter == "$":
                value = self._variable()
                self._brought += len(value)
                if self._brought > _LIMIT:
                    raise ImageError(f"variables of more than {_LIMIT} characters")
                yield value
            else:
                yield letter
        if quote or end:
            raise ImageError(f"unexpected end of {self._text!r}: {quote or end} is missing")

    def _escaped(self, quote: str) -> str:
        letter = self._text[self._at : self._at + 1]
        self._at += 1
        if quote and letter not in ('"', "$", self._escape):
            return self._escape + letter
        return letter or self._escape

    def _variable(self) -> str:
        if self._text[self._at : self._at + 1] != "{":
            name = self._name()
            return self._variables.get(name, "") if name else "$"
        self._at += 1
        name = self._name()
        operator = self._text[self._at : self._at + 2]
        if operator[:1] == "}" and name:
            self._at += 1
            return self._variables.get(name, "")
        if name and operator[:1] in ("#", "%", "/"):
            self._at += 1
            return self._cut(self._variables.get(name, ""), operator)
        kind = operator.removeprefix(":")[:1]
        if not name or kind not in ("-", "+", "?"):
            raise ImageError(f"unsupported modifier in substitution: {self._text!r}")
        self._at += 2 if operator.startswith(":") else 1
        value = "".join(self.pieces("}"))
        known = self._variables.get(name)
        is_set = bool(known) if operator.startswith(":") else known is not None
        if kind == "+":
            return value if is_set else ""
        if kind == "?" and not is_set:
            what = "unset" if known is None else "empty"
            raise ImageError(f"{name}: {value or f'is not allowed to be {what}'}")
        return known or "" if is_set else value

    def _cut(self, value: str, operator: str) -> str:
        """Return a variable's value without, or with another text for, what fits a pattern."""
        twice = operator[1:] == operator[:1]
        self._at += twice
        if operator[0] == "/":
            pattern = "".join(self.pieces("/", raw=True))
            new = "".join(self.pieces("}"))
            return shellpattern.replaced(value, pattern, new, everywhere=twice)
        pattern = "".join(self.pieces("}", raw=True))
        if operator[0] == "#":
            return shellpattern.without_prefix(value, pattern, longest=twice)
        return shellpattern.without_suffix(value, pattern, longest=twice)

    def _name(self) -> str:
        start = self._at
        if self._text[start : start + 1].isdigit():
            self._at += 1
        else:
            while self._at < len(self._text) and _in_name(self._text[self._at]):
                self._at += 1
        return self._text[start : self._at]


def _in_name(letter: str) -> bool:
    return letter == "_" or (letter.isascii() and letter.isalnum())
