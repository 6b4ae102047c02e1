"""Every hint that an error prints, read from the program's own source.

A hint is what stands in parentheses at the end of an error's line. Most are the second argument of
an error class (minirun.core.errors), the others the table there. They are found by reading the
source, so a new hint is here without further work. Parts that are known only when the error happens
stand as {…}.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import minirun
from minirun.core import errors
from minirun.core.errors import _GENERAL, HINTS
from minirun.knowledge.texts import ENGLISH, HINT, Topic, words

_SOURCE = Path(minirun.__file__).parent
_SECOND = 1
_CLASSES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.MinirunError)
}


@dataclass(frozen=True)
class Hint:
    """A hint, and what prints it: "mount: EPERM", or an error's text and its module."""

    text: str
    by: tuple[str, ...]


@cache
def hints() -> tuple[Hint, ...]:
    """Return all hints, each once, in alphabetical order."""
    found: dict[str, list[str]] = {}
    for (call, errno), text in HINTS.items():
        found.setdefault(text, []).append(f"{call}: {errno}")
    for errno, text in _GENERAL.items():
        found.setdefault(text, []).append(f"any other call: {errno}")
    for path in sorted(_SOURCE.rglob("*.py")):
        for text, error in _in_source(path):
            found.setdefault(text, []).append(error)
    rows = (Hint(text, tuple(dict.fromkeys(by))) for text, by in found.items())
    return tuple(sorted(rows, key=lambda hint: hint.text.lower()))


def topic(hint: Hint, language: str = ENGLISH) -> Topic:
    """Return a hint as a topic: the errors that print it are its causes."""
    form = words(language)["hint"]
    cause = form["cause"].format(errors="; ".join(hint.by))
    return Topic(hint.text, form["title"], cause=cause, advice=hint.text, kind=HINT)


def _in_source(path: Path) -> list[tuple[str, str]]:
    """Return (hint, the error that prints it) for every error made in a file."""
    source = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in source for name in _CLASSES):
        return []
    tree = ast.parse(source)
    module = path.relative_to(_SOURCE).with_suffix("").as_posix()
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = [list(ast.walk(function)) for function in functions]
    outer = _assigned(tree.body)
    for function, nodes in zip(functions, inside, strict=True):
        returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value]
        outer[f"{function.name}()"] = returned
    found = []
    for nodes in inside:
        names = outer | _assigned(nodes)
        for call in nodes:
            if isinstance(call, ast.Call) and (given := _given(call)) is not None:
                said = "".join(f": {text}" for text in _texts(call.args[0], names)[:1])
                error = f"{_name(call)}{said} ({module})"
                found += [(text, error) for text in _texts(given, names)]
    return found


def _given(call: ast.Call) -> ast.expr | None:
    """Return the expression that an error class gets as its hint."""
    if _name(call) not in _CLASSES or not call.args:
        return None
    if len(call.args) > _SECOND:
        return call.args[_SECOND]
    return next((word.value for word in call.keywords if word.arg == "hint"), None)


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return name → what is assigned to it, one expression for each assignment."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _texts(node: ast.expr, names: dict[str, list[ast.expr]], depth: int = 3) -> list[str]:
    """Return the texts that an expression may become; none where it is made of other things."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and node.value else []
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.Constant) else "{…}" for p in node.values]
        return ["".join(map(str, parts))]
    if isinstance(node, ast.IfExp):
        return _texts(node.body, names, depth) + _texts(node.orelse, names, depth)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in _texts(value, names, depth)]
    if isinstance(node, (ast.Name, ast.Call)) and depth:
        key = node.id if isinstance(node, ast.Name) else f"{_name(node)}()"
        values = names.get(key, [])
        return [text for value in values for text in _texts(value, names, depth - 1)]
    return []
