r"""Go's templates, as docker's --format has them: '{{.Names}}\t{{.Status}}', '{{json .State}}'.

The language is that of Go's text/template (pkg.go.dev/text/template): fields, variables, pipes,
if, range, with, and its functions; json, join, split, lower, upper, title, truncate, pad, println
are docker's (docs.docker.com, "Format command and log output"). `define`, `template` and `block`
are left out: a command line has one template.

A text that comes from a container is cleaned when it is printed (minirun.core.keeping.visible);
what the template itself says, such as "\n", is printed as it stands.

    compile_template(text) → Template       lexer → parser → a tree of nodes
    Template.render(data)  → str            data: dicts, lists, texts, numbers, None; functions
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from minirun.core.errors import UsageError
from minirun.core.keeping.visible import clean
from minirun.running.visible_json import clean_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEEPEST = 50
"""Levels of parentheses, and of blocks in blocks."""
_LONGEST = 1 << 20
"""Signs that `pad` and a width of printf may add: a template is no way to fill the memory."""


class TemplateError(UsageError):
    """A template is wrong, or asks for what is not there. Its one line says where."""


class Fields(dict[str, Any]):
    """What has a fixed set of fields: another one is a mistake. (Go: a struct.)"""


class Safe(str):
    """A text of the template itself, or one that has been cleaned: printed as it is."""


class _Missing:
    """What a map has for a key that is not in it."""


MISSING = _Missing()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    """Its first sign, from the beginning of the template."""
    spaced: bool
    """A blank is before it."""


class _Node(NamedTuple):
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


class Template:
    """A template that has been read."""

    def __init__(self, source: str, body: list[_Node]) -> None:
        self.source, self.body = source, body

    def render(self, data: Any) -> str:
        """Return the text for `data`. Raises TemplateError, with status 1 as docker has it."""
        return "".join(_Execution(self.source, data).walk(self.body))


def compile_template(source: str, status: int = 64) -> Template:
    """Return a template. Raises TemplateError; `status`: docker's for the command (64, or 1)."""
    try:
        return Template(source, _Parser(source).template())
    except TemplateError as error:
        error.status = status
        raise


def _fail(source: str, at: int, what: str) -> NoReturn:
    line = source.count("\n", 0, at) + 1
    raise TemplateError(f"template parsing error: template: :{line}: {what}", status=64)


# --- reading -----------------------------------------------------------------------------------


class _Parser:
    """From the text to nodes. Blocks end with {{end}}; each keeps what its {{else}} has."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.pieces = list(_pieces(source))
        self.tokens: list[_Token] = []
        self.at = 0
        self.depth = 0
        self.variables = ["$"]

    def template(self) -> list[_Node]:
        body, end = self._block()
        if end:
            _fail(self.source, self.at, f"unexpected {{{{{end}}}}}")
        return body

    def _block(self) -> tuple[list[_Node], str]:
        """Return the nodes up to an {{end}} or {{else …}}, and that word; "" at the very end."""
        body: list[_Node] = []
        known = len(self.variables)
        while self.pieces:
            at, text, action = self.pieces.pop(0)
            self.at = at
            if action is None:
                body.append(_Node("text", at, at, (text,)))
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

    def _control(self, word: str, at: int) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            _fail(self.source, at, f"more than {_DEEPEST} blocks in each other")
        known = len(self.variables)
        pipe = self._pipeline(word)
        self._end_of_action(word)
        body, end = self._block()
        rest: list[_Node] = []
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
        return _Node(word, at, pipe.end, (pipe, body, rest))

    def _end_of_action(self, where: str) -> None:
        if self.tokens:
            self._unexpected(where)

    def _unexpected(self, where: str, token: _Token | None = None) -> NoReturn:
        token = token or self.tokens[0]
        _fail(self.source, token.at, f"unexpected <{clean(token.text)}> in {where}")

    def _pipeline(self, where: str) -> _Node:
        """Read [$x :=] [$i, $x :=] command | command …"""
        at = self.tokens[0].at if self.tokens else self.at
        names, assigns = self._declared(where)
        commands = [self._command(where)]
        while self.tokens and self.tokens[0].text == "|" and self.tokens[0].kind == "sign":
            self.tokens.pop(0)
            commands.append(self._command(where, piped=True))
        self.variables += [] if assigns else names
        return _Node("pipe", at, commands[-1].end, (commands, names, assigns))

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

    def _command(self, where: str, *, piped: bool = False) -> _Node:
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
        return _Node("command", first.at, operands[-1].end, tuple(operands))

    def _operand(self) -> _Node:
        """Read one value, and the fields that stand right behind it."""
        token = self.tokens.pop(0)
        end = token.at + len(token.text)
        node = self._value(token, end)
        while self.tokens and self.tokens[0].kind == "field" and not self.tokens[0].spaced:
            field = self.tokens.pop(0)
            if node.kind in ("constant", "function"):
                self._unexpected("operand", field)
            end = field.at + len(field.text)
            node = _Node("chain", node.at, end, (node, field.text[1:], field.at))
        if self.tokens and not self.tokens[0].spaced and self.tokens[0].text not in ("|", ")", ","):
            self._unexpected("operand")
        return node

    def _value(self, token: _Token, end: int) -> _Node:
        kind, text, at, _ = token
        if kind == "field":
            return _Node("field", at, end, (text[1:],))
        if kind == "variable":
            if text not in self.variables:
                _fail(self.source, at, f'undefined variable "{clean(text)}"')
            return _Node("variable", at, end, (text,))
        if kind == "string":
            return _Node("constant", at, end, (Safe(_string(self.source, at, text)),))
        if kind == "char":
            inner = _string(self.source, at, text)
            if len(inner) != 1:
                _fail(self.source, at, f"malformed character constant: {clean(text)}")
            return _Node("constant", at, end, (ord(inner),))
        if kind == "number":
            return _Node("constant", at, end, (_number(self.source, at, text),))
        if kind == "word":
            if text in _WORDS:
                return _Node("constant", at, end, (_WORDS[text],))
            if text == "nil":
                return _Node("constant", at, end, (None,))
            if text not in FUNCTIONS and text not in ("and", "or"):
                _fail(self.source, at, f'function "{clean(text)}" not defined')
            return _Node("function", at, end, (text,))
        if text == ".":
            return _Node("dot", at, end, ())
        if text == "(":
            return self._parenthesis(token)
        return self._unexpected("operand", token)

    def _parenthesis(self, token: _Token) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            _fail(self.source, token.at, f"more than {_DEEPEST} parentheses in each other")
        pipe = self._pipeline("parenthesized pipeline")
        if not self.tokens or self.tokens[0].text != ")":
            _fail(self.source, token.at, "unclosed left paren")
        end = self.tokens.pop(0).at + 1
        self.depth -= 1
        return pipe._replace(at=token.at, end=end)


def _pieces(source: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield (place, text, None) and (place, "", what is between the braces); {{- and -}} trim."""
    at, trim = 0, False
    while at < len(source):
        start = source.find("{{", at)
        text = source[at:] if start < 0 else source[at:start]
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
            sign = clean(text[place])
            what = "bad number syntax" if sign.isdigit() else "unexpected bad character"
            _fail(source, at + place, f"{what}: {sign!r} in command")
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
        if plain.lstrip("+-").isdigit():
            return int(plain[:40])
        return float(plain)
    except ValueError:
        _fail(source, at, f"bad number syntax: {clean(text)!r}")


# --- executing ---------------------------------------------------------------------------------


class _Execution:
    """One rendering: the data, and the variables that are known at this point."""

    def __init__(self, source: str, data: Any) -> None:
        self.source, self.root = source, data
        self.variables: list[tuple[str, Any]] = [("$", data)]

    def walk(self, body: list[_Node], dot: Any = MISSING) -> Iterator[str]:
        dot = self.root if dot is MISSING else dot
        known = len(self.variables)
        for node in body:
            if node.kind == "text":
                yield node.parts[0]
            elif node.kind == "pipe":
                value = self.pipe(node, dot)
                if not node.parts[1]:
                    yield printed(value)
            elif node.kind == "range":
                yield from self._range(node, dot)
            else:
                yield from self._branch(node, dot)
        del self.variables[known:]

    def _branch(self, node: _Node, dot: Any) -> Iterator[str]:
        pipe, body, rest = node.parts
        known = len(self.variables)
        value = self.pipe(pipe, dot)
        if is_true(value):
            yield from self.walk(body, value if node.kind == "with" else dot)
        else:
            yield from self.walk(rest, dot)
        del self.variables[known:]

    def _range(self, node: _Node, dot: Any) -> Iterator[str]:
        pipe, body, rest = node.parts
        commands, names, assigns = pipe.parts
        known = len(self.variables)
        value = self.pipe(pipe._replace(parts=(commands, [], False)), dot)
        pairs = self._pairs(pipe, value)
        if not assigns:
            self.variables += [(name, None) for name in names]
        for key, each in pairs:
            for name, one in zip(names, [each] if len(names) == 1 else [key, each], strict=False):
                self._assign(name, one)
            yield from self.walk(body, each)
        if not pairs:
            yield from self.walk(rest, dot)
        del self.variables[known:]

    def _pairs(self, pipe: _Node, value: Any) -> list[tuple[Any, Any]]:
        if value is None or value is MISSING:
            return []
        if isinstance(value, dict):
            return sorted(value.items())
        if isinstance(value, list | tuple):
            return list(enumerate(value))
        return self.fail(pipe, f"range can't iterate over {printed(value)[:60]}")

    def _assign(self, name: str, value: Any) -> None:
        for place in range(len(self.variables) - 1, -1, -1):
            if self.variables[place][0] == name:
                self.variables[place] = (name, value)
                return

    def pipe(self, node: _Node, dot: Any) -> Any:
        commands, names, assigns = node.parts
        value: Any = None
        for number, command in enumerate(commands):
            value = self._command(command, dot, [value] if number else [])
        if names and assigns:
            self._assign(names[0], value)
        elif names:
            self.variables.append((names[0], value))
        return value

    def _command(self, node: _Node, dot: Any, final: list[Any]) -> Any:
        first, *rest = node.parts
        if first.kind == "function":
            return self._call(node, first.parts[0], rest, final, dot)
        if not rest and not final:
            return self._value(first, dot)
        function = self._value(first, dot, bare=True)
        if not callable(function):
            self.fail(first, f"{self._shown(first)} is no method, but has arguments")
        return self._apply(first, function, [self._value(one, dot) for one in rest] + final)

    def _call(self, node: _Node, name: str, rest: list[_Node], final: list[Any], dot: Any) -> Any:
        if name in ("and", "or"):  # they stop at the first that decides
            if not rest and not final:
                self.fail(node, f"wrong number of args for {name}: want at least 1 got 0")
            value: Any = None
            for one in rest:
                value = self._value(one, dot)
                if is_true(value) == (name == "or"):
                    return value
            return final[0] if final else value
        return self._apply(node, FUNCTIONS[name], [self._value(one, dot) for one in rest] + final)

    def _apply(self, node: _Node, function: Callable[..., Any], args: list[Any]) -> Any:
        name = function.__name__
        if node.kind in ("field", "chain"):  # a method: its name is the field's
            name = node.parts[0] if node.kind == "field" else node.parts[1]
        try:
            return function(*args)
        except _CallError as error:
            self.fail(node, f"error calling {name}: {error}")
        except TypeError:
            self.fail(node, f"wrong arguments for {name}")

    def _value(self, node: _Node, dot: Any, *, bare: bool = False) -> Any:
        """Return a node's value; a method is called, unless the `bare` one is asked for."""
        if node.kind == "constant":
            return node.parts[0]
        if node.kind == "dot":
            return dot
        if node.kind == "pipe":
            return self.pipe(node, dot)
        if node.kind == "function":
            return self._call(node, node.parts[0], [], [], dot)
        if node.kind == "variable":
            return next(value for name, value in self.variables[::-1] if name == node.parts[0])
        if node.kind == "field":
            found = self._field(node, node.at, dot, node.parts[0])
        else:
            inner, name, at = node.parts
            found = self._field(node, at, self._value(inner, dot), name)
        return self._apply(node, found, []) if callable(found) and not bare else found

    def _field(self, node: _Node, at: int, value: Any, name: str) -> Any:
        if isinstance(value, Fields):
            if name not in value:
                known = ", ".join(value)
                self.fail(
                    node._replace(at=at), f"there is no field {name}", f"one of {known}", node
                )
            return value[name]
        if isinstance(value, dict):
            return value.get(name, MISSING)
        if value is None or value is MISSING:
            what = f"nil pointer evaluating interface {{}}.{name}"
        else:
            what = f"can't evaluate field {name} in type {_type(value)}"
        return self.fail(node._replace(at=at), what, "", node)

    def _shown(self, node: _Node) -> str:
        return clean(self.source[node.at : node.end])

    def fail(self, node: _Node, what: str, hint: str = "", whole: _Node | None = None) -> NoReturn:
        before = self.source[: node.at]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
        shown = self._shown(whole or node)
        text = f'template: :{line}:{column}: executing "" at <{shown}>: {clean(what)}'
        raise TemplateError(f"template parsing error: {text}", hint, status=1)


# --- values ------------------------------------------------------------------------------------


class _CallError(Exception):
    """A function cannot do it with these arguments."""


def is_true(value: Any) -> bool:
    """Return True for what `if` takes as true: no zero, no empty text, list or map, no nil."""
    return value is not MISSING and bool(value)


def printed(value: Any) -> str:
    """Return a value as {{.}} prints it: Go's %v; what is not there is <no value>."""
    if value is None or value is MISSING:
        return "<no value>"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, Safe):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value is MISSING:
        return "<nil>"
    if isinstance(value, float):
        text = repr(value)
        return text.removesuffix(".0")
    if isinstance(value, dict):
        rows = (f"{_plain(key)}:{_plain(each)}" for key, each in sorted(value.items()))
        return f"map[{' '.join(rows)}]"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_plain, value))}]"
    return str(value)


def _type(value: Any) -> str:
    kinds = {bool: "bool", int: "int", float: "float64"}
    if isinstance(value, str):
        return "string"
    if isinstance(value, list | tuple):
        return "slice"
    return kinds.get(type(value), "map" if isinstance(value, dict) else "nil")


def json_of(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, without the functions in it; signs that a terminal obeys are \\u…."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        _data(value), ensure_ascii=False, separators=separators, indent=indent, allow_nan=False
    )
    return clean_json(text)


def _data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _data(each) for key, each in value.items() if not callable(each)}
    if isinstance(value, list | tuple):
        return [_data(each) for each in value]
    return None if value is MISSING else value


def _json(value: Any) -> Safe:
    return Safe(json_of(value))


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            if not isinstance(key, str):
                raise _CallError(f"value has type {_type(key)}; should be string")
            texts = all(isinstance(each, str) for each in value.values())
            value = value.get(key, "" if texts else MISSING)
        elif isinstance(value, list | tuple | str):
            if isinstance(key, bool) or not isinstance(key, int):
                raise _CallError(f"cannot index slice/array with type {_type(key)}")
            if not 0 <= key < len(value):
                raise _CallError(f"index out of range: {key}")
            value = value[key] if not isinstance(value, str) else ord(value[key])
        elif value is None or value is MISSING:
            raise _CallError("index of untyped nil")
        else:
            raise _CallError(f"can't index item of type {_type(value)}")
    return value


def _len(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode(errors="surrogateescape"))
    if isinstance(value, dict | list | tuple):
        return len(value)
    raise _CallError(f"len of type {_type(value)}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _CallError(f"wrong type: expected string; found {_type(value)}")
    return value


def _join(values: Any, separator: Any) -> Safe:
    if values is None or values is MISSING:
        return Safe("")
    if not isinstance(values, list | tuple):
        raise _CallError(f"wrong type: expected a list of strings; found {_type(values)}")
    return Safe(_plain(_text(separator)).join(_plain(_text(each)) for each in values))


def _split(text: Any, separator: Any) -> list[str]:
    whole, between = _text(text), _text(separator)
    return whole.split(between) if between else list(whole)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _CallError(f"wrong type: expected int; found {_type(value)}")
    if value > _LONGEST:
        raise _CallError(f"{value} is more than {_LONGEST}")
    return value


def _truncate(text: Any, length: Any) -> str:
    return _text(text)[: max(0, _count(length))]


def _pad(text: Any, before: Any, after: Any) -> str:
    if not _text(text):
        return ""
    return Safe(" " * _count(before) + _plain(text) + " " * _count(after))


def _title(text: Any) -> str:
    return re.sub(r"(?<!\S)\S", lambda match: match[0].upper(), _text(text))


def _println(*values: Any) -> Safe:
    return Safe(" ".join(map(_plain, values)) + "\n")


def _print(*values: Any) -> Safe:
    """Go's Sprint: a blank between two values of which neither is a text."""
    out = ""
    for number, value in enumerate(values):
        both = number and not isinstance(value, str) and not isinstance(values[number - 1], str)
        out += (" " if both else "") + _plain(value)
    return Safe(out)


_VERB = re.compile(r"%([-+# 0]*)(\d+)?(?:\.(\d*))?(.)?", re.DOTALL)


def _printf(form: Any, *values: Any) -> Safe:
    """Go's Sprintf, with %s %d %v %q %t %x %f %g %c and %%, a width and a precision."""
    rest = list(values)

    def one(match: re.Match[str]) -> str:
        flags, width, precision, verb = match.groups()
        if verb is None:
            return "%!(NOVERB)"
        if verb == "%":
            return "%"
        if not rest:
            return f"%!{clean(verb)}(MISSING)"
        text = _verb(verb, rest.pop(0), precision)
        size = _count(int((width or "0")[:9]))
        if "-" in flags:
            return text.ljust(size)
        return text.zfill(size) if "0" in flags and verb in "dxfg" else text.rjust(size)

    text = _VERB.sub(one, _plain(_text(form)))
    if rest:
        extra = ", ".join(f"{_type(each)}={_plain(each)}" for each in rest)
        text += f"%!(EXTRA {extra})"
    return Safe(text)


def _verb(verb: str, value: Any, precision: str | None) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    digits = int(precision[:4] or 0) if precision is not None else None
    if verb == "v":
        return _plain(value)
    if verb == "s" and not number and not isinstance(value, bool):
        return _plain(value)[:digits]
    if verb == "q" and isinstance(value, str):
        return json_of(str(value))
    if verb == "q" and isinstance(value, list | tuple):
        return f"[{' '.join(_verb('q', each, None) for each in value)}]"
    if verb == "d" and isinstance(value, int) and number:
        return str(value)
    if verb == "t" and isinstance(value, bool):
        return _plain(value)
    if verb == "x" and isinstance(value, int) and number:
        return f"{value:x}"
    if verb == "x" and isinstance(value, str):
        return value.encode(errors="surrogateescape").hex()
    if verb == "c" and isinstance(value, int) and number and 0 <= value < 0xD800:
        return clean(chr(value))
    if verb in "fg" and isinstance(value, float):
        return f"{value:.{6 if digits is None else digits}f}" if verb == "f" else _plain(value)
    return f"%!{clean(verb)}({_type(value)}={_plain(value)})"


def _same_kind(one: Any, other: Any) -> bool:
    for kind in (bool, (int, float), str):
        if isinstance(one, kind) or isinstance(other, kind):
            return isinstance(one, kind) and isinstance(other, kind)
    return False


def _eq(one: Any, *others: Any) -> bool:
    if not others:
        raise _CallError("missing argument for comparison")
    for other in others:
        nothing = [each is None or each is MISSING for each in (one, other)]
        if all(nothing):
            return True
        if any(nothing):
            continue
        if not _same_kind(one, other):
            raise _CallError("incompatible types for comparison")
        if one == other:
            return True
    return False


def _lt(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or not _same_kind(one, other):
        raise _CallError("incompatible types for comparison")
    return bool(one < other)


def _slice(value: Any, *places: Any) -> Any:
    start, end = [*places, 0][0], (places[1] if len(places) > 1 else len(value))
    if not 0 <= _count(start) <= _count(end) <= len(value):
        raise _CallError(f"index out of range: {start}:{end}")
    return value[start:end]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "json": _json, "index": _index, "len": _len, "join": _join, "split": _split,
    "lower": lambda text: _text(text).lower(), "upper": lambda text: _text(text).upper(),
    "title": _title, "truncate": _truncate, "pad": _pad,
    "print": _print, "println": _println, "printf": _printf, "slice": _slice,
    "not": lambda value: not is_true(value),
    "eq": _eq, "ne": lambda one, other: not _eq(one, other),
    "lt": _lt, "le": lambda one, other: _lt(one, other) or _eq(one, other),
    "gt": lambda one, other: not (_lt(one, other) or _eq(one, other)),
    "ge": lambda one, other: not _lt(one, other),
}  # fmt: skip
"""The functions of a template by name; `and` and `or`, which stop early, are _Execution's."""
for _name, _function in FUNCTIONS.items():
    _function.__name__ = _name


# --- docker's forms of --format ----------------------------------------------------------------


def table_parts(form: str) -> tuple[str, bool]:
    """Return the template of a --format, and True if it is a `table …`; \\t and \\n are read."""
    is_table = form.startswith("table")
    form = form.removeprefix("table").strip() if is_table else form
    return form.replace("\\t", "\t").replace("\\n", "\n"), is_table
