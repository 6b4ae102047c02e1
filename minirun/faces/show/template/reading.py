"""From the text of a template to a tree of nodes: pieces, then tokens, then the parser.

The language is that of Go's text/template (pkg.go.dev/text/template): fields, variables, pipes,
if, range, with. `define`, `template` and `block` are left out: a command line has one template.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn

from minirun.core.keeping.numbers import LARGEST, whole
from minirun.core.keeping.visible import clean
from minirun.faces.show.template.functions import FUNCTIONS
from minirun.faces.show.template.values import Safe, TemplateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 50
"""Levels of parentheses, and of blocks in blocks."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    """Its first sign, from the beginning of the template."""
    spaced: bool
    """A blank is before it."""


class Node(NamedTuple):
    """A part of the template: a text, an action, a value in one."""

    kind: str
    at: int
    end: int
    """The sign behind it."""
    parts: tuple[Any, ...]


_TOKENS = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    |(?P<char>'(?:[^'\\\n]|\\.)+')
    |(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?
        |\.[0-9]+(?:[eE][+-]?[0-9]+)?))(?![\w.])
    |(?P<field>\.[^\W\d]\w*)
    |(?P<variable>\$\w*)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>:=|[=|(),.])""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False}
_ESCAPES = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _fail(source: str, at: int, what: str) -> NoReturn:
    line = source.count("\n", 0, at) + 1
    raise TemplateError(f"template parsing error: template: :{line}: {what}", status=64)


class Parser:
    """From the text to nodes. Blocks end with {{end}}; each keeps what its {{else}} has."""

    def __init__(self, source: str, *, escapes: bool = False) -> None:
        self.source = source
        self.pieces = list(_pieces(source, escapes))
        self.tokens: list[_Token] = []
        self.at = 0
        self.depth = 0
        self.variables = ["$"]

    def template(self) -> list[Node]:
        """Return all nodes. Raises TemplateError."""
        body, end = self._block()
        if end:
            _fail(self.source, self.at, f"unexpected {{{{{end}}}}}")
        return body

    def _block(self) -> tuple[list[Node], str]:
        """Return the nodes up to an {{end}} or {{else …}}, and that word; "" at the very end."""
        body: list[Node] = []
        known = len(self.variables)
        while self.pieces:
            at, text, action = self.pieces.pop(0)
            self.at = at
            if action is None:
                body.append(Node("text", at, at, (text,)))
                continue
            self.tokens = _tokens(self.source, at, action)
            word = self.tokens[0].text if self.tokens and self.tokens[0].kind == "word" else ""
            if word in ("end", "else"):
                self.tokens.pop(0)
                if word == "end" and self.tokens:
                    self._unexpected("end")
                del self.variables[known:]
                return body, word
            if word in ("if", "with", "range"):
                self.tokens.pop(0)
                body.append(self._control(word, at))
            elif word in ("define", "template", "block", "break", "continue"):
                _fail(self.source, at, f"{word}: this word of Go's templates is not supported")
            elif self.tokens:
                body.append(self._pipeline("action"))
                self._end_of_action("command")
        return body, ""

    def _control(self, word: str, at: int) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            _fail(self.source, at, f"more than {_DEEPEST} blocks in each other")
        known = len(self.variables)
        pipe = self._pipeline(word)
        self._end_of_action(word)
        body, end = self._block()
        rest: list[Node] = []
        if end == "else":
            if self.tokens:  # {{else if …}}: the {{end}} ends both
                chained = self.tokens.pop(0)
                if chained.text not in ("if", "with") or word == "range":
                    self._unexpected("else", chained)
                rest = [self._control(chained.text, chained.at)]
                end = "end"
            else:
                rest, end = self._block()
                if end == "else":
                    _fail(self.source, self.at, "expected end; found {{else}}")
        if end != "end":
            _fail(self.source, len(self.source), "unexpected EOF")
        del self.variables[known:]
        self.depth -= 1
        return Node(word, at, pipe.end, (pipe, body, rest))

    def _end_of_action(self, where: str) -> None:
        if self.tokens:
            self._unexpected(where)

    def _unexpected(self, where: str, token: _Token | None = None) -> NoReturn:
        token = token or self.tokens[0]
        _fail(self.source, token.at, f"unexpected <{clean(token.text)}> in {where}")

    def _pipeline(self, where: str) -> Node:
        """Read [$x :=] [$i, $x :=] command | command …"""
        at = self.tokens[0].at if self.tokens else self.at
        names, assigns = self._declared(where)
        commands = [self._command(where)]
        while self.tokens and self.tokens[0].text == "|" and self.tokens[0].kind == "sign":
            self.tokens.pop(0)
            commands.append(self._command(where, piped=True))
        self.variables += [] if assigns else names
        return Node("pipe", at, commands[-1].end, (commands, names, assigns))

    def _declared(self, where: str) -> tuple[list[str], bool]:
        kinds = [token.kind for token in self.tokens[:4]]
        texts = [token.text for token in self.tokens[:4]]
        if kinds[:1] == ["variable"] and texts[1:2] in ([":="], ["="]):
            count, sign = 1, texts[1]
        elif where == "range" and texts[1:2] == [","] and texts[3:4] in ([":="], ["="]):
            count, sign = 2, texts[3]
        else:
            return [], False
        names = texts[: 2 * count : 2]
        for token in self.tokens[: 2 * count : 2]:
            if token.kind != "variable" or (sign == "=" and token.text not in self.variables):
                _fail(self.source, token.at, f'undefined variable "{clean(token.text)}"')
        del self.tokens[: 2 * count]
        return names, sign == "="

    def _command(self, where: str, *, piped: bool = False) -> Node:
        if not self.tokens:
            _fail(self.source, self.at, f"missing value for {where}")
        operands = []
        while self.tokens and not (self.tokens[0].kind == "sign" and self.tokens[0].text in "|),"):
            operands.append(self._operand())
        if not operands:
            self._unexpected(where)
        first = operands[0]
        is_call = first.kind in ("function", "field", "chain", "variable")
        if (piped or len(operands) > 1) and not is_call:
            what = clean(self.source[first.at : first.end])
            _fail(self.source, first.at, f"can't give an argument to {what}, which is no function")
        return Node("command", first.at, operands[-1].end, tuple(operands))

    def _operand(self) -> Node:
        """Read one value, and the fields that stand right behind it."""
        token = self.tokens.pop(0)
        end = token.at + len(token.text)
        node = self._value(token, end)
        while self.tokens and self.tokens[0].kind == "field" and not self.tokens[0].spaced:
            field = self.tokens.pop(0)
            if node.kind in ("constant", "function"):
                self._unexpected("operand", field)
            end = field.at + len(field.text)
            node = Node("chain", node.at, end, (node, field.text[1:], field.at))
        if self.tokens and not self.tokens[0].spaced and self.tokens[0].text not in ("|", ")", ","):
            self._unexpected("operand")
        return node

    def _value(self, token: _Token, end: int) -> Node:
        kind, text, at, _ = token
        if kind == "field":
            return Node("field", at, end, (text[1:],))
        if kind == "variable":
            if text not in self.variables:
                _fail(self.source, at, f'undefined variable "{clean(text)}"')
            return Node("variable", at, end, (text,))
        if kind == "string":
            return Node("constant", at, end, (Safe(_string(self.source, at, text)),))
        if kind == "char":
            inner = _string(self.source, at, text)
            if len(inner) != 1:
                _fail(self.source, at, f"malformed character constant: {clean(text)}")
            return Node("constant", at, end, (ord(inner),))
        if kind == "number":
            return Node("constant", at, end, (_number(self.source, at, text),))
        if kind == "word":
            if text in _WORDS:
                return Node("constant", at, end, (_WORDS[text],))
            if text == "nil":
                return Node("constant", at, end, (None,))
            if text not in FUNCTIONS and text not in ("and", "or"):
                _fail(self.source, at, f'function "{clean(text)}" not defined')
            return Node("function", at, end, (text,))
        if text == ".":
            return Node("dot", at, end, ())
        if text == "(":
            return self._parenthesis(token)
        return self._unexpected("operand", token)

    def _parenthesis(self, token: _Token) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            _fail(self.source, token.at, f"more than {_DEEPEST} parentheses in each other")
        pipe = self._pipeline("parenthesized pipeline")
        if not self.tokens or self.tokens[0].text != ")":
            _fail(self.source, token.at, "unclosed left paren")
        end = self.tokens.pop(0).at + 1
        self.depth -= 1
        return pipe._replace(at=token.at, end=end)


def _pieces(source: str, escapes: bool) -> Iterator[tuple[int, str, str | None]]:
    """Yield (place, text, None) and (place, "", what is between the braces); {{- and -}} trim.

    `escapes`: \\t and \\n in a text mean a tab and a new line.
    """
    at, trim = 0, False
    while at < len(source):
        start = source.find("{{", at)
        text = source[at:] if start < 0 else source[at:start]
        if escapes:
            text = text.replace("\\t", "\t").replace("\\n", "\n")
        begin = start + 2
        trim_left = start >= 0 and source[begin : begin + 1] == "-" and source[begin + 1 :][
            :1
        ] in (" ", "\t", "\n", "\r")  # fmt: skip
        text = text.lstrip(" \t\r\n") if trim else text
        text = text.rstrip(" \t\r\n") if trim_left else text
        if text:
            yield at, text, None
        if start < 0:
            return
        begin += trim_left
        end, trim = _action_end(source, begin)
        inner = source[begin:end]
        at = end + (4 if trim else 2)
        if not inner.strip(" \t\r\n").startswith("/*"):
            yield begin, "", inner
        if not inner.strip():
            _fail(source, begin, "missing value for command")


def _action_end(source: str, begin: int) -> tuple[int, bool]:
    """Return where an action ends, and if blanks behind it are trimmed. Strings may hold }}."""
    at = begin
    rest = source[begin:].lstrip(" \t\r\n")
    if rest.startswith("/*"):
        close = source.find("*/", begin)
        if close < 0:
            _fail(source, begin, "unclosed comment")
        at = close + 2
    while at < len(source):
        sign = source[at]
        if sign in "\"'`":
            if sign == "`":
                end = source.find("`", at + 1)
            else:
                found = re.compile(rf"(?:[^{sign}\\\n]|\\.)*{sign}").match(source, at + 1)
                end = found.end() - 1 if found else -1
            if end < 0:
                what = {'"': "unterminated quoted string", "`": "unterminated raw quoted string"}
                _fail(source, at, what.get(sign, "unterminated character constant"))
            at = end
        elif source.startswith("}}", at):
            return at, False
        elif source.startswith("-}}", at) and at > begin and source[at - 1] in " \t\r\n":
            return at - 1, True
        at += 1
    _fail(source, begin, "unclosed action")


def _tokens(source: str, at: int, text: str) -> list[_Token]:
    found, place, spaced = [], 0, False
    while place < len(text):
        match = _TOKENS.match(text, place)
        if not match:
            what = "bad number syntax" if text[place].isdigit() else "unexpected bad character"
            _fail(source, at + place, f"{what}: {clean(text[place])!r} in command")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token(kind, match.group(), at + place, spaced))
        spaced = kind == "space"
        place = match.end()
    return found


def _string(source: str, at: int, text: str) -> str:
    """Return what a quoted text means. Raises TemplateError."""
    if text[0] == "`":
        return text[1:-1]

    def meant(match: re.Match[str]) -> str:
        word = match[1]
        if word[0] in "xuU" and len(word) > 1:
            number = int(word[1:], 16)
        elif len(word) == 3:
            number = int(word, 8)
        elif word in _SIMPLE or word in ("\\", text[0]):
            return _SIMPLE.get(word, word)
        else:
            _fail(source, at, f"invalid syntax: {clean(match[0])} in a string")
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            _fail(source, at, f"invalid syntax: {clean(match[0])} is no character")
        return chr(number)

    return _ESCAPES.sub(meant, text[1:-1])


def _number(source: str, at: int, text: str) -> int | float:
    plain = text.replace("_", "")
    try:
        if re.fullmatch(r"[+-]?0[xXbB].*", plain):
            return int(plain, 0)
        number = whole(plain.removeprefix("+"), -LARGEST)
        return float(plain) if number is None else number
    except ValueError:
        _fail(source, at, f"bad number syntax: {clean(text)!r}")
